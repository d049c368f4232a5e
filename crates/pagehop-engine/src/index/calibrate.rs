//! Measuring an index: which settings reach a recall.
//!
//! ```text
//! choose   some thousand vectors of the data as queries
//! scan     the nearest rows of some hundred of them, by a look at every row
//! search   for all of them, and see what shorter lists and less slack would have found, and in how many hops (effort.rs)
//! store    for each recall the list and slack that reach it in the fewest
//! ```

use std::ops::Range;
use std::sync::Arc;

use super::calibration::{Calibration, KS, RECALL_DEFAULT, RECALLS, check_recall};
use super::effort::{self, Effort};
use super::samples::{self, SAMPLES_MIN, Sample};
use super::scan::{Bounds, scan};
use super::search::EVIDENCE_ROWS;
use super::{Change, Index, OnProgress, Progress, SearchOptions};
use crate::page::{Pages, PagesMut, Reader};
use crate::{Error, RowIds, threads};

/// Fewest rows on which settings can be told apart.
pub const CALIBRATED_ROWS_MIN: u64 = 1000;
/// Fewest queries of a user's by which settings can be told apart.
pub const CALIBRATION_QUERIES_MIN: usize = 50;
/// Most samples that are answered exactly.
const SAMPLES_MAX: usize = 256;
/// Most that are judged by what they find themselves.
const MORE_SAMPLES_MAX: usize = 1744;
/// One row of so many is one of these.
const ROWS_PER_MORE: u64 = 16;
/// One row of so many is answered exactly, of few rows.
const ROWS_PER_SAMPLE: u64 = 4;
/// For more neighbors, each of which says something, samples are as many fewer as there are more than so many of them.
const NEIGHBORS_FEW: usize = 25;
/// An index of fewer rows than so many for each of `k` is not calibrated for it.
const ROWS_PER_NEIGHBOR: u64 = 10;
/// Share of the samples that are nearer to their neighbors than a query that is called far.
const NEAR_SHARE: f32 = 0.99;

impl<P: Pages> Index<P> {
    /// Measures which settings reach which recall: for vectors of the data or, if there are any, for `queries`, the user's, one
    /// after the other. Nothing is changed: [`Change::set_calibration`] stores it. `None` for an index of fewer than
    /// [`CALIBRATED_ROWS_MIN`] rows.
    ///
    /// It reads every page once for each of `threads` (0: one for each core) and takes about as long as a tenth of a build by one thread.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for fewer than [`CALIBRATION_QUERIES_MIN`] queries, but for none; those of [`Index::search`] for one that
    /// cannot be placed. [`Error::Interrupted`] if `progress` says so; whatever the host reports.
    pub fn calibrate(
        &self,
        queries: &[f32],
        threads: usize,
        progress: OnProgress<'_>,
    ) -> Result<Option<Calibration>, Error> {
        let mut reader = self.pages.reader();
        let state = self.newest.renew(&mut reader)?;
        let (rows, change) = (state.meta.rows, &state.meta.change);
        let some = SAMPLES_MAX.min((rows / ROWS_PER_SAMPLE) as usize);
        let more = MORE_SAMPLES_MAX.min((rows / ROWS_PER_MORE) as usize);
        let mut samples = match queries {
            [] => samples::choose(&state, &mut reader, some + more, EVIDENCE_ROWS, change.commit)?,
            _ => samples::given(state.meta.dim, queries, EVIDENCE_ROWS)?,
        };
        // The first are spread over the data as all are.
        let more = samples.split_off(if queries.is_empty() { some.min(samples.len()) } else { samples.len() });
        reader.pause();
        if !queries.is_empty() && samples.len() < CALIBRATION_QUERIES_MIN {
            let count = samples.len();
            let what = format!("there are {count} queries, a calibration takes {CALIBRATION_QUERIES_MIN} at least");
            return Err(Error::argument(what));
        }
        if rows < CALIBRATED_ROWS_MIN || samples.is_empty() {
            return Ok(None);
        }
        let ks: Vec<usize> = KS.into_iter().filter(|k| *k as u64 * ROWS_PER_NEIGHBOR <= rows).collect();
        // The nearest row is found by the same search as the nearest ten.
        let groups: Vec<&[usize]> = ks.chunk_by(|_, k| *k <= EVIDENCE_ROWS).collect();
        let some = |ks: &[usize]| some_of(samples.len(), ks[ks.len() - 1]);
        let shares: Vec<Range<usize>> = groups.iter().map(|ks| some(ks)).collect();
        for (share, ks) in shares.iter().zip(&groups) {
            samples[share.clone()].iter_mut().for_each(|sample| sample.k = ks[ks.len() - 1]);
        }
        scan(&state, &self.pages, &mut samples, Bounds::Likely, threads, progress)?;
        let effort = Effort { state: &state, pages: &self.pages, threads: threads::available(threads) };
        let mut entries = Vec::new();
        for (at, (share, ks)) in shares.into_iter().zip(&groups).enumerate() {
            let (done, total) = (at * effort::STAGES, groups.len() * effort::STAGES);
            let more = if at == 0 { &more[..] } else { &[] };
            entries.extend(effort.measure(&samples[share], more, ks, &mut |stage| {
                progress(Progress { phase: "search", done: (done + stage) as u64, total: total as u64 })
            })?);
        }
        let changes = change.added_rows.wrapping_add(change.deleted_rows);
        let (samples, far) = (samples.len() as u32, far(&samples));
        Ok(Some(Calibration { rows, changes, samples, by_queries: !queries.is_empty(), far, entries }))
    }

    /// The body of the meta page with a calibration on it: for a host that is about to make an index of what was built.
    ///
    /// # Errors
    ///
    /// Whatever the host reports.
    pub fn calibrated_meta_page(&self, calibration: Calibration) -> Result<Vec<u8>, Error> {
        let mut meta = self.newest.renew(&mut self.pages.reader())?.meta.clone();
        meta.calibration = Some(Arc::new(calibration));
        Ok(meta.encode())
    }

    /// Options with which searches for the `k` nearest have a mean recall of `recall`: those it was calibrated to. An index too
    /// small to be calibrated is searched to its end. `None` for another that was never calibrated.
    ///
    /// # Errors
    ///
    /// Those of [`Calibration::options`]; whatever the host reports.
    pub fn tuned(&self, k: usize, recall: f32) -> Result<Option<SearchOptions>, Error> {
        self.tuned_by(recall, |_| k)
    }

    /// The same for `k` or as many as it was calibrated for: for a host that goes on for as long as it is asked.
    ///
    /// # Errors
    ///
    /// As [`Index::tuned`], but for a `k` above the most.
    pub fn tuned_at_most(&self, k: usize, recall: f32) -> Result<Option<SearchOptions>, Error> {
        self.tuned_by(recall, |calibration| k.min(calibration.k_max()))
    }

    fn tuned_by(&self, recall: f32, k: impl FnOnce(&Calibration) -> usize) -> Result<Option<SearchOptions>, Error> {
        let state = self.newest.renew(&mut self.pages.reader())?;
        if let Some(calibration) = &state.meta.calibration {
            return calibration.options(k(calibration), recall).map(Some);
        }
        check_recall(recall)?;
        let everything = SearchOptions {
            search_list: CALIBRATED_ROWS_MIN as usize,
            slack: f32::INFINITY,
            ..SearchOptions::default()
        };
        Ok((state.meta.rows < CALIBRATED_ROWS_MIN).then_some(everything))
    }

    /// Options of searches for the `k` nearest where nothing is asked for: those with a mean recall of [`RECALL_DEFAULT`], or of the highest
    /// below it that was measured, for `k` or as many as it was calibrated for. The fixed ones of [`SearchOptions::default`] where none was.
    ///
    /// # Errors
    ///
    /// Whatever the host reports.
    pub fn tuned_or_default(&self, k: usize) -> Result<SearchOptions, Error> {
        let state = self.newest.renew(&mut self.pages.reader())?;
        let Some(calibration) = &state.meta.calibration else { return Ok(SearchOptions::default()) };
        let k = k.min(calibration.k_max());
        let lower = RECALLS.iter().rev().copied().filter(|recall| *recall <= RECALL_DEFAULT);
        Ok(lower.filter_map(|recall| calibration.options(k, recall).ok()).next().unwrap_or_default())
    }
}

impl<W: PagesMut> Change<'_, W> {
    /// Whether the index is to be calibrated once this change has taken place: the change makes it large enough, has trained its model
    /// anew, or doubles the rows that it was calibrated with, unless the host has a VACUUM, which sees to that. Not if it was calibrated
    /// by a user's queries, for which vectors of the data are no substitute.
    pub fn wants_calibration(&self) -> bool {
        let passes = |rows: u64| self.rows_before < rows && self.rows() >= rows;
        let is_trained = self.meta.change.model_start != self.model_before;
        match self.meta.calibration.as_deref() {
            None => passes(CALIBRATED_ROWS_MIN) || is_trained && self.rows() >= CALIBRATED_ROWS_MIN,
            Some(known) if known.by_queries => false,
            Some(known) => {
                let is_doubled = self.meta.row_ids == RowIds::Mapped && passes(known.rows.saturating_mul(2));
                is_doubled || is_trained && self.rows() >= CALIBRATED_ROWS_MIN
            }
        }
    }

    /// Stores what [`Index::calibrate`] measured, in place of what was measured before.
    ///
    /// # Errors
    ///
    /// Whatever the host reports. The change must then be dropped.
    pub fn set_calibration(&mut self, calibration: Calibration) -> Result<(), Error> {
        let calibration = Arc::new(calibration);
        self.step_meta(&[], &mut |meta, _| {
            meta.calibration = Some(calibration.clone());
            Ok(())
        })
    }
}

/// Of `count` samples those by which an index is calibrated for `k` neighbors.
fn some_of(count: usize, k: usize) -> Range<usize> {
    0..(count * NEIGHBORS_FEW / k).clamp(count.min(SAMPLES_MIN), count)
}

/// Squared distance beyond which the tenth row is for hardly any sample.
fn far(samples: &[Sample]) -> f32 {
    let tenth = |sample: &Sample| sample.nearest.get(EVIDENCE_ROWS - 1).map(|(distance, _)| *distance);
    let mut distances: Vec<f32> = samples.iter().filter_map(tenth).collect();
    distances.sort_unstable_by(f32::total_cmp);
    let at = (distances.len() as f32 * NEAR_SHARE) as usize;
    distances.get(at).or(distances.last()).copied().unwrap_or(f32::INFINITY)
}
