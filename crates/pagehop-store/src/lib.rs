//! Pages in a file: the room that knows the operating system.
//!
//! Callers start with [`open`] and [`build`]. Behind them, [`IndexFile`] implements the engine's
//! page contract over one file, and [`NewIndexFile`] writes a new one that appears whole or not at
//! all. `X` is an index file; `X-log` and `X-shared` lie beside it while it is open.
//!
//! From the top down. A room, which is a file or a folder, imports only rooms below it in this
//! list, and a test holds that (`crates/pagehop-engine/tests/house/rooms.rs`).
//!
//! | room | subject |
//! |---|---|
//! | `compact.rs` | an index written again without dead rows and free space |
//! | `operations.rs` | open, create, add, delete, pop, update columns, calibrate, each one transaction; vacuum, in many |
//! | `vacuum.rs` | freeing the space of dead rows, on request and by itself |
//! | `atomic_change.rs` | one change of an index in one transaction |
//! | `check.rs`, `backup/` | the proof and the copy of an index that another process may be writing; `backup/pages.rs` copies pages |
//! | `build/` | new index files: the table below |
//! | `index_file.rs`, `open.rs` | an open index, with a read side and perhaps a writer; opening it |
//! | `transaction.rs`, `shared_transaction.rs` | a transaction of one thread, and of several |
//! | `changed_pages.rs` | the pages that a transaction has changed |
//! | `commit.rs`, `checkpoint.rs` | writing a commit to the log and showing it; writing the log's pages into the index |
//! | `writer.rs` | the state of the log, and the turns of the writer's threads |
//! | `reader.rs`, `read_side.rs` | the view of one search; the state that all searches share |
//! | `log/` | the log file, its blocks and records, recovery, the newest version of a page: its `mod.rs` has the files |
//! | `cache/` | pages in memory: the table below |
//! | `process/` | the state that processes share: the table below |
//! | `disk/` | `base_file.rs` reads pages of the index file, `storage.rs` has the files of the write path, `location.rs` the place of an index file |
//! | `options.rs`, `header.rs`, `bytes.rs` | the options of opening; the 24 bytes in front of each page; sizes as users write them |
//!
//! Files of `build/`, `cache/` and `process/`:
//!
//! | file | subject |
//! |---|---|
//! | `build/build_index.rs`, `build/new_file.rs` | a build into a new file; the file, which takes pages |
//! | `build/whole_file.rs`, `build/unfinished.rs` | names the file when it is complete; reads it back before that |
//! | `build/scratch_files.rs`, `build/kept_work.rs` | temporary files of a build; finished work of a build that was killed |
//! | `build/page_cache.rs`, `build/freed_memory.rs` | keep a build within its memory |
//! | `build/storage_sink.rs` | the same as `new_file.rs` for a simulation |
//! | `cache/frames.rs`, `cache/pool.rs`, `cache/epoch.rs` | memory; page table and eviction; the readers that may still use a frame |
//! | `cache/lane.rs`, `cache/uring.rs`, `cache/spill.rs` | resources that readers pass on; reads ahead; pages without a frame |
//! | `cache/budget.rs` | the memory of a cache |
//! | `process/shared_words.rs`, `process/mapping.rs` | the shared words; mapped memory and locks of bytes |
//! | `process/snapshots.rs` | the commits that readers still use |
//! | `process/attach.rs`, `process/locks.rs` | joining and leaving; locks on the index file |

mod atomic_change;
mod backup;
mod build;
mod bytes;
mod cache;
mod changed_pages;
mod check;
mod checkpoint;
mod commit;
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
mod writer;

pub use backup::{BackupReport, backup};
pub use build::build_index::build;
pub use build::new_file::NewIndexFile;
pub use build::storage_sink::StorageSink;
pub use bytes::parse_bytes;
pub use changed_pages::TransactionReader;
pub use check::check;
pub use compact::{CompactOptions, CompactReport, compact, compact_into};
pub use disk::storage::{Name, Storage, StorageFile, files_beside};
pub use index_file::{Counters, IndexFile};
pub use operations::{
    AddOptions, add, add_with_columns, calibrate, create, delete, open, pop, retrain, set_audit, set_calibration,
    update_columns, vacuum,
};
pub use options::{CACHE_AUTO, Durability, Io, OpenOptions};
pub use reader::FileReader;
pub use transaction::Transaction;
