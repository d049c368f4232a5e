//! Errors about damaged files.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

use pagehop_engine::Error;
use parquet::errors::ParquetError;

/// Returns what `read` returns, or `None` if it panics. The message of the panic is not written to
/// standard error.
pub(super) fn without_panics<T>(read: impl FnOnce() -> T) -> Option<T> {
    thread_local! {
        static IS_QUIET: Cell<bool> = const { Cell::new(false) };
    }
    static QUIET_HOOK: Once = Once::new();
    QUIET_HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            if !IS_QUIET.get() {
                before(about);
            }
        }));
    });
    IS_QUIET.set(true);
    let read = panic::catch_unwind(AssertUnwindSafe(read));
    IS_QUIET.set(false);
    read.ok()
}

/// An error of the decoder.
pub(super) fn damaged(path: &Path, column: Option<&str>, error: &ParquetError) -> Error {
    let column = column.map_or_else(String::new, |name| format!(" column {name:?}:"));
    let what = format!("{}:{column} the Parquet file is damaged or incomplete: {error}", path.display());
    Error::Format { what }
}
