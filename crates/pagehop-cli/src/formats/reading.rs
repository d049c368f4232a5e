//! Opening and reading a file, with errors that name it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use pagehop_engine::Error;

use super::layout::refuse;

/// Opens a regular file. Other files are refused: a pipe cannot be read twice, and a device may
/// never end.
pub(super) fn open_regular(path: &Path) -> Result<File, Error> {
    let metadata = std::fs::metadata(path).map_err(|error| cannot("open", path, error))?;
    if metadata.is_dir() {
        return refuse(path, "it is a directory, not a file");
    }
    if !metadata.is_file() {
        return refuse(path, "it is not a regular file, and it is read more than once; save it first");
    }
    File::open(path).map_err(|error| cannot("open", path, error))
}

/// Fills `bytes`. The length of the file was checked before, so a file that is too short has
/// changed.
pub(super) fn read_exact(path: &Path, file: &mut impl Read, bytes: &mut [u8]) -> Result<(), Error> {
    file.read_exact(bytes).map_err(|error| {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            let what = format!("{}: it became shorter while it was read", path.display());
            return Error::Format { what };
        }
        cannot("read", path, error)
    })
}

pub(super) fn cannot(verb: &str, path: &Path, source: std::io::Error) -> Error {
    Error::io(format!("cannot {verb} {}", path.display()), source)
}
