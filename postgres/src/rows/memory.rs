//! Memory of builds and measurements: the limit, and a test whether the system has that memory.
//!
//! If memory is short, PostgreSQL fails the statement. Rust would end the process, and with it
//! every session of the server. So a large allocation is tried first: if the system refuses it, the
//! statement fails with an error.

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::errors;

/// Bytes of vectors in a chunk of rows.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;

/// Bytes that PostgreSQL and the allocator take beside an estimated amount: pages, and remainders
/// of blocks that are too small to use.
const BESIDE_BYTES: usize = 1 << 20;

/// Upper bounds of the bytes of a query: those beside its components and nearest rows, and those of
/// each component.
const QUERY_BYTES: u64 = 4096;
const COMPONENT_BYTES: u64 = 32;
/// Most versions of a row that one node stands for.
const VERSIONS_MAX: u64 = 3;

unsafe extern "C" {
    /// Kilobytes, or -1: PostgreSQL's variable, which its bindings leave out.
    static autovacuum_work_mem: std::ffi::c_int;
}

/// Bytes that maintenance may take: the setting that [`setting`] names.
pub(crate) fn limit_bytes() -> u64 {
    // SAFETY: settings of this backend, read by value.
    unsafe {
        let of_autovacuum = u64::try_from(autovacuum_work_mem).ok().filter(|_| is_autovacuum());
        of_autovacuum.unwrap_or(pg_sys::maintenance_work_mem as u64) * 1024
    }
}

/// The setting that limits maintenance: as for PostgreSQL's own vacuum, autovacuum may have one of
/// its own.
pub(crate) fn setting() -> &'static str {
    // SAFETY: a setting of this backend, read by value.
    let is_set = unsafe { autovacuum_work_mem } != -1;
    if is_set && is_autovacuum() { "autovacuum_work_mem" } else { "maintenance_work_mem" }
}

/// Whether this process is a worker of autovacuum.
pub(crate) fn is_autovacuum() -> bool {
    // SAFETY: a constant of this process, read by value.
    unsafe { pg_sys::MyBackendType == pg_sys::BackendType::B_AUTOVAC_WORKER }
}

/// Raises an error if `what` needs more than the limit, or more than the system would give now.
pub(crate) fn budget(what: &str, bytes: u64) {
    let limit = limit_bytes();
    if bytes > limit {
        let (setting, megabytes) = (setting(), bytes.div_ceil(1 << 20));
        let message = format!("{what} needs {megabytes} MB, more than {setting}");
        let hint = format!("SET {setting} = '{megabytes}MB';");
        errors::report(PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED, message, Some(hint));
    }
    reserve(bytes as usize);
}

/// Raises an error if the system refuses `bytes` now.
pub(crate) fn reserve(bytes: usize) {
    if !is_given(bytes) {
        refuse(bytes);
    }
}

/// Whether the system would give `bytes` now, and [`BESIDE_BYTES`] more.
pub(crate) fn is_given(bytes: usize) -> bool {
    let mut probe = Vec::<u8>::new();
    let given = probe.try_reserve_exact(bytes.saturating_add(BESIDE_BYTES));
    // The compiler may remove an allocation that is not used.
    std::hint::black_box(&mut probe);
    given.is_ok()
}

/// Whether there is memory for an optional part of a statement, such as a measurement in VACUUM.
/// The limit must allow at least `least` bytes, and the system must have the `wanted` bytes, or as
/// many of them as the limit allows. If not, the log says that `index` was not, for example,
/// `"audited"`.
///
/// # Safety
///
/// `index` is open.
pub(crate) unsafe fn has_room(index: pg_sys::Relation, done: &str, least: u64, wanted: u64) -> bool {
    let (limit, kilobytes) = (limit_bytes(), |bytes: u64| bytes.div_ceil(1 << 10));
    let taken = wanted.min(limit);
    let why = match () {
        () if least > limit => format!("that takes {} kB, more than {}", kilobytes(least), setting()),
        () if !is_given(taken as usize) => format!("the system does not give {} kB", kilobytes(taken)),
        () => return true,
    };
    // SAFETY: the caller keeps the index open.
    let name = unsafe { errors::name(index) };
    pgrx::log!("index \"{name}\" was not {done}: {why}");
    false
}

/// Raises the error for `bytes` that the system refuses.
pub(crate) fn refuse(bytes: usize) -> ! {
    let what = format!("out of memory: the system does not give {} MB", bytes.div_ceil(1 << 20));
    let hint = "Lower maintenance_work_mem for builds of indexes, or look at the limits on the server's memory.";
    errors::report(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY, what, Some(hint.into()))
}

/// Bytes that a query takes while its recall is measured: the vector as it was given, in the inner
/// space, and coded; the nearest rows, with their ids.
pub(crate) fn query_bytes(dim: usize, k: usize, rows: u64) -> u64 {
    let nearest = 16 * (k as u64).min(rows.saturating_mul(VERSIONS_MAX));
    QUERY_BYTES + COMPONENT_BYTES * dim as u64 + nearest
}
