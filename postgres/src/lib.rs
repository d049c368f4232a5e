//! The PostgreSQL extension: the index access method `pagehop`, on pgvector's types and operators.
//!
//! Thin by intent. The engine does the work; this crate gives it pages from the buffer manager ([`pages`], [`sink`]), rows from
//! the table ([`spill`]), and PostgreSQL the callbacks it asks for ([`handler`]). Nothing here knows what is on a page.

use pgrx::pg_sys;
use pgrx::prelude::*;

mod advice;
mod build;
mod choice;
mod cost;
mod demand;
mod errors;
#[cfg(feature = "pg18")]
mod explain;
#[cfg(feature = "pg18")]
mod flight;
mod handler;
mod heap;
mod insert;
mod inspect;
mod limit;
mod memory;
mod models;
mod opclass;
mod options;
mod order;
mod page;
mod pages;
mod progress;
mod recall;
mod recent;
mod scan;
mod scan_stats;
mod signals;
mod sink;
mod spill;
mod vacuum;
mod validate;
mod vector;
mod writer;

pgrx::pg_module_magic!(name, version);

/// Called once by each backend that loads the library.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    options::register();
    limit::register();
    #[cfg(feature = "pg18")]
    explain::register();
}

/// Exports `fn(FunctionCallInfo) -> Datum` to SQL under the name it has in the extension's script: the function and the record
/// of its calling convention that PostgreSQL looks for beside it.
macro_rules! sql_function {
    ($name:ident, $record:ident, $function:expr) => {
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $record() -> *const pgrx::pg_sys::Pg_finfo_record {
            static RECORD: pgrx::pg_sys::Pg_finfo_record = pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
            &raw const RECORD
        }

        #[doc(hidden)]
        #[pgrx::pg_guard]
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $name(call: pgrx::pg_sys::FunctionCallInfo) -> pgrx::pg_sys::Datum {
            let function: fn(pgrx::pg_sys::FunctionCallInfo) -> pgrx::pg_sys::Datum = $function;
            function(call)
        }
    };
}
pub(crate) use sql_function;

/// Whether a change to `relation`'s main fork must be written to the log: `RelationNeedsWAL` of `utils/rel.h`.
///
/// # Safety
///
/// `relation` is open.
unsafe fn needs_wal(relation: pg_sys::Relation) -> bool {
    // SAFETY: the caller has the relation open, and an open relation has its row of pg_class.
    unsafe {
        let persistence = (*(*relation).rd_rel).relpersistence as u8;
        let minimal = pg_sys::wal_level < pg_sys::WalLevel::WAL_LEVEL_REPLICA as i32;
        let new = (*relation).rd_createSubid != 0 || (*relation).rd_firstRelfilelocatorSubid != 0;
        persistence == pg_sys::RELPERSISTENCE_PERMANENT && !(minimal && new)
    }
}
