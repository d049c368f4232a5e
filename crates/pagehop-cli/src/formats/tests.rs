//! Every format: what is read from it, what is refused with which words, and that no bytes cause a
//! panic.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use pagehop_engine::{Error, IdKind, VectorSource};
use proptest::prelude::*;

use super::format::Format;
use super::*;

const FORMATS: [(&str, Format); 8] = [
    ("npy", Format::Npy),
    ("fvecs", Format::Fvecs),
    ("bvecs", Format::Bvecs),
    ("ivecs", Format::Ivecs),
    ("fbin", Format::Fbin),
    ("u8bin", Format::U8bin),
    ("i8bin", Format::I8bin),
    ("ibin", Format::Ibin),
];

/// A folder for one test. It is removed when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pagehop-formats-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn npy(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let dictionary = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dictionary.len() as u16).to_le_bytes());
    bytes.extend(dictionary.as_bytes());
    bytes.extend(data);
    bytes
}

fn bin(rows: u32, width: u32, data: &[u8]) -> Vec<u8> {
    [&rows.to_le_bytes(), &width.to_le_bytes(), data].concat()
}

fn f32s(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn i32s(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The dimensions, ids and components of a file of vectors. It is read twice, because a build reads
/// a source more than once.
fn read(path: &Path, ids: Option<&Path>) -> Result<(usize, Vec<u64>, Vec<f32>), Error> {
    let mut vectors = Vectors::open(path)?;
    ids.iter().try_for_each(|ids| vectors.open_ids(ids, IdKind::Int))?;
    let mut pass = || {
        let (mut row_ids, mut components) = (Vec::new(), Vec::new());
        vectors.scan(&mut |ids, chunk| {
            row_ids.extend_from_slice(ids);
            components.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok::<_, Error>((row_ids, components))
    };
    let (first, second) = (pass()?, pass()?);
    assert_eq!(first, second);
    Ok((vectors.dim(), first.0, first.1))
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn every_format_gives_the_vectors_that_are_in_it() {
    let folder = Folder::new("every");
    let small = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let bytes = [1, 2, 3, 4, 5, 6];
    let halves: Vec<u8> = [0x3c00u16, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600].map(u16::to_le_bytes).concat();
    let doubles: Vec<u8> = small.iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect();
    let fvecs = [i32s(&[3]), f32s(&small[..3]), i32s(&[3]), f32s(&small[3..])].concat();
    for (name, content) in [
        ("f4.npy", npy("<f4", "False", "(2, 3)", &f32s(&small))),
        ("f2.npy", npy("<f2", "False", "(2, 3)", &halves)),
        ("f8.npy", npy("<f8", "False", "(2, 3)", &doubles)),
        ("u1.npy", npy("|u1", "False", "(2, 3)", &bytes)),
        ("i1.NPY", npy("|i1", "False", "(2, 3)", &bytes)),
        ("a.fvecs", fvecs),
        ("a.bvecs", [&i32s(&[3])[..], &bytes[..3], &i32s(&[3]), &bytes[3..]].concat()),
        ("a.fbin", bin(2, 3, &f32s(&small))),
        ("a.u8bin", bin(2, 3, &bytes)),
        ("a.i8bin", bin(2, 3, &bytes)),
    ] {
        let path = folder.write(name, &content);
        assert_eq!(read(&path, None).unwrap(), (3, vec![0, 1], small.to_vec()), "{name}");
    }
    let signed = folder.write("b.i8bin", &bin(1, 2, &[0xff, 0x80]));
    assert_eq!(read(&signed, None).unwrap().2, [-1.0, -128.0]);
}

#[test]
fn a_single_row_or_column_in_fortran_order_is_in_both_orders() {
    let folder = Folder::new("fortran");
    for shape in ["(1, 3)", "(3, 1)"] {
        let path = folder.write("a.npy", &npy("|u1", "True", shape, &[1, 2, 3]));
        assert_eq!(read(&path, None).unwrap().2, [1.0, 2.0, 3.0]);
    }
    let path = folder.write("a.npy", &npy("|u1", "True", "(2, 2)", &[1, 2, 3, 4]));
    assert!(refusal(read(&path, None)).contains("np.ascontiguousarray"));
}

#[test]
fn files_larger_than_a_chunk_are_read_in_order() {
    let folder = Folder::new("large");
    let (rows, dim) = (3000_u32, 1000_usize);
    let mut content = Vec::new();
    for row in 0..rows {
        content.extend(i32s(&[dim as i32]));
        content.extend(f32s(&vec![row as f32; dim]));
    }
    let path = folder.write("large.fvecs", &content);
    let ids: Vec<u8> = (0..u64::from(rows)).flat_map(|row| (row * 7).to_le_bytes()).collect();
    let ids = folder.write("ids.npy", &npy("<u8", "False", "(3000,)", &ids));
    let (_, ids, components) = read(&path, Some(&ids)).unwrap();
    assert!((0..rows).all(|row| ids[row as usize] == u64::from(row) * 7));
    assert!((0..rows).all(|row| components[row as usize * dim + 17] == row as f32));
}

#[test]
fn refusals_name_the_file_and_what_is_wrong() {
    let folder = Folder::new("refusals");
    let cut = npy("<f4", "False", "(2, 3)", &f32s(&[1.0; 5]));
    let (there, whole) = (cut.len(), cut.len() + 4);
    for (name, content, expected) in [
        ("cut.npy", cut, format!("{whole} bytes in all; the file has {there}, 4 fewer")),
        ("long.fbin", bin(1, 2, &[0; 9]), "1 x 2 float32 numbers, 16 bytes in all; the file has 17, 1 more".into()),
        ("huge.npy", npy("<f8", "False", "(4611686018427387904, 4)", &[]), "more than any file holds".into()),
        ("header.npy", b"\x93NUMPY\x01\x00\xff\xff{}".to_vec(), "says 65535 bytes and 2 follow".into()),
        ("header2.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{}".to_vec(), "2147483647 bytes".into()),
        ("version.npy", b"\x93NUMPY\x09\x00\x02\x00{}".to_vec(), "version 9.0".into()),
        ("magic.npy", b"not a numpy file".to_vec(), "does not begin like a .npy".into()),
        ("empty.npy", Vec::new(), "0 bytes".into()),
        ("none.npy", npy("<f4", "False", "(0, 3)", &[]), "it is empty: 0 x 3 numbers".into()),
        ("flat.npy", npy("<f4", "False", "(3,)", &[0; 12]), "shape [3], it must have 2".into()),
        ("big.npy", npy(">f4", "False", "(1, 1)", &[0; 4]), "big-endian".into()),
        ("int.npy", npy("<i8", "False", "(1, 1)", &[0; 8]), "holds int64 numbers".into()),
        ("object.npy", npy("|O", "False", "(1, 1)", &[0; 8]), "\"|O\"".into()),
        ("wide.fbin", bin(1, 4097, &[0; 4097 * 4]), "4097 dimensions; 1 to 4096".into()),
        ("none.fbin", bin(0, 4, &[]), "it is empty".into()),
        ("flat.fbin", bin(4, 0, &[]), "it is empty".into()),
        ("short.fbin", vec![1, 0, 0, 0], "the header alone needs 8".into()),
        ("most.fbin", bin(u32::MAX, u32::MAX, &[]), "more than any file holds".into()),
        ("cut.fvecs", i32s(&[3, 0, 0, 0, 3, 0]), "24 bytes, 8 more than whole rows".into()),
        ("differ.fvecs", i32s(&[1, 0, 2, 0]), "row 1 says that it has 2 numbers, the first row has 1".into()),
        ("minus.fvecs", i32s(&[-3, 0, 0, 0]), "has -3 numbers".into()),
        ("zero.fvecs", i32s(&[0, 0]), "it is empty: 2 x 0 numbers".into()),
        ("empty.fvecs", Vec::new(), "not even one row".into()),
        ("ids.ivecs", i32s(&[1, 0]), "holds int32 numbers".into()),
        ("vectors.csv", Vec::new(), "must end in .npy".into()),
        ("vectors", Vec::new(), "must end in .npy".into()),
        ("vectors.hdf5", Vec::new(), "Python".into()),
    ] {
        let path = folder.write(name, &content);
        let text = refusal(read(&path, None));
        assert!(text.starts_with(&path.display().to_string()), "{name}: {text}");
        assert!(text.contains(&expected), "{name}: {text}");
    }
}

#[test]
fn what_is_no_file_is_refused_without_waiting() {
    let folder = Folder::new("no-file");
    let missing = refusal(read(&folder.0.join("missing.npy"), None));
    assert!(missing.contains("cannot open") && missing.contains("missing.npy"), "{missing}");
    let directory = folder.0.join("directory.npy");
    fs::create_dir(&directory).unwrap();
    assert!(refusal(read(&directory, None)).contains("it is a directory"));
    let device = folder.0.join("device.npy");
    std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
    assert!(refusal(read(&device, None)).contains("not a regular file"));
}

#[test]
fn ids_come_as_columns_and_as_text() {
    let folder = Folder::new("ids");
    let vectors = folder.write("v.u8bin", &bin(3, 1, &[1, 2, 3]));
    let column: Vec<u8> = [7_u64, 0, u64::MAX].map(u64::to_le_bytes).concat();
    for (name, content) in [
        ("ids.npy", npy("<u8", "False", "(3,)", &column)),
        ("ids.txt", b"7\n0\n18446744073709551615\n".to_vec()),
        ("ids", b"\n 7\r\n\n0\n18446744073709551615".to_vec()),
    ] {
        let ids = folder.write(name, &content);
        assert_eq!(read(&vectors, Some(&ids)).unwrap().1, [7, 0, u64::MAX], "{name}");
    }
}

#[test]
fn ids_that_cannot_be_are_refused() {
    let folder = Folder::new("bad-ids");
    let vectors = folder.write("v.u8bin", &bin(3, 1, &[1, 2, 3]));
    let negative: Vec<u8> = [7_i64, -8, 9].map(i64::to_le_bytes).concat();
    for (name, content, expected) in [
        ("few.txt", b"1\n2\n".to_vec(), "holds 2 ids for 3 vectors"),
        ("many.npy", npy("<i4", "False", "(4,)", &[0; 16]), "holds 4 ids for 3 vectors"),
        ("minus.npy", npy("<i8", "False", "(3,)", &negative), "row 1 has the id -8"),
        ("float.npy", npy("<f8", "False", "(3,)", &[0; 24]), "holds float64 numbers"),
        ("minus.txt", b"1\n-2\n3\n".to_vec(), "line 2 is \"-2\""),
        ("word.txt", b"1\n\ntwo\n3\n".to_vec(), "line 3 is \"two\""),
        ("large.txt", b"1\n18446744073709551616\n3\n".to_vec(), "line 2"),
        ("binary.txt", vec![0xff; 1 << 20], "line 1"),
        ("blank.txt", vec![b' '; 1 << 20], "line 1"),
    ] {
        let ids = folder.write(name, &content);
        let text = refusal(read(&vectors, Some(&ids)));
        assert!(text.starts_with(&ids.display().to_string()), "{name}: {text}");
        assert!(text.contains(expected), "{name}: {text}");
    }
}

#[test]
fn truth_counts_what_was_found() {
    let folder = Folder::new("truth");
    let ids = i32s(&[5, 6, 7, 8, 9, -1]);
    let distances = f32s(&[0.0; 6]);
    let ivecs = i32s(&[3, 5, 6, 7, 3, 8, 9, -1]);
    for (name, content) in [
        ("t.ibin", bin(2, 3, &ids)),
        ("with-distances.ibin", bin(2, 3, &[&ids[..], &distances].concat())),
        ("t.ivecs", ivecs),
        ("t.npy", npy("<i4", "False", "(2, 3)", &ids)),
    ] {
        let path = folder.write(name, &content);
        let truth = Truth::open(&path, 2, 3).unwrap();
        assert_eq!(truth.count(0, &[7, 1, 5]), (2, 3), "{name}");
        assert_eq!(truth.count(1, &[8, 9]), (2, 2), "{name}");
        let nearest = Truth::open(&path, 2, 1).unwrap();
        assert_eq!(nearest.count(0, &[6]), (0, 1));
        assert!(refusal(Truth::open(&path, 3, 3)).contains("2 queries, there are 3"));
        assert!(refusal(Truth::open(&path, 2, 4)).contains("3 neighbors per query"));
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error() {
    let folder = Folder::new("shrinks");
    let path = folder.write("v.u8bin", &bin(10, 1, &[0; 10]));
    let mut vectors = Vectors::open(&path).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(12).unwrap();
    assert!(refusal(vectors.scan(&mut |_, _| Ok(()))).contains("became shorter"));
}

/// Bytes that begin like `format`, so that they pass the first checks.
fn plausible(format: Format) -> BoxedStrategy<Vec<u8>> {
    let noise = proptest::collection::vec(any::<u8>(), 0..200);
    let small = 0_u32..6;
    match format {
        Format::Npy => {
            let descr = prop_oneof![Just("<f4"), Just("|u1"), Just("<f2"), Just("<i8"), Just(">f4")];
            let number = prop_oneof![0_u64..6, any::<u64>()];
            let order = prop_oneof![Just("False"), Just("True")];
            (descr, order, number.clone(), number, noise)
                .prop_map(|(descr, order, rows, width, data)| {
                    npy(descr, order, &format!("({rows}, {width})"), &data)
                })
                .boxed()
        }
        Format::Fvecs | Format::Bvecs | Format::Ivecs => {
            (small, noise).prop_map(|(width, data)| [&width.to_le_bytes()[..], &data].concat()).boxed()
        }
        _ => (small.clone(), small, noise).prop_map(|(rows, width, data)| bin(rows, width, &data)).boxed(),
    }
}

fn survives(format: Format, name: &str, bytes: Vec<u8>) {
    let path = Path::new("any").with_extension(name);
    for shape in [Shape::Column, Shape::Matrix] {
        let length = bytes.len() as u64;
        let Ok(mut table) = Table::new(&path, Cursor::new(&bytes), length, format, shape) else {
            continue;
        };
        let layout = *table.layout();
        if layout.check_vectors(&path).is_ok() {
            let mut out = Vec::new();
            while table.next_rows(&mut out, Element::to_components).is_ok_and(|rows| rows.1 > 0) {}
            assert!(out.len() as u64 <= layout.rows * layout.width);
        }
        if layout.check_ids(&path).is_ok() {
            let mut out = Vec::new();
            while table.next_rows(&mut out, Element::to_ids).is_ok_and(|rows| rows.1 > 0) {}
            assert!(out.len() as u64 <= layout.rows * layout.width);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_rows_or_an_error(
        which in 0..FORMATS.len(),
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let (name, format) = FORMATS[which];
        survives(format, name, bytes);
    }

    #[test]
    fn plausible_bytes_are_rows_or_an_error(
        (which, bytes) in (0..FORMATS.len()).prop_flat_map(|which| {
            (Just(which), plausible(FORMATS[which].1))
        }),
    ) {
        let (name, format) = FORMATS[which];
        survives(format, name, bytes);
    }

    #[test]
    fn a_broken_npy_header_is_rows_or_an_error(at in 0_usize..90, byte in any::<u8>(), cut in 0_usize..140) {
        let mut bytes = npy("<f4", "False", "(2, 3)", &f32s(&[1.0; 6]));
        let at = at.min(bytes.len() - 1);
        bytes[at] = byte;
        bytes.truncate(cut.max(1));
        survives(Format::Npy, "npy", bytes);
    }
}
