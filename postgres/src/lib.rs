//! The PostgreSQL extension: the index access method `pagehop`, on pgvector's types and operators.
//!
//! The engine does the work. This crate gives it pages from the buffer manager and rows from the
//! table, and gives PostgreSQL the callbacks of an access method. This crate does not depend on the
//! content of a page behind its header.
//!
//! | room | job |
//! |---|---|
//! | `handler.rs` | lists the callbacks |
//! | `build.rs`, `insert/`, `vacuum.rs`, `cost.rs`, `validate.rs` | callbacks, by their names |
//! | `sql/` | functions for users: state, check, recall |
//! | `scan/` | the callbacks of an index scan, and what a scan learns from the plan that runs |
//! | `audit.rs` | measures the recall of searches, and has an index calibrated that misses it |
//! | `calibrate.rs` | measures what each recall takes and stores it |
//! | `train.rs` | builds an index again that has grown far beyond its model |
//! | `options.rs` | the settings of a session |
//! | `pages/` | the engine's page contract on buffers and generic WAL; open indexes |
//! | `rows/` | vectors, operator classes, and where a build keeps its rows |
//! | `temp_files.rs` | temporary files of a build |
//! | `parameters.rs`, `progress.rs`, `sql_function.rs` | storage parameters; progress of a build; exports of SQL functions |
//! | `replay.rs` | errors where a standby's replay moved |
//! | `held_interrupts.rs`, `signals.rs`, `lists.rs` | interrupts, signals, PostgreSQL's lists |
//! | `whole_errors.rs`, `errors.rs` | errors of others, and our own |
//!
//! A room imports only rooms below it in this list, and a test holds that
//! (`crates/pagehop-engine/tests/house/rooms.rs`).

use std::ffi::CStr;

mod audit;
mod build;
mod calibrate;
mod cost;
mod errors;
mod handler;
mod held_interrupts;
mod insert;
mod lists;
mod options;
mod pages;
mod parameters;
mod progress;
mod replay;
mod rows;
mod scan;
mod signals;
mod sql;
mod sql_function;
mod temp_files;
mod train;
mod vacuum;
mod validate;
mod whole_errors;

pgrx::pg_module_magic!(name = c"pagehop", version = VERSION);

/// Version that `pg_get_loaded_modules()` shows for the loaded library.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no zero byte"),
};

/// Called once by each backend that loads the library.
#[pgrx::pg_guard]
pub extern "C-unwind" fn _PG_init() {
    options::refuse_second_library();
    options::register();
    parameters::register();
    insert::hooks::register();
    scan::limit::register();
    scan::unread::register();
    #[cfg(feature = "pg18")]
    scan::explain::register();
}
