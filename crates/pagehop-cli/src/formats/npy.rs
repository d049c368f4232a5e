//! NumPy's .npy, versions 1 to 3: a header that is a Python dictionary, then the numbers.
//!
//! The header is `\x93NUMPY`, two bytes of version, the length of the dictionary (16 bits in
//! version 1, else 32), and a dictionary such as `{'descr': '<f4', 'fortran_order': False, 'shape':
//! (60000, 784), }`.

use std::io::Read;
use std::path::Path;

use pagehop_engine::Error;

use super::layout::refuse;
use super::reading::read_exact;
use super::{Element, Layout};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest dictionary that is accepted, in bytes. NumPy writes fewer than 200 bytes for a plain
/// array.
const DICTIONARY_BYTES_MAX: u64 = 1 << 16;

/// Length of a header that is written, in bytes: a multiple of 64 with room for any shape.
const NEW_HEADER_BYTES: usize = 128;

/// The dimensions that an array must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `(rows,)`: each row is one number.
    Column,
    /// `(rows, width)`.
    Matrix,
}

/// The layout of a file that is `file_bytes` long.
pub(crate) fn layout(path: &Path, file: &mut impl Read, file_bytes: u64, shape: Shape) -> Result<Layout, Error> {
    let (dictionary, header_bytes) = read_dictionary(path, file, file_bytes)?;
    let header = match Parser::new(&dictionary).header() {
        Ok(header) => header,
        Err(what) => return refuse(path, format!("its .npy header is broken: {what}")),
    };
    let element = element(path, &header.descr)?;
    let (rows, width) = match (shape, header.shape.as_slice()) {
        (Shape::Column, &[rows]) => (rows, 1),
        (Shape::Matrix, &[rows, width]) => (rows, width),
        (wanted, _) => {
            let wanted = match wanted {
                Shape::Column => "1 dimension, (rows,)",
                Shape::Matrix => "2 dimensions, (rows, width)",
            };
            let found = &header.shape;
            return refuse(path, format!("the array has shape {found:?}, it must have {wanted}; reshape it"));
        }
    };
    if header.fortran_order && rows > 1 && width > 1 {
        return refuse(
            path,
            "the array is in Fortran order, its rows are not contiguous; \
             save np.ascontiguousarray(array)",
        );
    }
    let layout = Layout { header_bytes, rows, width, prefixed: false, element };
    layout.check_length(path, file_bytes)?;
    Ok(layout)
}

/// The header of an array of numbers of a `kind` such as `<i8`, as NumPy would write it. The array
/// is a matrix, or a column if `width` is `None`. The header has the same length for every shape.
pub(super) fn new_header(kind: &str, rows: u64, width: Option<usize>) -> Vec<u8> {
    let width = width.map_or_else(String::new, |width| format!(" {width}"));
    let dictionary = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({rows},{width}), }}");
    let (before, padded) = (MAGIC.len() + 4, NEW_HEADER_BYTES);
    let mut header = MAGIC.to_vec();
    header.extend([1, 0]);
    let length = u16::try_from(padded - before).expect("two numbers fit in one line");
    header.extend(length.to_le_bytes());
    header.extend(dictionary.as_bytes());
    header.resize(padded - 1, b' ');
    header.push(b'\n');
    header
}

/// The dictionary, and the position of its end in the file, in bytes.
fn read_dictionary(path: &Path, file: &mut impl Read, file_bytes: u64) -> Result<(String, u64), Error> {
    let mut start = [0; 8];
    if file_bytes < start.len() as u64 {
        return refuse(path, format!("it has {file_bytes} bytes, too few for a .npy file"));
    }
    read_exact(path, file, &mut start)?;
    let [magic @ .., major, minor] = start;
    if magic != *MAGIC {
        return refuse(path, "it does not begin like a .npy file; is the name right?");
    }
    let length_bytes = match major {
        1 => 2,
        2 | 3 => 4,
        _ => {
            return refuse(path, format!("it is .npy version {major}.{minor}; 1 to 3 are read"));
        }
    };
    let before = start.len() as u64 + length_bytes;
    let mut length = [0; 4];
    if file_bytes < before {
        return refuse(path, format!("it has {file_bytes} bytes, its .npy header was cut short"));
    }
    read_exact(path, file, &mut length[..length_bytes as usize])?;
    let length = u64::from(u32::from_le_bytes(length));
    if length > DICTIONARY_BYTES_MAX {
        return refuse(path, format!("its .npy header says that it has {length} bytes"));
    }
    if file_bytes < before + length {
        return refuse(path, format!("its .npy header says {length} bytes and {} follow", file_bytes - before));
    }
    let mut dictionary = vec![0; length as usize];
    read_exact(path, file, &mut dictionary)?;
    match String::from_utf8(dictionary) {
        Ok(dictionary) => Ok((dictionary, before + length)),
        Err(_) => refuse(path, "its .npy header is not text"),
    }
}

fn element(path: &Path, descr: &str) -> Result<Element, Error> {
    let element = match descr {
        "<f2" => Element::F16,
        "<f4" => Element::F32,
        "<f8" => Element::F64,
        "|i1" | "<i1" => Element::I8,
        "|u1" | "<u1" => Element::U8,
        "<i4" => Element::I32,
        "<i8" => Element::I64,
        "<u4" => Element::U32,
        "<u8" => Element::U64,
        _ if descr.starts_with('>') => {
            return refuse(
                path,
                format!("its numbers are big-endian ({descr:?}); convert them with astype('<f4')"),
            );
        }
        _ => {
            return refuse(path, format!("its numbers are {descr:?}; convert them with astype('float32')"));
        }
    };
    Ok(element)
}

struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

/// A parser of the few Python literals that a header has.
struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        Self { rest: text }
    }

    fn header(mut self) -> Result<Header, String> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.accept('}') {
            let key = self.string()?;
            self.expect(':')?;
            let repeated = match key.as_str() {
                "descr" => descr.replace(self.string()?).is_some(),
                "fortran_order" => fortran_order.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.tuple()?).is_some(),
                _ => return Err(format!("it has the key {key:?}")),
            };
            if repeated {
                return Err(format!("it has the key {key:?} twice"));
            }
            if !self.accept(',') {
                self.expect('}')?;
                break;
            }
        }
        if !self.rest.trim().is_empty() {
            return Err(format!("{:?} follows the dictionary", start_of(self.rest.trim())));
        }
        let missing = |key: &str| format!("the key {key:?} is missing");
        Ok(Header {
            descr: descr.ok_or_else(|| missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }

    fn accept(&mut self, wanted: char) -> bool {
        let rest = self.rest.trim_start();
        let found = rest.strip_prefix(wanted);
        self.rest = found.unwrap_or(rest);
        found.is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.accept(wanted) {
            return Ok(());
        }
        Err(format!("{wanted:?} is missing before {:?}", start_of(self.rest)))
    }

    fn string(&mut self) -> Result<String, String> {
        let quote = if self.accept('"') { '"' } else { '\'' };
        if quote == '\'' && !self.accept(quote) {
            // NumPy writes the type of a record as a list.
            return Err(format!("a string is missing before {:?}", start_of(self.rest)));
        }
        let Some((string, rest)) = self.rest.split_once(quote) else {
            return Err("a string has no end".to_owned());
        };
        self.rest = rest;
        Ok(string.to_owned())
    }

    fn boolean(&mut self) -> Result<bool, String> {
        let rest = self.rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(format!("True or False is missing before {:?}", start_of(rest)))
    }

    fn tuple(&mut self) -> Result<Vec<u64>, String> {
        let mut numbers = Vec::new();
        self.expect('(')?;
        while !self.accept(')') {
            numbers.push(self.number()?);
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(numbers)
    }

    fn number(&mut self) -> Result<u64, String> {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, rest) = rest.split_at(end);
        // Python 2 wrote an L after long numbers.
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        if digits.is_empty() {
            return Err(format!("a number is missing before {:?}", start_of(rest)));
        }
        digits.parse().map_err(|_| format!("{} is too large for a shape", start_of(digits)))
    }
}

/// The first 20 characters of `text`, for errors.
fn start_of(text: &str) -> &str {
    let end = text.char_indices().nth(20).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Result<Header, String> {
        Parser::new(text).header()
    }

    #[test]
    fn reads_what_numpy_writes() {
        let numpy = "{'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784), }       \n";
        let header = header(numpy).unwrap();
        assert_eq!(header.descr, "<f4");
        assert!(!header.fortran_order);
        assert_eq!(header.shape, [60000, 784]);
    }

    #[test]
    fn reads_other_spellings_of_the_same() {
        for text in [
            "{\"shape\":(60000,784),\"fortran_order\":False,\"descr\":\"<f4\"}",
            "{ 'shape' : ( 60000L , 784L, ) , 'descr': '<f4' ,'fortran_order':False}",
        ] {
            assert_eq!(header(text).unwrap().shape, [60000, 784]);
        }
        let scalar = header("{'descr': '<f4', 'fortran_order': True, 'shape': ()}").unwrap();
        assert!(scalar.shape.is_empty() && scalar.fortran_order);
    }

    #[test]
    fn says_what_is_broken() {
        for (text, expected) in [
            ("", "'{' is missing"),
            ("{'descr': '<f4', 'shape': (1, 2)}", "\"fortran_order\" is missing"),
            ("{'descr': [('a', '<f4')], 'shape': (1,)}", "a string is missing"),
            ("{'descr': '<f4', 'descr': '<f4'}", "twice"),
            ("{'descr': '<f4", "no end"),
            ("{'shape': (99999999999999999999999, 2)}", "too large"),
            ("{'shape': (-1, 2)}", "a number is missing before \"-1, 2)}\""),
            ("{'fortran_order': Maybe}", "True or False"),
            ("{'order': 'C'}", "the key \"order\""),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)} 7", "\"7\" follows"),
        ] {
            let what = header(text).err().expect(text);
            assert!(what.contains(expected), "{text}: {what}");
        }
    }

    #[test]
    fn the_header_written_is_one_that_is_read() {
        for (rows, width) in [(1, Some(1)), (10_000, Some(10)), (u64::MAX, Some(usize::MAX)), (7, None)] {
            let written = new_header("<i8", rows, width);
            assert_eq!(written.len(), NEW_HEADER_BYTES);
            let length = u16::from_le_bytes([written[8], written[9]]);
            assert_eq!(usize::from(length) + 10, written.len());
            let header = header(std::str::from_utf8(&written[10..]).unwrap()).unwrap();
            assert_eq!((header.descr.as_str(), header.fortran_order), ("<i8", false));
            assert_eq!(
                header.shape,
                [Some(rows), width.map(|width| width as u64)].into_iter().flatten().collect::<Vec<_>>()
            );
        }
    }
}
