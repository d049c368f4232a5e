//! Text ids: a text file with one on each line.

use std::path::Path;

use pagehop_engine::{Error, IdKind, TEXT_ID_BYTES_MAX};

use super::ids::read_int_ids;
use super::layout::refuse;
use super::payloads::lines;
use super::reading::open_regular;

/// The ids of a file, of the kind that the index has.
#[derive(Debug)]
pub(crate) enum IdList {
    Int(Vec<u64>),
    Text(Vec<String>),
}

/// All ids of the file at `path`, in its order. A file without ids gives none.
///
/// # Errors
///
/// [`Error::Format`] for a line that is not an id of this kind; [`Error::Io`] if the file cannot be
/// read.
pub(crate) fn read_ids(path: &Path, kind: IdKind) -> Result<IdList, Error> {
    match kind {
        IdKind::Text => read_text_ids(path).map(IdList::Text),
        _ => read_int_ids(path).map(IdList::Int),
    }
}

/// Refuses a path that is not a regular file. Commands call this before they open the index, which
/// knows the kind of the ids.
///
/// # Errors
///
/// Those of opening a file.
pub(crate) fn check_ids_file(path: &Path) -> Result<(), Error> {
    open_regular(path).map(drop)
}

/// Every text id of a file.
///
/// # Errors
///
/// Those of [`read_ids`].
pub(super) fn read_text_ids(path: &Path) -> Result<Vec<String>, Error> {
    let is_npy = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
    if is_npy {
        return refuse(path, "the ids of this index are texts: they come from a text file, one on each line");
    }
    let mut ids = Vec::new();
    for (at, line) in lines(path)?.into_iter().enumerate() {
        let id = match String::from_utf8(line) {
            Ok(id) if (1..=TEXT_ID_BYTES_MAX).contains(&id.len()) => id,
            Ok(id) => {
                let bytes = id.len();
                let what = format!("line {} has {bytes} bytes, an id has 1 to {TEXT_ID_BYTES_MAX}", at + 1);
                return refuse(path, what);
            }
            Err(_) => return refuse(path, format!("line {} is not UTF-8", at + 1)),
        };
        ids.push(id);
    }
    Ok(ids)
}
