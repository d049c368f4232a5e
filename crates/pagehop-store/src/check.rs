//! The check of an index file that another process may be writing.
//!
//! The engine starts over when a commit becomes visible during its check. It cannot see a commit
//! that is being made visible right now, page by page: such pages look damaged and are not. So
//! damage counts only if no commit follows for a while.

use std::path::Path;
use std::time::Duration;

use pagehop_engine::{CheckReport, Error, Index, OnProgress};

use crate::cache::budget::free_bytes;
use crate::disk::storage::files_beside;
use crate::index_file::IndexFile;

/// Number of tests for a commit that explains apparent damage, and the time between them.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Reads every page of `index` and proves its structure; see [`Index::check`]. Takes
/// [`Index::check_memory_bytes`] of memory, up to 180 for each row.
///
/// # Errors
///
/// [`Error::Memory`] if less memory is free, before a page is read. Those of [`Index::check`];
/// [`Error::Busy`] if the index changed during the check in a way that hides whether it is sound.
pub fn check(index: &Index<IndexFile>, progress: OnProgress<'_>) -> Result<CheckReport, Error> {
    expect_memory(index.check_memory_bytes(), free_bytes(), index.pages().path())?;
    let before = index.info()?.commit;
    let checked = index.check(progress);
    let [log, _] = files_beside(index.pages().path());
    let may_be_written = log.exists();
    if !matches!(checked, Err(Error::Corrupt { .. })) || !may_be_written {
        return checked;
    }
    for _ in 0..LOOKS {
        if index.info()?.commit != before {
            let what = "the index changed while it was checked; check it when no process writes it";
            return Err(Error::busy(what));
        }
        std::thread::sleep(PAUSE);
    }
    checked
}

/// Refuses a check that needs more memory than is free, if that is known. Linux grants more memory
/// than it has, and ends the process when the memory is used.
fn expect_memory(needed_bytes: u64, free: Option<u64>, path: &Path) -> Result<(), Error> {
    let Some(free) = free.filter(|free| *free < needed_bytes) else { return Ok(()) };
    let (path, needed) = (path.display(), needed_bytes.div_ceil(1 << 20));
    let what = format!("a check of {path} needs {needed} MiB of memory, {} MiB are free", free >> 20);
    Err(Error::Memory { what, needed_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_memory_has_no_room_for_is_refused() {
        let path = Path::new("items.pagehop");
        assert!(expect_memory(5 << 20, None, path).is_ok());
        assert!(expect_memory(5 << 20, Some(5 << 20), path).is_ok());
        let refused = expect_memory(5 << 20, Some((5 << 20) - 1), path).unwrap_err();
        assert!(matches!(refused, Error::Memory { needed_bytes, .. } if needed_bytes == 5 << 20), "{refused}");
        let text = refused.to_string();
        assert!(text.contains("check of items.pagehop needs 5 MiB of memory, 4 MiB are free"), "{text}");
    }
}
