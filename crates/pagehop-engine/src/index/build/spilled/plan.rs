//! The memory of a build that puts rows aside.

use super::files::BUFFER_BYTES;
use crate::Error;
use crate::index::build::job::Job;
use crate::index::build::memory::{
    build_memory_bytes, connect_row_bytes, fixed_bytes, kept_bytes_min, survey_bytes, table_row_bytes,
    thread_bytes, too_little,
};
use crate::index::build::sample::SAMPLE_ROWS_MIN;
use crate::page::layout::NodeLayout;
use crate::quantize::own::OwnCode;
use crate::quantize::prepare::inner_dim;

/// Bytes per row that stay in memory beside its edge code and its edges: id, first equal row,
/// partitions, node, page, and what the walk over all edges needs.
const RESIDENT_ROW_BYTES: usize = 64;
/// Rows that a partition must have room for at least, so that most rows are inside of it.
const CAPACITY_MIN: usize = 2048;
/// The same as a share of all rows: it bounds the number of files.
const CAPACITY_SHARE: usize = 100;

/// Most bytes that a file collects while rows are spread.
const SPREAD_BYTES_MAX: usize = 4 << 20;

/// Share of the memory that files and pages may take in caches of the system, and the most bytes.
const CACHE_SHARE: u64 = 32;
const CACHE_BYTES_MAX: u64 = 16 << 20;

/// Share of the memory of partitions that threads work in, and the number of threads that have
/// enough in any case. So the partitions, and the index, do not depend on the number of threads.
const THREADS_SHARE: u64 = 8;
const THREADS_MIN: u64 = 2;

/// The sizes that fit in the memory of a build.
pub(in crate::index::build) struct Plan {
    /// Largest number of rows of a partition, those of its neighbors included.
    pub(in crate::index::build) capacity: usize,
    /// Memory beside that of a partition and of threads, in bytes.
    pub(in crate::index::build) resident_bytes: u64,
    /// Memory for caches of the system, in bytes.
    pub(in crate::index::build) cache_bytes: u64,
    /// Memory of the smallest sample, which is gone before partitions are made.
    survey_bytes: u64,
    member_bytes: u64,
    thread_bytes: u64,
}

/// Bytes per row of a partition while its rows are connected.
fn member_bytes(layout: &NodeLayout) -> usize {
    let code = layout.inner_dim + size_of::<OwnCode>() + 4;
    // A sixteenth more for results that threads hand over, and for memory that the allocator keeps.
    (code + table_row_bytes(layout) + 12 + connect_row_bytes(layout)) / 16 * 17
}

/// Rows that a partition of `rows` rows in all must have room for.
fn capacity_min(rows: usize) -> usize {
    CAPACITY_MIN.max(rows.div_ceil(CAPACITY_SHARE))
}

/// `bytes` with the share of caches.
fn with_cache(bytes: u64) -> u64 {
    bytes + bytes.div_ceil(CACHE_SHARE - 1).min(CACHE_BYTES_MAX)
}

/// Least memory of a build of `rows` rows on `threads` threads that has scratch files and keeps no
/// vectors, in bytes, without the memory of its source and its sink. `columns` are columns to
/// filter by. More rows never need less.
pub fn build_memory_bytes_min(rows: usize, dim: usize, columns: usize, threads: usize) -> u64 {
    let layout = NodeLayout::choose(inner_dim(dim), columns);
    let spilled = Plan::without_partitions(&layout, rows, dim).least(rows, threads);
    with_cache(spilled).min(build_memory_bytes(rows, dim, threads))
}

impl Plan {
    /// The plan for `rows` rows.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if memory is too small.
    pub(in crate::index::build) fn new(job: &Job<'_>, rows: usize, dim: usize) -> Result<Self, Error> {
        let memory = job.options.memory_bytes;
        let mut plan = Self::without_partitions(&job.layout, rows, dim);
        // Vectors are written when no partition is in memory.
        let kept = kept_bytes_min(job.options.vectors, rows, dim);
        let least = with_cache(plan.least(rows, job.threads).max(plan.resident_bytes + kept));
        if least > memory {
            return Err(too_little(rows, least, memory));
        }
        plan.cache_bytes = (memory / CACHE_SHARE).min(CACHE_BYTES_MAX);
        let left = memory - plan.cache_bytes - plan.resident_bytes;
        let of_threads = (left / THREADS_SHARE).max(THREADS_MIN * plan.thread_bytes);
        plan.capacity = ((left - of_threads) / plan.member_bytes) as usize;
        Ok(plan)
    }

    /// Memory of `rows` rows outside partitions, and bytes of each row in a partition.
    fn without_partitions(layout: &NodeLayout, rows: usize, dim: usize) -> Self {
        let buffers = (2 * rows).div_ceil(capacity_min(rows)) * 2 * BUFFER_BYTES;
        let resident = rows * (table_row_bytes(layout) + 4 * layout.degree + 1 + RESIDENT_ROW_BYTES);
        Self {
            capacity: 0,
            survey_bytes: survey_bytes(rows, rows.min(2 * SAMPLE_ROWS_MIN), dim) as u64,
            resident_bytes: (resident + buffers + fixed_bytes(rows, layout.inner_dim)) as u64,
            cache_bytes: 0,
            member_bytes: member_bytes(layout) as u64,
            thread_bytes: thread_bytes(rows, layout.inner_dim) as u64,
        }
    }

    /// Least memory of a build that keeps no vectors, in bytes.
    fn least(&self, rows: usize, threads: usize) -> u64 {
        let threads = threads as u64;
        let many = if threads > THREADS_MIN { threads * self.thread_bytes * THREADS_SHARE } else { 0 };
        let surveyed = self.survey_bytes + threads.max(THREADS_MIN) * self.thread_bytes;
        self.needed(capacity_min(rows)).max(self.resident_bytes + many).max(surveyed)
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

    /// Bytes that each of `files` collects while rows are spread over them. No partition is in
    /// memory then, and pieces of a file that were written at once are read at once.
    pub(super) fn spread_bytes(&self, files: usize) -> usize {
        (self.partition_bytes() as usize / (2 * files)).clamp(BUFFER_BYTES, SPREAD_BYTES_MAX)
    }

    /// The error for `together` rows that no center separates.
    pub(super) fn too_dense(&self, job: &Job<'_>, rows: usize, together: usize) -> Error {
        too_little(rows, with_cache(self.needed(together)), job.options.memory_bytes)
    }
}
