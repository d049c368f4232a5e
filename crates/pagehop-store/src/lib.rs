//! Pages in a file: the room that knows the operating system.
//!
//! [`open`] and [`build`] are the way in. Behind them, [`IndexFile`] implements the engine's page
//! contract over one file, and [`NewIndexFile`] writes a new one that appears whole or not at all.
//! `X` is an index file; `X-log` and `X-shared` lie beside it while it is open.
//!
//! At the top, from the outside in:
//!
//! - `operations.rs`: open, create, add, delete, pop, update columns, calibrate: each one
//!   transaction. `vacuum.rs`: freeing the space of dead rows, when asked and by itself.
//! - `options.rs`, `bytes.rs`: how an index is opened; sizes as people write them.
//! - `index_file.rs`: an open index, with a read side and perhaps a writer. `open.rs` makes it.
//! - `change.rs`: one of them, in its transaction.
//! - `transaction.rs`, `write.rs`, `checkpoint.rs`, `writer.rs`: a change, how its commit gets into
//!   the log and is shown to all, the way of the log into the index, and what the writer knows.
//!   `changes.rs` has the pages that a transaction changed, `shared_transaction.rs` those that
//!   several threads change.
//! - `check.rs`: the proof of an index that another process may be writing.
//! - `backup/`: a copy of an index that another process may be writing.
//! - `compact.rs`: an index written again without dead rows and free space.
//! - `reader.rs`, `read_side.rs`: one search's view; what all searches share.
//! - `header.rs`: the 24 bytes in front of each page: checksum, page id, log position, version.
//!
//! In the rooms; arrows point down this list:
//!
//! - `build/`: new files. `build_index.rs` builds, `new_file.rs` takes pages, `whole_file.rs` names
//!   the file when it is complete, `unfinished.rs` reads it back before that, `scratch_files.rs`
//!   are temporary files of a build, `kept_work.rs` what is left of one that was killed,
//!   `page_cache.rs` and `freed_memory.rs` keep a build to its memory,
//!   `storage_sink.rs` is the same as `new_file.rs` for a simulation.
//! - `log/`: the log file, its blocks and records, recovery, and the newest version of a page.
//! - `cache/`: `frames.rs` memory, `pool.rs` page table and eviction, `epoch.rs` who may still look
//!   at a frame, `lane.rs` what readers pass on, `uring.rs` reads ahead, `spill.rs` pages without
//!   a frame, `budget.rs` how much memory there is.
//! - `process/`: what processes share: `shared.rs` words, `snapshots.rs` who reads which commit,
//!   `attach.rs` joining and leaving, `locks.rs` who writes, `mapping.rs` mapped memory.
//! - `disk/`: `base_file.rs` reads pages of the index file, `storage.rs` is what the write path
//!   needs of files, `location.rs` which file a path leads to.

mod backup;
mod build;
mod bytes;
mod cache;
mod change;
mod changes;
mod check;
mod checkpoint;
mod compact;
mod disk;
mod header;
mod index_file;
mod log;
mod open;
mod operations;
mod options;
mod process;
mod read_side;
mod reader;
mod shared_transaction;
mod transaction;
mod vacuum;
mod write;
mod writer;

pub use backup::{BackupReport, backup};
pub use build::build_index::build;
pub use build::new_file::NewIndexFile;
pub use build::storage_sink::StorageSink;
pub use bytes::parse_bytes;
pub use changes::TransactionReader;
pub use check::check;
pub use compact::{CompactOptions, CompactReport, compact, compact_into};
pub use disk::storage::{Name, Storage, StorageFile, files_beside};
pub use index_file::{Counters, IndexFile};
pub use operations::{
    AddOptions, add, add_with_columns, calibrate, create, delete, open, pop, retrain, set_audit, set_calibration,
    update_columns,
};
pub use options::{CACHE_AUTO, Durability, Io, OpenOptions};
pub use reader::FileReader;
pub use transaction::Transaction;
pub use vacuum::vacuum;
