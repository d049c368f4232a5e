//! The TEXMEX formats: .fvecs, .bvecs and .ivecs.
//!
//! There is no header: each row has its width, a 32-bit number, and then its numbers. All rows of a
//! file have the width of the first row.

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
    let mut prefix = [0; 4];
    if file_bytes < prefix.len() as u64 {
        return refuse(path, format!("it has {file_bytes} bytes, not even one row"));
    }
    read_exact(path, file, &mut prefix)?;
    let width = i32::from_le_bytes(prefix);
    let Ok(width) = u64::try_from(width) else {
        return refuse(path, format!("its first row says that it has {width} numbers"));
    };
    let mut layout = Layout { header_bytes: 0, rows: 1, width, prefixed: true, element };
    let row_bytes = layout.row_bytes().expect("a width of 31 bits does not overflow");
    layout.rows = file_bytes / row_bytes;
    let rest = file_bytes % row_bytes;
    if rest != 0 {
        return refuse(
            path,
            format!(
                "its first row says {width} numbers, {row_bytes} bytes for each row; the file has \
                 {file_bytes} bytes, {rest} more than whole rows: it was cut short, or its rows differ"
            ),
        );
    }
    Ok(layout)
}

/// The numbers of `row`, after its prefix. A row whose prefix is not `width` is refused.
pub(crate) fn strip_prefix<'b>(path: &Path, row_number: u64, width: u64, row: &'b [u8]) -> Result<&'b [u8], Error> {
    let (prefix, numbers) = row.split_first_chunk().expect("a row is at least as long as its prefix");
    let found = i32::from_le_bytes(*prefix);
    if i64::from(found) != width as i64 {
        return refuse(
            path,
            format!("row {row_number} says that it has {found} numbers, the first row has {width}"),
        );
    }
    Ok(numbers)
}
