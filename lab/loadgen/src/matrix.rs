//! Vectors from files: .fbin, .fvecs and .npy of float32.
//!
//! Files are read as a whole. Lengths are checked before they are used.

use std::fs;
use std::path::Path;

use crate::errors::Error;

/// Rows of the same width, one after another.
#[derive(Debug, PartialEq)]
pub(crate) struct Matrix<T> {
    pub(crate) width: usize,
    pub(crate) values: Vec<T>,
}

impl<T> Matrix<T> {
    /// Row `number`.
    pub(crate) fn row(&self, number: usize) -> &[T] {
        &self.values[number * self.width..][..self.width]
    }
}

/// The vectors of a file.
pub(crate) fn read_vectors(path: &Path) -> Result<Matrix<f32>, Error> {
    read(path, |bytes| match ending(path) {
        "fbin" => bin(bytes).and_then(|(width, body, rows)| exact(width, body, rows, f32::from_le_bytes)),
        "fvecs" => vecs(bytes, f32::from_le_bytes),
        "npy" => {
            let Npy { descr, rows, width, body } = npy(bytes)?;
            match descr {
                "<f4" => exact(width, body, rows, f32::from_le_bytes),
                _ => Err(format!("its numbers are {descr}; save array.astype('<f4')")),
            }
        }
        _ => Err("vectors are .fbin, .fvecs or .npy".to_string()),
    })
}

fn read<T>(path: &Path, parse: impl FnOnce(&[u8]) -> Result<Matrix<T>, String>) -> Result<Matrix<T>, Error> {
    let name = path.display();
    let bytes = fs::read(path).map_err(|error| Error::Failure(format!("{name}: {error}")))?;
    let matrix = parse(&bytes).map_err(|what| Error::Use(format!("{name}: {what}")))?;
    if matrix.values.is_empty() {
        return Err(Error::Use(format!("{name}: it has no rows")));
    }
    Ok(matrix)
}

fn ending(path: &Path) -> &str {
    path.extension().and_then(|ending| ending.to_str()).unwrap_or_default()
}

/// Reads `rows` rows of `width` numbers, which must be all of the body.
fn exact<T, const N: usize>(
    width: usize,
    body: &[u8],
    rows: usize,
    number: impl Fn([u8; N]) -> T,
) -> Result<Matrix<T>, String> {
    let wanted = rows.checked_mul(width).and_then(|count| count.checked_mul(N));
    if wanted != Some(body.len()) || width == 0 {
        return Err(format!("it says {rows} rows of {width} numbers, {} bytes of them follow", body.len()));
    }
    Ok(Matrix { width, values: body.as_chunks().0.iter().copied().map(number).collect() })
}

/// Splits a file that has two 32-bit numbers, the rows and the width, and then the rows. Returns
/// the width, the bytes of the rows, and the number of rows.
fn bin(bytes: &[u8]) -> Result<(usize, &[u8], usize), String> {
    let (rows, rest) = u32_of(bytes).ok_or("it has fewer bytes than its header")?;
    let (width, rest) = u32_of(rest).ok_or("it has fewer bytes than its header")?;
    Ok((width, rest, rows))
}

/// Reads rows, each of which begins with its width.
fn vecs<T>(bytes: &[u8], number: impl Fn([u8; 4]) -> T + Copy) -> Result<Matrix<T>, String> {
    let (width, _) = u32_of(bytes).ok_or("it has no row")?;
    let row_bytes =
        width.checked_mul(4).and_then(|bytes| bytes.checked_add(4)).ok_or("its first row is too long")?;
    if width == 0 || !bytes.len().is_multiple_of(row_bytes) {
        return Err(format!("its first row has {width} numbers, and {} bytes are not whole rows", bytes.len()));
    }
    let mut values = Vec::with_capacity(bytes.len() / 4);
    for (row, bytes) in bytes.chunks_exact(row_bytes).enumerate() {
        match u32_of(bytes) {
            Some((own, rest)) if own == width => values.extend(rest.as_chunks().0.iter().copied().map(number)),
            _ => return Err(format!("row {row} has another width than the first, {width}")),
        }
    }
    Ok(Matrix { width, values })
}

fn u32_of(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*first) as usize, rest))
}

/// The values in the header of a .npy file, and the bytes of its numbers.
struct Npy<'b> {
    descr: &'b str,
    rows: usize,
    width: usize,
    body: &'b [u8],
}

/// Parses a .npy file with an array of two dimensions in C order.
fn npy(bytes: &[u8]) -> Result<Npy<'_>, String> {
    let broken = "its .npy header is broken";
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or("it does not begin like a .npy file")?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or(broken)?;
    let (length, rest) = if version[0] == 1 {
        let (length, rest) = rest.split_first_chunk().ok_or(broken)?;
        (usize::from(u16::from_le_bytes(*length)), rest)
    } else {
        u32_of(rest).ok_or(broken)?
    };
    let (header, body) = rest.split_at_checked(length).ok_or(broken)?;
    let header = std::str::from_utf8(header).map_err(|_| broken)?;
    let after = |key: &str| header.split_once(key).map(|(_, after)| after.trim_start());
    if !after("'fortran_order':").ok_or(broken)?.starts_with("False") {
        return Err("it is in Fortran order; save np.ascontiguousarray(array)".to_string());
    }
    let descr = after("'descr':").and_then(|text| text.split('\'').nth(1)).ok_or(broken)?;
    let shape = after("'shape':").and_then(|text| text.strip_prefix('(')?.split(')').next()).ok_or(broken)?;
    let sizes: Vec<&str> = shape.split(',').map(str::trim).filter(|size| !size.is_empty()).collect();
    let [rows, width] = sizes[..] else {
        return Err(format!("its shape is ({shape}); an array of two dimensions is wanted"));
    };
    let size = |text: &str| text.parse().map_err(|_| broken);
    Ok(Npy { descr, rows: size(rows)?, width: size(width)?, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn written(name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("pagehop-loadgen-{}-{name}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        path
    }

    fn npy_file(descr: &str, shape: &str, body: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\0".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn vectors_are_read_from_every_format() {
        let [one, two] = [1.0_f32, -2.5].map(f32::to_bits);
        for (name, bytes) in [
            ("v.fbin", numbers(&[2, 1, one, two])),
            ("v.fvecs", numbers(&[1, one, 1, two])),
            ("v.npy", npy_file("<f4", "(2, 1)", &numbers(&[one, two]))),
        ] {
            let path = written(name, &bytes);
            let matrix = read_vectors(&path).unwrap();
            assert_eq!(matrix, Matrix { width: 1, values: vec![1.0, -2.5] }, "{name}");
            assert_eq!(matrix.values.len(), 2 * matrix.width);
            assert_eq!(matrix.row(1), [-2.5]);
            fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_file_that_cannot_be_right_is_refused() {
        for (name, bytes, what) in [
            ("a.fbin", numbers(&[2, 2, 0, 0, 0]), "2 rows of 2"),
            ("b.fbin", numbers(&[u32::MAX, u32::MAX]), "rows"),
            ("c.fbin", numbers(&[0, 4]), "no rows"),
            ("d.fbin", vec![1, 2, 3], "header"),
            ("e.fvecs", numbers(&[1, 0, 2, 0]), "row 1 has another width"),
            ("f.fvecs", numbers(&[3, 0, 0]), "whole rows"),
            ("g.npy", npy_file("<f8", "(1, 1)", &[0; 8]), "astype"),
            ("h.npy", npy_file("<f4", "(1,)", &[0; 4]), "two dimensions"),
            ("i.npy", npy_file("<f4", "(1, 2)", &[0; 4]), "1 rows of 2"),
            ("j.npy", b"\x93NUMPY\x01\0\xff\xff".to_vec(), "broken"),
            ("k.txt", vec![], ".fbin"),
        ] {
            let path = written(name, &bytes);
            let Error::Use(text) = read_vectors(&path).unwrap_err() else { panic!("{name}") };
            assert!(text.contains(what) && text.contains(name), "{name}: {text}");
            fs::remove_file(path).unwrap();
        }
        assert!(matches!(read_vectors(Path::new("missing.fbin")), Err(Error::Failure(_))));
    }
}
