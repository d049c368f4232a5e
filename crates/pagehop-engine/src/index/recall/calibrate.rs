//! Calibration: measures which settings reach which recall.
//!
//! ```text
//! choose   up to 8,000 vectors of the data as queries, fewer if memory has no room for them, or
//!          of those that a user gives
//! scan     every row, for the exact nearest rows of up to 1,024 of them, or of all that are given
//! search   for all of them, and derive what shorter lists and less slack would have found, and
//!          in how many hops (effort.rs)
//! store    for each recall, the list and slack that reach it in nearly the fewest hops
//! ```

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::calibration::{CALIBRATED_ROWS_MIN, Calibration, KS};
use crate::index::open::Index;
use crate::index::recall::effort::{self, EffortMeasurement};
use crate::index::recall::samples::{self, SAMPLES_MIN};
use crate::index::search::exact::{self, Bounds, Sample, scan};
use crate::index::search::walk::EVIDENCE_ROWS;
use crate::page::{Pages, Reader};
use crate::quantize::estimate::CENTROIDS_MAX;
use crate::quantize::landmarks::inserted_landmarks;
use crate::quantize::prepare::inner_dim;
use crate::{Error, OnProgress, Progress, threads};

/// Fewest queries of a user that can calibrate an index.
pub const CALIBRATION_QUERIES_MIN: usize = 50;
/// Most queries of a user that a calibration uses. Each is compared with every row.
pub const CALIBRATION_QUERIES_MAX: usize = 8000;
/// Largest number of samples with exact answers, of a small index and of any.
const EXACT_SAMPLES_FEW: usize = 256;
const EXACT_SAMPLES_MAX: usize = 1024;
/// Largest number of all samples. Those without exact answers are judged by self-agreement.
const ALL_SAMPLES_MAX: usize = CALIBRATION_QUERIES_MAX;
/// At most one sample without an exact answer per this many rows.
const ROWS_PER_MORE: u64 = 16;
/// At most one sample with an exact answer per this many rows, up to [`EXACT_SAMPLES_FEW`] and
/// beyond.
const ROWS_PER_SAMPLE: u64 = 4;
const ROWS_PER_FURTHER: u64 = 64;
/// For k above this, only `count * NEIGHBORS_FEW / k` samples are used, because each sample gives k
/// observations.
const NEIGHBORS_FEW: usize = 25;
/// Rows that an index must have, per neighbor, to be calibrated for a `k`.
const ROWS_PER_NEIGHBOR: u64 = 10;
/// Bytes of a sample beside its vector: its answers, and what each list and slack would find.
const SAMPLE_BYTES: u64 = 2048;
/// Fewest samples with exact answers of an index that has rows for more.
const SAMPLES_LEAST: usize = CALIBRATION_QUERIES_MIN;
/// Share of the samples that are nearer to their tenth nearest row than a query that counts as far.
const NEAR_SHARE: f32 = 0.99;

impl<P: Pages> Index<P> {
    /// Measures which settings reach which recall. The queries are `queries`, the user's vectors
    /// one after another, or vectors of the data if there are none. If there are more than
    /// [`CALIBRATION_QUERIES_MAX`] queries, it uses that many of them, evenly spaced. Changes
    /// nothing: [`Change::set_calibration`](crate::Change::set_calibration) stores the result.
    /// `None` if the index has fewer than [`CALIBRATED_ROWS_MIN`] rows.
    ///
    /// Reads every page once; `threads` of 0 means one per core.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for fewer than [`CALIBRATION_QUERIES_MIN`] `queries`; the errors of
    /// [`Index::search_with`] for an invalid query; [`Error::Interrupted`] if `progress` breaks;
    /// any error of the host.
    pub fn calibrate(
        &self,
        queries: Option<&[f32]>,
        threads: usize,
        progress: OnProgress<'_>,
    ) -> Result<Option<Calibration>, Error> {
        calibrate_within(self, u64::MAX, queries, threads, progress)
    }

    /// The body of the meta page with this calibration, for a host that finishes a build with it.
    ///
    /// # Errors
    ///
    /// Any error of the host.
    pub fn calibrated_meta_page(&self, calibration: Calibration) -> Result<Vec<u8>, Error> {
        let mut meta = self.newest().renew(&mut self.pages().reader())?.meta.clone();
        meta.calibration = Some(Arc::new(calibration));
        Ok(meta.encode())
    }
}

/// As [`Index::calibrate`], with as many rows for queries as `memory_bytes` have room for, if that
/// is fewer. Of a user's queries it takes as many as ever.
///
/// # Errors
///
/// Those of [`Index::calibrate`]; [`Error::Memory`] if there is no room for the fewest rows.
pub fn calibrate_within<P: Pages>(
    index: &Index<P>,
    memory_bytes: u64,
    queries: Option<&[f32]>,
    threads: usize,
    progress: OnProgress<'_>,
) -> Result<Option<Calibration>, Error> {
    let mut reader = index.pages().reader();
    let state = index.newest().renew(&mut reader)?;
    let (rows, change) = (state.meta.rows, &state.meta.change);
    let memory_bytes = if queries.is_none() { memory_bytes } else { u64::MAX };
    let (some, more) = counts_within(rows, state.meta.dim, memory_bytes)?;
    let node_pages = state.node_pages(index.pages());
    let (all, seed) = ((some + more, EVIDENCE_ROWS), change.commit);
    let chosen = match queries {
        None => samples::choose(&state, node_pages, &mut reader, all, seed, progress),
        Some(queries) => exact::given(state.meta.dim, &some_queries(queries, state.meta.dim), EVIDENCE_ROWS),
    };
    reader.pause();
    let mut samples = chosen?;
    // The first samples are spread over the data like all of them.
    let more = samples.split_off(if queries.is_none() { some.min(samples.len()) } else { samples.len() });
    if queries.is_some() && samples.len() < CALIBRATION_QUERIES_MIN {
        let count = samples.len();
        let what = format!("there are {count} queries, a calibration takes {CALIBRATION_QUERIES_MIN} at least");
        return Err(Error::argument(what));
    }
    if rows < CALIBRATED_ROWS_MIN || samples.is_empty() {
        return Ok(None);
    }
    let ks: Vec<usize> = KS.into_iter().filter(|k| *k as u64 * ROWS_PER_NEIGHBOR <= rows).collect();
    // `k` = 1 and `k` = 10 use the same search, so they are measured together.
    let groups: Vec<&[usize]> = ks.chunk_by(|_, k| *k <= EVIDENCE_ROWS).collect();
    let some = |ks: &[usize]| some_of(samples.len(), ks[ks.len() - 1]);
    let shares: Vec<Range<usize>> = groups.iter().map(|ks| some(ks)).collect();
    for (share, ks) in shares.iter().zip(&groups) {
        samples[share.clone()].iter_mut().for_each(|sample| sample.k = ks[ks.len() - 1]);
    }
    scan(&state, index.pages(), &mut samples, Bounds::Likely, threads, progress)?;
    let effort = EffortMeasurement { state: &state, pages: index.pages(), threads: threads::available(threads) };
    let mut entries = Vec::new();
    for (at, (share, ks)) in shares.into_iter().zip(&groups).enumerate() {
        let (done, total) = (at * effort::STAGES, groups.len() * effort::STAGES);
        let more = &more[some_of(more.len(), ks[ks.len() - 1])];
        entries.extend(effort.measure(&samples[share], more, ks, &mut |stage| {
            progress(Progress { phase: "search", done: (done + stage) as u64, total: total as u64 })
        })?);
    }
    let changes = change.added_rows.wrapping_add(change.deleted_rows);
    let (samples, far) = (samples.len() as u32, far(&samples));
    Ok(Some(Calibration { rows, changes, samples, by_queries: queries.is_some(), far, entries }))
}

/// The queries of a user that a calibration uses: all, or [`CALIBRATION_QUERIES_MAX`] of them,
/// evenly spaced. Input that is not a whole number of queries is returned unchanged; the caller
/// refuses it.
fn some_queries(queries: &[f32], dim: usize) -> Cow<'_, [f32]> {
    let count = queries.len() / dim;
    if count <= CALIBRATION_QUERIES_MAX || !queries.len().is_multiple_of(dim) {
        return Cow::Borrowed(queries);
    }
    let some = (0..CALIBRATION_QUERIES_MAX).map(|at| at * count / CALIBRATION_QUERIES_MAX * dim);
    Cow::Owned(some.flat_map(|start| &queries[start..start + dim]).copied().collect())
}

/// How many rows become samples with exact answers, and without.
fn sample_counts(rows: u64) -> (usize, usize) {
    let few = EXACT_SAMPLES_FEW.min((rows / ROWS_PER_SAMPLE) as usize);
    let some = few.max(EXACT_SAMPLES_MAX.min((rows / ROWS_PER_FURTHER) as usize));
    (some, (ALL_SAMPLES_MAX - some).min((rows / ROWS_PER_MORE) as usize))
}

/// Estimated memory, in bytes, of a calibration by rows of an index of `rows` rows: the samples and
/// their codes, and the model and the landmarks of the index. The memory of pages is not included.
pub fn calibration_memory_bytes(rows: u64, dim: usize) -> u64 {
    memory_bytes_of(rows, dim, sample_counts(rows))
}

/// The same with the fewest samples: less is an error of [`calibrate_within`].
pub fn calibration_memory_bytes_min(rows: u64, dim: usize) -> u64 {
    memory_bytes_of(rows, dim, (sample_counts(rows).0.min(SAMPLES_LEAST), 0))
}

fn memory_bytes_of(rows: u64, dim: usize, (some, more): (usize, usize)) -> u64 {
    let [exact, other] = sample_bytes(dim);
    let inner = inner_dim(dim) as u64;
    let landmarks = inserted_landmarks(rows as usize) as u64 * (inner / 8 + 24);
    some as u64 * exact + more as u64 * other + landmarks + CENTROIDS_MAX as u64 * 5 * inner
}

/// Bytes of a sample with an exact answer, which has a code, and of a sample without one.
fn sample_bytes(dim: usize) -> [u64; 2] {
    let other = 4 * dim as u64 + SAMPLE_BYTES;
    [other + 10 * inner_dim(dim) as u64, other]
}

/// The numbers of samples, with exact answers and without, that `memory_bytes` have room for. Those
/// with exact answers are filled first; the others only add precision.
fn counts_within(rows: u64, dim: usize, memory_bytes: u64) -> Result<(usize, usize), Error> {
    let least = calibration_memory_bytes_min(rows, dim);
    if memory_bytes < least {
        let kib = |bytes: u64| bytes.div_ceil(1 << 10);
        let what = format!(
            "a calibration of {rows} rows needs {} KiB of memory, memory is {} KiB",
            kib(least),
            kib(memory_bytes)
        );
        return Err(Error::Memory { what, needed_bytes: least });
    }
    let ((some, more), [exact, other]) = (sample_counts(rows), sample_bytes(dim));
    let room = memory_bytes - memory_bytes_of(rows, dim, (0, 0));
    let some = some.min((room / exact) as usize);
    Ok((some, more.min(((room - some as u64 * exact) / other) as usize)))
}

/// The samples, of `count`, that calibrate an index for `k` neighbors.
fn some_of(count: usize, k: usize) -> Range<usize> {
    0..(count * NEIGHBORS_FEW / k).clamp(count.min(SAMPLES_MIN), count)
}

/// Squared distance to the tenth nearest row that only one sample in a hundred exceeds.
fn far(samples: &[Sample]) -> f32 {
    let tenth = |sample: &Sample| sample.nearest.get(EVIDENCE_ROWS - 1).map(|(distance, _)| *distance);
    let mut distances: Vec<f32> = samples.iter().filter_map(tenth).collect();
    distances.sort_unstable_by(f32::total_cmp);
    let at = (distances.len() as f32 * NEAR_SHARE) as usize;
    distances.get(at).or(distances.last()).copied().unwrap_or(f32::INFINITY)
}
