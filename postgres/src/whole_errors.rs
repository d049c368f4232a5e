//! Passes errors of other code, such as the functions of an index expression, through Rust
//! unchanged.
//!
//! pgrx catches errors at each call into PostgreSQL. It copies message, detail, hint and code of an
//! error, and raises a new error when Rust's frames are gone. The rest of the error is lost: the
//! names of a constraint and a column, the context, and any code that PostgreSQL itself does not
//! raise. So code of others is called
//!
//! - as the last act of a frame that owns nothing, as the hooks do: the error jumps over it; or
//! - through [`pass`] below a [`guard`]: the error stays where PostgreSQL keeps it while the frames
//!   in between are unwound, and is then raised again.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use cee_scape::call_with_sigsetjmp;
use pgrx::pg_sys;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;

/// Unwinds from [`pass`] to [`guard`]. The error itself is on PostgreSQL's stack of errors.
struct Thrown;

/// PostgreSQL's functions, without the code that pgrx adds to each call to catch an error.
pub(crate) mod bare {
    use std::ffi::{c_char, c_int};

    use pgrx::pg_sys;

    unsafe extern "C-unwind" {
        pub(crate) fn standard_planner(
            query: *mut pg_sys::Query,
            text: *const c_char,
            cursor_options: c_int,
            parameters: pg_sys::ParamListInfo,
        ) -> *mut pg_sys::PlannedStmt;
        pub(crate) fn standard_ExecutorStart(query: *mut pg_sys::QueryDesc, flags: c_int);
        pub(crate) fn standard_ExecutorRun(
            query: *mut pg_sys::QueryDesc,
            direction: pg_sys::ScanDirection::Type,
            count: pg_sys::uint64,
            #[cfg(feature = "pg17")] once: bool,
        );
        pub(crate) fn FormIndexDatum(
            info: *mut pg_sys::IndexInfo,
            slot: *mut pg_sys::TupleTableSlot,
            state: *mut pg_sys::EState,
            values: *mut pg_sys::Datum,
            is_null: *mut bool,
        );
        pub(crate) fn FunctionCall2Coll(
            function: *mut pg_sys::FmgrInfo,
            collation: pg_sys::Oid,
            first: pg_sys::Datum,
            second: pg_sys::Datum,
        ) -> pg_sys::Datum;
        /// Raises again the error that is on PostgreSQL's stack of errors.
        pub(super) fn pg_re_throw() -> !;
    }
}

/// Calls code of C that may raise an error. The error unwinds to the next [`guard`].
///
/// While it unwinds, nothing that is dropped may call PostgreSQL, as after every error.
///
/// # Safety
///
/// This is the backend's one thread that calls PostgreSQL, below a [`guard`]. No code in between
/// catches an unwinding error and keeps it. `call` does not unwind, and owns nothing that needs a
/// drop where C may raise an error.
pub(crate) unsafe fn pass<T>(call: impl FnOnce() -> T) -> T {
    let mut done = MaybeUninit::uninit();
    // SAFETY: the three are this backend's own, and are restored as `PG_TRY` restores them, before
    // the place to jump to is gone. As the caller ensures, `call` owns nothing that needs a drop
    // where an error jumps over it.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let (place, callbacks) = (pg_sys::PG_exception_stack, pg_sys::error_context_stack);
        let jumped = call_with_sigsetjmp(false, |here| {
            pg_sys::PG_exception_stack = ptr::from_ref(here).cast_mut().cast();
            done.write(call());
            0
        });
        pg_sys::PG_exception_stack = place;
        pg_sys::error_context_stack = callbacks;
        if jumped == 0 {
            return done.assume_init();
        }
        pg_sys::CurrentMemoryContext = context;
    }
    resume_unwind(Box::new(Thrown))
}

/// Runs the work of a callback, as `pg_guard` does: what unwinds becomes an error of PostgreSQL. An
/// error that unwinds from [`pass`] is raised again unchanged.
///
/// # Safety
///
/// The caller is a function that PostgreSQL calls, and owns nothing that needs a drop.
pub(crate) unsafe fn guard<T>(work: impl FnOnce() -> T) -> T {
    let payload = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => return done,
        Err(payload) => payload,
    };
    if payload.is::<Thrown>() {
        drop(payload);
        // SAFETY: `pass` has left the error on the stack, and has restored the place to jump to. No
        // frame up to the caller's has anything to drop any more, and the caller's has nothing.
        unsafe { bare::pg_re_throw() }
    }
    // SAFETY: no frame up to the caller's has anything to drop, and the caller's has nothing. The
    // payload is moved, and dropped before the error is raised.
    unsafe { pgrx_extern_c_guard(|| resume_unwind(payload)) }
}
