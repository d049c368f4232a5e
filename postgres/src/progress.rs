//! The progress of a build in `pg_stat_progress_create_index`.

use std::ffi::{CStr, c_char};

use pagehop_engine::Progress;
use pgrx::pg_sys;
use pgrx::prelude::*;

/// Phase of the table scan. All other phases are the engine's.
pub(crate) const SCAN: i64 = 2;

/// The engine's phases and their names for users; their numbers follow the number of the scan.
/// Number 1 is PostgreSQL's own.
const PHASES: [(&str, &CStr); 16] = [
    ("read", c"surveying rows"),
    ("train", c"training centroids"),
    ("encode", c"encoding rows"),
    ("spread", c"putting rows aside"),
    ("partition", c"partitioning rows"),
    ("connect", c"connecting rows"),
    ("prune", c"pruning edges"),
    ("refine", c"refining edges"),
    ("merge", c"merging partitions"),
    ("reach", c"attaching unreachable rows"),
    ("anchor", c"choosing anchors"),
    ("write", c"writing pages"),
    ("columns", c"writing filter columns"),
    ("add", c"adding rows one by one"),
    ("scan", c"calibrating: finding true neighbors"),
    ("search", c"calibrating: searching"),
];

/// `ambuildphasename`.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn ambuildphasename(phase: i64) -> *mut c_char {
    let name = match phase {
        1 => Some(c"initializing"),
        SCAN => Some(c"scanning table"),
        _ => usize::try_from(phase - SCAN - 1).ok().and_then(|at| PHASES.get(at)).map(|(_, name)| *name),
    };
    // PostgreSQL copies it and writes nothing to it.
    name.map_or(std::ptr::null_mut(), |name| name.as_ptr().cast_mut())
}

/// Shows that `phase` has begun.
pub(crate) fn begin(phase: i64) {
    update(pg_sys::PROGRESS_CREATEIDX_SUBPHASE, phase);
}

/// Shows how far the engine is.
pub(crate) fn show(progress: Progress) {
    if let Some(at) = PHASES.iter().position(|(phase, _)| *phase == progress.phase) {
        begin(SCAN + 1 + at as i64);
    }
    update(pg_sys::PROGRESS_CREATEIDX_TUPLES_TOTAL, progress.total as i64);
    update(pg_sys::PROGRESS_CREATEIDX_TUPLES_DONE, progress.done as i64);
}

fn update(parameter: u32, value: i64) {
    // SAFETY: a slot of this backend's own entry; the call does nothing where there is none.
    unsafe { pg_sys::pgstat_progress_update_param(parameter as i32, value) };
}
