//! Pages in a file: the room that knows the operating system.
//!
//! [`open`] and [`build`] are the way in. Behind them, [`FilePages`] implements the engine's page
//! contract over one file, and [`FileSink`] writes a new one that appears whole or not at all.
//!
//! - `header.rs`: the 24 bytes at the front of each page: checksum, page id, log position, version.
//! - `buffer.rs`: the buffer pool: frames, page table, replacement; readers take no lock and no pin.
//! - `epoch.rs`: who may still be looking at a frame that was replaced.
//! - `uring.rs`, `pread.rs`: the two ways to read.
//! - `reader.rs`: one search's view: look-ahead, waiting, what happens when no frame is free.

mod buffer;
mod bytes;
mod changes;
mod checkpoint;
mod epoch;
mod file;
mod header;
mod log;
mod mapping;
mod measure;
mod open;
mod pread;
mod reader;
mod rebuild;
mod recover;
mod shared;
mod sink;
mod snapshots;
mod storage;
mod storage_sink;
mod sunk;
mod transaction;
mod uring;
mod write;

pub use bytes::parse_bytes;
pub use changes::{add, create, delete, vacuum};
pub use file::{Counters, FilePages};
pub use measure::{calibrate, set_audit, set_calibration};
pub use open::{Durability, Io, OpenOptions, build, open};
pub use reader::FileReader;
pub use sink::FileSink;
pub use storage::{Name, Storage, StorageFile};
pub use storage_sink::StorageSink;
pub use transaction::{Transaction, TransactionReader};
