//! The table of the access method's properties and callbacks, which PostgreSQL reads.

use std::sync::OnceLock;

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::{build, cost, insert, parameters, progress, rows::opclass, scan, vacuum, validate};

/// Indexes of one table are vacuumed one after the other, by the process that vacuums the table: a
/// training or a measurement may use all of `maintenance_work_mem`, computes expressions of users,
/// and makes other backends respect the snapshot of that process.
const VACUUM_OPTIONS: u32 = pg_sys::VACUUM_OPTION_NO_PARALLEL;

/// PostgreSQL 19 reads the routine until the process ends; earlier versions free it.
const IS_ROUTINE_KEPT: bool = pg_sys::PG_VERSION_NUM >= 190_000;

#[doc(hidden)]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pg_finfo_pagehop_handler() -> *const pg_sys::Pg_finfo_record {
    static RECORD: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &raw const RECORD
}

/// The handler of `CREATE ACCESS METHOD`. Every field is set by name, so that a field of a new
/// version of PostgreSQL is an error of the compiler.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pagehop_handler(_call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    let routine = pg_sys::IndexAmRoutine {
        type_: pg_sys::NodeTag::T_IndexAmRoutine,
        amstrategies: opclass::STRATEGY_CONTAINS,
        amsupport: opclass::KIND_PROC,
        amoptsprocnum: 0,
        amcanorder: false,
        amcanorderbyop: true,
        #[cfg(feature = "pg18")]
        amcanhash: false,
        #[cfg(feature = "pg18")]
        amconsistentequality: false,
        #[cfg(feature = "pg18")]
        amconsistentordering: false,
        amcanbackward: false,
        amcanunique: false,
        amcanmulticol: true,
        // A scan has an ORDER BY on the vector, the first column, and needs no condition on it.
        amoptionalkey: true,
        amsearcharray: true,
        amsearchnulls: true,
        amstorage: false,
        amclusterable: false,
        ampredlocks: false,
        amcanparallel: false,
        // Builds use threads of the backend, not parallel workers.
        amcanbuildparallel: false,
        amcaninclude: false,
        // PostgreSQL reads this for parallel vacuum, which never takes these indexes.
        amusemaintenanceworkmem: true,
        amsummarizing: false,
        amparallelvacuumoptions: VACUUM_OPTIONS as u8,
        amkeytype: pg_sys::InvalidOid,
        ambuild: Some(build::ambuild),
        ambuildempty: Some(build::ambuildempty),
        aminsert: Some(insert::aminsert),
        aminsertcleanup: Some(insert::aminsertcleanup),
        ambulkdelete: Some(vacuum::ambulkdelete),
        amvacuumcleanup: Some(vacuum::amvacuumcleanup),
        amcanreturn: None,
        amcostestimate: Some(cost::amcostestimate),
        #[cfg(feature = "pg18")]
        amgettreeheight: None,
        amoptions: Some(parameters::amoptions),
        amproperty: None,
        ambuildphasename: Some(progress::ambuildphasename),
        amvalidate: Some(validate::amvalidate),
        amadjustmembers: None,
        ambeginscan: Some(scan::ambeginscan),
        amrescan: Some(scan::amrescan),
        amgettuple: Some(scan::amgettuple),
        amgetbitmap: None,
        amendscan: Some(scan::amendscan),
        ammarkpos: None,
        amrestrpos: None,
        amestimateparallelscan: None,
        aminitparallelscan: None,
        amparallelrescan: None,
        #[cfg(feature = "pg18")]
        amtranslatestrategy: None,
        #[cfg(feature = "pg18")]
        amtranslatecmptype: None,
    };
    handed_over(routine)
}

/// A routine in the memory that this version of PostgreSQL expects.
fn handed_over(routine: pg_sys::IndexAmRoutine) -> pg_sys::Datum {
    if IS_ROUTINE_KEPT {
        static KEPT: OnceLock<usize> = OnceLock::new();
        return pg_sys::Datum::from(*KEPT.get_or_init(|| Box::into_raw(Box::new(routine)) as usize));
    }
    // SAFETY: PostgreSQL expects a chunk of its own memory, which it frees.
    unsafe {
        let copy = pg_sys::palloc(size_of::<pg_sys::IndexAmRoutine>()).cast::<pg_sys::IndexAmRoutine>();
        copy.write(routine);
        pg_sys::Datum::from(copy)
    }
}
