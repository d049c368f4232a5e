//! The operations on an index: build, open, search, change, check.
//!
//! From the bottom up. A room imports rooms above it in this table, or on its left; which of them,
//! is in `tests/house/rooms.rs`.
//!
//! | room | subject |
//! |---|---|
//! | `model.rs`, `node_set.rs`, `pending.rs` | mean, centroids and landmarks; a set of nodes; row ids that wait for a node |
//! | `state.rs`, `open.rs` | the index as of one commit; an open index |
//! | `row_codes.rs` | finer codes of all rows in memory |
//! | `find.rs`, `rows.rs`, `payloads.rs` | the node of a row id; ids in order, and vectors; payloads and text ids |
//! | `check/` | reads every page and checks the structure |
//! | `build/` | an index from all its rows |
//! | `search/` | the nearest rows: searches, batches, cursors, exact scans |
//! | `info.rs`, `rebuild.rs` | facts about an index; an index written again from its live rows |
//! | `change/` | adds, replaces and deletes rows, removes dead nodes, trains the model again |
//! | `recall/` | audits and calibrations |

pub(crate) mod build;
mod change;
mod check;
mod find;
mod info;
mod model;
mod node_set;
mod open;
mod payloads;
mod pending;
mod rebuild;
mod recall;
mod row_codes;
mod rows;
mod search;
mod state;

pub use build::build_memory_bytes_min;
pub use build::memory::build_memory_bytes;
pub use build::{build, create};
pub use change::Change;
pub use change::beside::{HostRows, TrainingHost};
pub use change::graph::in_edges::InEdges;
pub use change::hosted::{Prepared, check_row};
pub use change::pages::pending::PendingPlace;
pub use change::training::TRAINED_ENOUGH;
pub use check::{CheckedPages, check_again};
pub use open::Index;
pub use payloads::{Payloads, ReadParts, RowParts};
pub use recall::calibrate::{
    CALIBRATION_QUERIES_MAX, CALIBRATION_QUERIES_MIN, calibrate_within, calibration_memory_bytes,
    calibration_memory_bytes_min,
};
pub use row_codes::load_row_codes;
pub use search::batch::Batch;
pub use search::cursor::Cursor;
pub use search::filter::plan::FilterPlan;
pub use search::found::Found;
pub use search::searcher::Searcher;
