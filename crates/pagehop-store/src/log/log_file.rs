//! The log file: its place, its header, and the offset of its blocks.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use pagehop_engine::Error;
use pagehop_kernels::crc32c;

use crate::disk::base_file::BaseFile;
use crate::disk::storage::{Name, Storage, StorageFile};
use crate::header::{Identity, LogTag, u32_at, u64_at};
use crate::log::found::settle;

const MAGIC: &[u8; 8] = b"PHOPLOG\0";
/// The first bytes of a block.
pub(super) const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"PHBK");
const VERSION: u32 = 2;
pub(super) const COPY_BYTES: usize = 64;
/// Offsets of the copies of the header. The second copy lies in another sector, and in another page
/// of every system.
pub(super) const COPIES_AT: [u64; 2] = [0, 4096];

/// Offset of the first block, behind the header.
pub(crate) const FRONT: u64 = 8192;

/// Bytes reserved at once.
const STEP: u64 = 8 << 20;

/// The header of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) identity: Identity,
    /// The tag that page 0 of the index has if the commits since `start` count. Changes with
    /// `start`.
    pub(crate) tag: LogTag,
    /// Increases by one with every change of the header; of two whole copies, the one with the
    /// higher number counts.
    pub(crate) sequence: u64,
    /// Position of the first block.
    pub(crate) start: u64,
    /// Pages of the index when the log began: only these can be the base of deltas.
    pub(crate) base_pages: u32,
    /// Position on page 0 of the index when the log began. The log does not belong to an older
    /// index.
    pub(crate) base_position: u64,
}

impl Header {
    pub(super) fn to_bytes(&self) -> [u8; COPY_BYTES] {
        let mut bytes = [0; COPY_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..22].copy_from_slice(&self.identity);
        bytes[22..24].copy_from_slice(&self.tag.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.start.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.base_pages.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.base_position.to_le_bytes());
        let checksum = Self::checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; COPY_BYTES]) -> Option<Self> {
        if bytes[..8] != *MAGIC || u32_at(bytes, 12) != Self::checksum(bytes) || u32_at(bytes, 8) != VERSION {
            return None;
        }
        Some(Self {
            identity: bytes[16..22].try_into().expect("six bytes were taken"),
            tag: u16::from_le_bytes([bytes[22], bytes[23]]),
            sequence: u64_at(bytes, 24),
            start: u64_at(bytes, 32),
            base_pages: u32_at(bytes, 40),
            base_position: u64_at(bytes, 48),
        })
    }

    fn checksum(bytes: &[u8; COPY_BYTES]) -> u32 {
        crc32c(&bytes[16..], crc32c(&bytes[..12], 0))
    }

    /// Offset in the file of the position `lsn`, which must not be below the start.
    pub(crate) fn offset(&self, lsn: u64) -> u64 {
        offset(self.start, lsn)
    }
}

pub(super) fn offset(start: u64, lsn: u64) -> u64 {
    FRONT + (lsn - start)
}

/// The log file of one index, which may not exist.
pub(crate) struct Log {
    storage: Arc<dyn Storage>,
    file: Mutex<Option<Arc<dyn StorageFile>>>,
    /// The name of the log in errors.
    name: String,
}

impl Log {
    pub(crate) fn new(storage: Arc<dyn Storage>, name: String) -> Self {
        Self { storage, file: Mutex::new(None), name }
    }

    /// The same log, whose file is opened again when it is needed.
    pub(crate) fn opened_apart(&self) -> Self {
        Self::new(Arc::clone(&self.storage), self.name.clone())
    }

    /// The file, if it exists.
    pub(crate) fn file(&self) -> Result<Option<Arc<dyn StorageFile>>, Error> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.is_none() {
            *file = self.storage.open(Name::Log, false).map_err(|error| self.refused("open", error))?;
        }
        Ok(file.clone())
    }

    /// The file, which must exist.
    pub(crate) fn existing(&self) -> Result<Arc<dyn StorageFile>, Error> {
        self.file()?.ok_or_else(|| self.refused("open", io::ErrorKind::NotFound.into()))
    }

    /// Makes a new file with `header` and nothing else, durably. An old file of that name is not
    /// changed: processes that have it open keep it.
    pub(crate) fn create(&self, header: &Header) -> Result<Arc<dyn StorageFile>, Error> {
        let refused = |error| self.refused("creation", error);
        self.forget();
        let made = self.storage.remove(Name::Log).and_then(|()| self.storage.open(Name::Log, true));
        let made = made.map_err(refused)?;
        let file = made.ok_or_else(|| refused(io::ErrorKind::NotFound.into()))?;
        file.set_length(0).map_err(refused)?;
        self.write_header(&*file, header)?;
        self.storage.sync_directory().map_err(refused)?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Whether the file was removed while this process uses it: its bytes are lost when the process
    /// ends.
    pub(crate) fn is_removed(&self) -> bool {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.as_ref().is_some_and(|file| matches!(file.is_removed(), Ok(true)))
    }

    /// Opens the file again at its next use: the name may lead to another file now.
    pub(crate) fn forget(&self) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Removes the file, durably: it may hold a block that failed and could not be erased, which no
    /// reader saw and a loss of power could bring back. Page 0 of `base`, which names no log, is
    /// made durable first.
    pub(crate) fn remove(&self, base: &BaseFile) -> Result<(), Error> {
        let index =
            self.storage.open(Name::Index, false).and_then(|file| file.ok_or(io::ErrorKind::NotFound.into()));
        settle(base, &*index.map_err(|error| self.refused("removal", error))?)?;
        self.forget();
        let removed = self.storage.remove(Name::Log).and_then(|()| self.storage.sync_directory());
        removed.map_err(|error| self.refused("removal", error))
    }

    /// The header. `None` if there is no log, or one whose creation was cut short.
    pub(crate) fn read_header(&self) -> Result<Option<Header>, Error> {
        let Some(file) = self.file()? else { return Ok(None) };
        let refused = |error| self.refused("read", error);
        let mut best: Option<Header> = None;
        let mut is_log = false;
        for at in COPIES_AT {
            let mut bytes = [0; COPY_BYTES];
            let have = file.read_at(&mut bytes, at).map_err(refused)?;
            is_log |= have == COPY_BYTES && bytes[..8] == *MAGIC;
            if is_log && u32_at(&bytes, 8) != VERSION && u32_at(&bytes, 12) == Header::checksum(&bytes) {
                let what = format!(
                    "{} is of version {}; this build reads version {VERSION}: close the index with the version of \
                     this program that wrote the log",
                    self.name,
                    u32_at(&bytes, 8)
                );
                return Err(Error::Format { what });
            }
            let header = Header::from_bytes(&bytes).filter(|_| have == COPY_BYTES);
            if header.as_ref().map(|header| header.sequence) > best.as_ref().map(|header| header.sequence) {
                best = header;
            }
        }
        if best.is_none() && is_log && begins_with_block(&*file).map_err(refused)? {
            let what = format!(
                "both copies of the header of {} are damaged, and commits follow them. Bring back a copy of the index \
                 and its log, or, if the index was closed, remove the log",
                self.name
            );
            return Err(Error::Format { what });
        }
        Ok(best)
    }

    /// Replaces the header, durably. A loss of power leaves the old one or the new.
    pub(crate) fn write_header(&self, file: &dyn StorageFile, header: &Header) -> Result<(), Error> {
        let bytes = header.to_bytes();
        let [first, second] = COPIES_AT;
        let written = file.write_all_at(&bytes, first).and_then(|()| file.sync());
        // The second copy protects from damage, not from tearing: it may reach the disk at any
        // time.
        written
            .and_then(|()| file.write_all_at(&bytes, second))
            .map_err(|error| self.refused("write of the header", error))
    }

    /// Reserves space for blocks up to file offset `end` in large steps; returns the offset up to
    /// which there is space now.
    pub(crate) fn reserve(&self, file: &dyn StorageFile, reserved: u64, end: u64) -> u64 {
        if end <= reserved {
            return reserved;
        }
        let wanted = end.next_multiple_of(STEP);
        // A disk that has no room for a step may still have room for the block. If not, the write
        // fails.
        if file.allocate(wanted).is_ok() { wanted } else { reserved }
    }

    pub(crate) fn refused(&self, operation: &str, error: io::Error) -> Error {
        Error::io(format!("{operation} of {}", self.name), error)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Whether the bytes at the place of the first block begin as a block.
fn begins_with_block(file: &dyn StorageFile) -> io::Result<bool> {
    let mut magic = [0; 4];
    Ok(file.read_at(&mut magic, FRONT)? == 4 && magic == BLOCK_MAGIC.to_le_bytes())
}
