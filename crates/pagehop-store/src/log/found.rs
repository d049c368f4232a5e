//! The state of an index file on disk: its length, and the header of page 0.

use pagehop_engine::{Error, PAGE_BYTES, PageId};

use crate::disk::base_file::{BaseFile, PageBuffer};
use crate::disk::storage::StorageFile;
use crate::header::{self, Fault, HEADER_VERSION, Identity, LogTag};

/// The state of an index file, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) identity: Identity,
    /// Log position of page 0, unless the page is torn or damaged.
    pub(crate) position: Option<u64>,
    /// Tag of the log that holds newer commits; 0 for none. A torn page 0 may have lost the tag.
    pub(crate) tag: LogTag,
    /// Bytes of the file.
    pub(crate) length: u64,
    /// The name of the file in errors.
    pub(crate) name: String,
}

impl Found {
    /// The state of `file` now, if its page 0 is that of an index.
    pub(crate) fn in_file(file: &BaseFile) -> Result<Self, Error> {
        let name = file.path().display().to_string();
        let length = file.length().map_err(|error| Error::io(format!("cannot open {name}"), error))?;
        if length < PAGE_BYTES as u64 {
            // Through the page cache, because a direct read of an odd length may be refused.
            let front = std::fs::read(file.path()).map_err(|error| Error::io(format!("read of {name}"), error))?;
            if !header::claims_to_be_an_index(&front) {
                let what = format!("{name} is not a Pagehop index: it has {length} bytes");
                return Err(Error::Format { what });
            }
            let what = format!("{name} is truncated: {length} bytes are not whole pages");
            return Err(Error::corrupt(PageId(0), what));
        }
        let mut buffer = PageBuffer::new();
        let page_0 = &mut buffer.0;
        file.read_unverified(PageId(0), page_0)?;
        let is_index = header::claims_to_be_an_index(page_0);
        let position = match header::verify(PageId(0), page_0) {
            Err(Fault::Version { found }) if is_index => {
                let what = format!(
                    "{name} has page headers of version {found}; this build reads version {HEADER_VERSION}: \
                     rebuild the index"
                );
                return Err(Error::Format { what });
            }
            Err(_) if is_index => None,
            Err(_) => return Err(Error::Format { what: format!("{name} is not a Pagehop index") }),
            // The engine tests the body.
            Ok(()) => Some(header::log_position(page_0)),
        };
        Ok(Self { identity: header::identity(page_0), position, tag: header::log_tag(page_0), length, name })
    }
}

/// Writes page 0 of `base` over itself in `index`, the same file, durably. If the process that
/// wrote page 0 was killed before its sync, or the sync failed, the bytes may be in the system's
/// memory only. So before this call, page 0 must not decide that the log gets commits or is
/// removed.
pub(crate) fn settle(base: &BaseFile, index: &dyn StorageFile) -> Result<(), Error> {
    let mut buffer = PageBuffer::new();
    base.read(PageId(0), &mut buffer.0)?;
    let written = index.write_all_at(&buffer.0, 0).and_then(|()| index.sync());
    written.map_err(|error| Error::io(format!("repair of page 0 of {}", base.path().display()), error))
}
