//! The operations on an index: build, open, search, change, check.

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
mod rows;
mod search;
mod state;

pub use build::build_memory_bytes_min;
pub use build::memory::build_memory_bytes;
pub use build::{build, create};
pub use change::Change;
pub use change::beside::{HostRows, TrainingHost};
pub use change::hosted::Prepared;
pub use change::pending::PendingPlace;
pub use change::training::TRAINED_ENOUGH;
pub use open::Index;
pub use payloads::Payloads;
pub use recall::calibrate::{CALIBRATION_QUERIES_MIN, calibration_memory_bytes};
pub use search::batch::Batch;
pub use search::cursor::Cursor;
pub use search::filter_plan::FilterPlan;
pub use search::found::Found;
pub use search::searcher::Searcher;
