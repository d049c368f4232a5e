//! The check of an index file that another process may be writing.
//!
//! The engine starts over when a commit becomes visible during its check. It cannot see a commit
//! that is being made visible right now, page by page: such pages look damaged and are not. So
//! damage counts only if no commit follows for a while.

use std::time::Duration;

use pagehop_engine::{CheckReport, Error, Index, OnProgress};

use crate::disk::storage::files_beside;
use crate::index_file::IndexFile;

/// Number of tests for a commit that explains apparent damage, and the time between them.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Reads every page of `index` and proves its structure; see [`Index::check`].
///
/// # Errors
///
/// Those of [`Index::check`]; [`Error::Busy`] if the index changed during the check in a way that
/// hides whether it is sound.
pub fn check(index: &Index<IndexFile>, progress: OnProgress<'_>) -> Result<CheckReport, Error> {
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
