//! A new index in a [`Storage`]: the file that a simulation begins with.

use std::sync::Arc;

use pagehop_engine::{BODY_BYTES, Error, HOST_HEADER_BYTES, PAGE_BYTES, PageId, PageSink};

use crate::disk::base_file::PageBuffer;
use crate::disk::storage::{Name, Storage, StorageFile};
use crate::header;
use crate::header::Identity;

/// Writes pages into the index of a [`Storage`], which must have none.
pub struct StorageSink {
    storage: Arc<dyn Storage>,
    file: Arc<dyn StorageFile>,
    identity: Identity,
    buffer: Box<PageBuffer>,
}

impl StorageSink {
    /// Makes the index file; `identity`, not all 0, distinguishes it from other indexes.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the storage refuses.
    pub fn create(storage: Arc<dyn Storage>, identity: [u8; 6]) -> Result<Self, Error> {
        let opened =
            storage.open(Name::Index, true).and_then(|file| file.ok_or(std::io::ErrorKind::NotFound.into()));
        let file = opened.map_err(|error| Error::io("creation of the index", error))?;
        Ok(Self { storage, file, identity, buffer: PageBuffer::new() })
    }

    /// Makes the index durable.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the storage refuses.
    pub fn finish(self) -> Result<(), Error> {
        let synced = self.file.sync().and_then(|()| self.storage.sync_directory());
        synced.map_err(|error| Error::io("sync of the index", error))
    }
}

impl PageSink for StorageSink {
    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        assert_eq!(body.len(), BODY_BYTES, "a body is always of the same length");
        let bytes = &mut self.buffer.0;
        bytes[HOST_HEADER_BYTES..].copy_from_slice(body);
        header::seal(page, 0, self.identity, bytes);
        let written = self.file.write_all_at(bytes, u64::from(page.0) * PAGE_BYTES as u64);
        written.map_err(|error| Error::io(format!("write of page {} of the index", page.0), error))
    }
}
