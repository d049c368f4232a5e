//! The memory and the disk space of a build that puts rows aside.

use super::files::{BUFFER_BYTES, letter_bytes, row_bytes};
use crate::Error;
use crate::index::build::job::Job;
use crate::index::build::memory::{
    connect_row_bytes, fixed_bytes, kept_bytes_min, table_row_bytes, thread_bytes, too_little,
};
use crate::page::layout::NodeLayout;
use crate::page::{PAGE_BYTES, Scratch};
use crate::quantize::own::OwnCode;

/// Bytes per row that stay in memory beside its edge code and its edges: id, first equal row,
/// partitions, node, page, and what the walk over all edges needs.
const RESIDENT_ROW_BYTES: usize = 64;
/// Rows that a partition must have room for at least, so that most rows are inside of it.
const CAPACITY_MIN: usize = 2048;
/// The same as a share of all rows: it bounds the number of files.
const CAPACITY_SHARE: usize = 100;

/// Share of the memory of partitions that threads work in, and the number of threads that have
/// enough in any case. So the partitions, and the index, do not depend on the number of threads.
const THREADS_SHARE: u64 = 8;
const THREADS_MIN: u64 = 2;

/// What fits.
pub(in crate::index::build) struct Plan {
    /// Largest number of rows of a partition, those of its neighbors included.
    pub(super) capacity: usize,
    /// Memory beside that of a partition and of threads, in bytes.
    pub(in crate::index::build) resident_bytes: u64,
    member_bytes: u64,
    thread_bytes: u64,
}

/// Bytes per row of a partition while its rows are connected.
fn member_bytes(layout: &NodeLayout) -> usize {
    let code = layout.inner_dim + size_of::<OwnCode>() + 4;
    // What threads hand over, and what the allocator keeps.
    (code + table_row_bytes(layout) + 12 + connect_row_bytes(layout)) / 16 * 17
}

impl Plan {
    /// The plan for `rows` rows.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if memory is too small, [`Error::Full`] if the disk is.
    pub(in crate::index::build) fn new(
        job: &Job<'_>,
        rows: usize,
        dim: usize,
        scratch: &dyn Scratch,
    ) -> Result<Self, Error> {
        let (layout, memory, threads) = (&job.layout, job.options.memory_bytes, job.threads as u64);
        let capacity_min = CAPACITY_MIN.max(rows.div_ceil(CAPACITY_SHARE));
        let buffers = (2 * rows).div_ceil(capacity_min) * 2 * BUFFER_BYTES;
        let resident = rows * (table_row_bytes(layout) + 4 * layout.degree + 1 + RESIDENT_ROW_BYTES);
        let mut plan = Self {
            capacity: 0,
            resident_bytes: (resident + buffers + fixed_bytes(rows, layout.inner_dim)) as u64,
            member_bytes: member_bytes(layout) as u64,
            thread_bytes: thread_bytes(rows, layout.inner_dim) as u64,
        };
        let many = if threads > THREADS_MIN { threads * plan.thread_bytes * THREADS_SHARE } else { 0 };
        // Vectors are written when no partition is in memory.
        let kept = kept_bytes_min(job.options.vectors, rows, dim);
        let least = plan.needed(capacity_min).max(plan.resident_bytes + many.max(kept));
        if least > memory {
            return Err(too_little(rows, least, memory));
        }
        let left = memory - plan.resident_bytes;
        let of_threads = (left / THREADS_SHARE).max(THREADS_MIN * plan.thread_bytes);
        plan.capacity = ((left - of_threads) / plan.member_bytes) as usize;
        plan.check_disk(job, rows, dim, scratch)?;
        Ok(plan)
    }

    /// Memory for partitions of `capacity` rows, in bytes.
    fn needed(&self, capacity: usize) -> u64 {
        let partition = capacity as u64 * self.member_bytes;
        let of_threads = partition.div_ceil(THREADS_SHARE - 1).max(THREADS_MIN * self.thread_bytes);
        self.resident_bytes + partition + of_threads
    }

    /// Bytes that a partition may take.
    pub(super) fn partition_bytes(&self) -> u64 {
        self.capacity as u64 * self.member_bytes
    }

    /// The error for `together` rows that no center separates.
    pub(super) fn too_dense(&self, job: &Job<'_>, rows: usize, together: usize) -> Error {
        too_little(rows, self.needed(together), job.options.memory_bytes)
    }

    /// Refuses to begin what the disk has no room for. First all rows lie there twice or three
    /// times, then twice beside the index.
    fn check_disk(&self, job: &Job<'_>, rows: usize, dim: usize, scratch: &dyn Scratch) -> Result<(), Error> {
        let Some(free) = scratch.free_bytes() else { return Ok(()) };
        let (layout, row) = (&job.layout, row_bytes(job.layout.inner_dim));
        let page = PAGE_BYTES.div_ceil(layout.nodes_per_page) + dim * job.options.vectors.component_bytes();
        let needed = (rows * (2 * row + row.max(letter_bytes(layout.degree) + page))) as u64;
        if needed <= free {
            return Ok(());
        }
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        Err(Error::full(format!(
            "a build of {rows} rows in {} MiB of memory needs {} MiB of disk space, {} MiB are free",
            job.options.memory_bytes >> 20,
            mib(needed),
            free >> 20,
        )))
    }
}
