//! The disk space of a build, estimated before it puts anything there.

use std::io;

use super::job::Job;
use super::spilled::files::{letter_bytes, row_bytes};
use crate::Error;
use crate::page::{PAGE_BYTES, Scratch};

/// Refuses to begin what the disk has no room for.
///
/// A build in memory writes the pages of the index. A spilled build needs two or three copies of
/// all rows at first, then two copies, letters, kept work and pages.
///
/// # Errors
///
/// [`Error::Full`].
pub(super) fn check(
    job: &Job<'_>,
    (rows, dim): (usize, usize),
    puts_aside: bool,
    scratch: &dyn Scratch,
) -> Result<(), Error> {
    let Some(free) = scratch.free_bytes() else { return Ok(()) };
    let (layout, row) = (&job.layout, row_bytes(job.layout.inner_dim));
    let node = PAGE_BYTES.div_ceil(layout.nodes_per_page) + dim * job.options.vectors.component_bytes();
    let page = if scratch.has_pages() { node } else { 0 };
    let letter = letter_bytes(layout.degree);
    let kept = if scratch.keeps_work() { letter + 4 * layout.degree + 8 } else { 0 };
    let aside = 2 * row + row.max(letter + page + kept);
    let needed = (rows * if puts_aside { aside } else { page }) as u64;
    if needed <= free {
        return Ok(());
    }
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let what = format!(
        "a build of {rows} rows in {} MiB of memory needs {} MiB of disk space, {} MiB are free",
        job.options.memory_bytes >> 20,
        mib(needed),
        free >> 20,
    );
    Err(Error::io(what, io::ErrorKind::StorageFull.into()))
}
