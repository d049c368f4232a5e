//! Audits: compare searches with exact answers, for vectors of the data or for a user's queries.

use crate::index::open::Index;
use crate::index::recall::samples;
use crate::index::search::exact::{self, Bounds, Sample, scan};
use crate::index::search::observer::Unobserved;
use crate::index::search::plan::list_capacity;
use crate::index::search::walk::{EVIDENCE_ROWS, Walk};
use crate::index::state::State;
use crate::page::{Pages, Reader, with_reader};
use crate::{Error, Metric, OnProgress, Progress, RecallReport, SearchOptions, Stats, threads};

/// Searches between two calls of the progress callback.
const LOOK_SEARCHES: usize = 16;

impl<P: Pages> Index<P> {
    /// Measures the recall@k of searches with `options`. The queries are `queries`, the user's
    /// vectors one after another, or `samples` vectors of the data if there are none. Does not
    /// block searches or writes; rows that a writer moves at the same time may count as missed.
    ///
    /// Reads every page once; `threads` of 0 means one per core.
    ///
    /// # Errors
    ///
    /// Those of [`Index::search_with`] and [`Index::calibrate`]; [`Error::Argument`] if there is no
    /// query or no row to find.
    pub fn recall(
        &self,
        k: usize,
        samples: usize,
        queries: Option<&[f32]>,
        options: &SearchOptions,
        threads: usize,
        progress: OnProgress<'_>,
    ) -> Result<RecallReport, Error> {
        options.validate(k)?;
        let mut reader = self.pages().reader();
        let state = self.newest().renew(&mut reader)?;
        let most = k.max(EVIDENCE_ROWS);
        let node_pages = state.node_pages(self.pages());
        let seed = state.meta.change.commit;
        let chosen = match queries {
            None => samples::choose(&state, node_pages, &mut reader, (samples, most), seed, progress),
            Some(queries) => exact::given(state.meta.dim, queries, most),
        };
        reader.pause();
        let mut samples = chosen?;
        scan(&state, self.pages(), &mut samples, Bounds::Likely, threads, progress)?;
        samples.retain(|sample| !sample.nearest.is_empty());
        if samples.is_empty() {
            return Err(Error::argument("there are no rows, or no queries, to measure recall with"));
        }
        let length = samples.len().div_ceil(threads::available(threads)).max(1);
        let total = length as u64;
        let mut go_on = |done| progress(Progress { phase: "search", done, total });
        let parts = threads::each(samples.chunks(length), &mut go_on, |part, look| {
            let (mut walk, mut shares) = (Walk::default(), Vec::with_capacity(part.len()));
            with_reader(self.pages(), |reader| {
                for (at, sample) in part.iter().enumerate() {
                    if at % LOOK_SEARCHES == 0 {
                        look(at as u64)?;
                    }
                    shares.push(found(&state, reader, &mut walk, sample, k, options)?);
                }
                Ok(())
            })
            .map(|()| shares)
        })?;
        let (shares, hops): (Vec<f32>, Vec<f32>) = parts.into_iter().flatten().unzip();
        let (recall, half_interval) = samples::mean(&shares);
        let hops = hops.iter().sum::<f32>() / hops.len() as f32;
        Ok(RecallReport { recall, half_interval, samples: samples.len(), hops, far: far_share(&state, &samples) })
    }
}

/// Recall of a search for one sample, and its hops.
fn found<R: Reader>(
    state: &State,
    reader: &mut R,
    walk: &mut Walk,
    sample: &Sample,
    k: usize,
    options: &SearchOptions,
) -> Result<(f32, f32), Error> {
    walk.probe.prepare(&state.meta, &state.model, &sample.query)?;
    let mut stats = Stats::default();
    walk.begin(state, list_capacity(k, options, state), k, state.meta.change.dead_rows == 0);
    walk.leave_out(&sample.left_out, state, reader)?;
    walk.run(state, reader, options, &mut Unobserved, &mut stats)?;
    let found = sample.found(walk.nearest.found.iter().map(|near| near.distance), k);
    Ok((found as f32 / sample.wanted(k) as f32, stats.hops as f32))
}

/// Share of the samples that are far from their tenth nearest row; `None` if unknown.
fn far_share(state: &State, samples: &[Sample]) -> Option<f32> {
    let far = state.meta.calibration.as_ref()?.far;
    if state.meta.metric == Metric::InnerProduct || !far.is_finite() {
        return None;
    }
    let is_far =
        |sample: &&Sample| sample.nearest.get(EVIDENCE_ROWS - 1).is_some_and(|(distance, _)| *distance > far);
    Some(samples.iter().filter(is_far).count() as f32 / samples.len() as f32)
}
