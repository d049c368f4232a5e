//! The big-ann-benchmarks formats: .fbin, .u8bin, .i8bin and .ibin.
//!
//! The file has two 32-bit numbers, the rows and the width, and then the rows. In an .ibin file of
//! true neighbors, the distances may follow the ids: one float32 for each id.

use std::io::Read;
use std::path::Path;

use pagehop_engine::Error;

use super::layout::refuse;
use super::reading::read_exact;
use super::{Element, Layout};

/// The layout of a file of `element`s that is `file_bytes` long.
pub(crate) fn layout(
    path: &Path,
    file: &mut impl Read,
    file_bytes: u64,
    element: Element,
) -> Result<Layout, Error> {
    let mut header = [0; 8];
    if file_bytes < header.len() as u64 {
        return refuse(path, format!("it has {file_bytes} bytes, the header alone needs {}", header.len()));
    }
    read_exact(path, file, &mut header)?;
    let [rows, width] = [0, 4].map(|at| {
        let bytes = header[at..at + 4].try_into().expect("the range is four bytes long");
        u64::from(u32::from_le_bytes(bytes))
    });
    let layout = Layout { header_bytes: 8, rows, width, prefixed: false, element };
    if element == Element::I32 && with_distances(&layout) == Some(file_bytes) {
        return Ok(layout);
    }
    layout.check_length(path, file_bytes)?;
    Ok(layout)
}

fn with_distances(ids: &Layout) -> Option<u64> {
    let ids_bytes = ids.file_bytes()? - ids.header_bytes;
    ids.header_bytes.checked_add(ids_bytes.checked_mul(2)?)
}
