//! What was measured of an index: the settings that reach a recall, and what an audit found. They are stored on the meta page.

use std::sync::Arc;

use super::meta::Fields;
use super::{SEARCH_LIST_MAX, SearchOptions};
use crate::Error;
use crate::page::PageId;

/// Recalls for which settings are stored.
pub const RECALLS: [f32; 7] = [0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999];
/// The recall that searches have where a host lets nothing be asked for; one of [`RECALLS`].
pub const RECALL_DEFAULT: f32 = 0.98;
/// Numbers of neighbors for which they are.
pub(crate) const KS: [usize; 4] = [1, 10, 100, 1000];
/// Where the calibration is on the meta page, and its length.
const CALIBRATION_AT: usize = 256;
const ENTRY_BYTES: usize = 8 + RECALLS.len() * 12;
const CALIBRATION_BYTES: usize = 24 + KS.len() * ENTRY_BYTES;
/// What was added later: where it is and its length.
const FAR_AT: usize = CALIBRATION_AT + CALIBRATION_BYTES;
const AUDIT_AT: usize = FAR_AT + 4;
const AUDIT_BYTES: usize = 40;
const QUERIES_AT: usize = AUDIT_AT + AUDIT_BYTES;
#[cfg(test)]
const QUERIES_BYTES: usize = 4;

/// The cheapest settings found for each recall, and how well they were known then.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Rows (nodes, where equal vectors share one) that the index had.
    pub rows: u64,
    /// What [`Info`](super::Info) counted as added and deleted then, together. Since then there were as many changes as the two
    /// have grown by, modulo 2^64: they begin anew when the model is trained.
    pub changes: u64,
    /// Queries that were answered exactly.
    pub samples: u32,
    /// Whether they were a user's, and not vectors of the data.
    pub by_queries: bool,
    /// Squared distance, in the inner space, beyond which the tenth row was for one sample of a hundred; infinite if unknown.
    pub far: f32,
    /// For ascending numbers of neighbors.
    pub entries: Vec<CalibratedK>,
}

/// Settings for one number of neighbors.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibratedK {
    /// Neighbors that are wanted.
    pub k: usize,
    /// The highest recall that was measured.
    pub best: f32,
    /// For each of [`RECALLS`]; `None` where `best` is less.
    pub settings: [Option<Setting>; RECALLS.len()],
}

/// Settings that had a recall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// See [`SearchOptions::slack`].
    pub slack: f32,
    /// See [`SearchOptions::search_list`].
    pub search_list: usize,
    /// Half the width of the interval in which the recall lies with 95% probability.
    pub interval: f32,
}

/// What was found when searches were last measured against exact answers, and the answer stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Audit {
    /// Neighbors that were wanted.
    pub k: usize,
    /// Mean share of them that was found.
    pub recall: f32,
    /// Half the width of the interval in which the recall lies with 95% probability.
    pub interval: f32,
    /// The recall that was asked for; `None` if settings were given instead.
    pub target: Option<f32>,
    /// Queries that were answered exactly.
    pub samples: u32,
    /// Rows that the index had.
    pub rows: u64,
    /// As [`Calibration::changes`], as of then.
    pub changes: u64,
}

/// Refuses a recall that no settings have.
pub(super) fn check_recall(recall: f32) -> Result<(), Error> {
    if recall > 0.0 && recall < 1.0 {
        return Ok(());
    }
    Err(Error::argument(format!("recall is {recall}, it must be above 0 and below 1")))
}

impl Calibration {
    /// The settings for the `k` nearest with a mean recall of `recall`, between those that were measured. Below the least
    /// recall that was, those of that one.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a recall that is not above 0 and below 1, or that was not reached: it names the best that was; for a
    /// `k` above the most it was calibrated for: 10, 100 or 1,000, the largest that is no more than a tenth of the rows.
    pub fn options(&self, k: usize, recall: f32) -> Result<SearchOptions, Error> {
        check_recall(recall)?;
        let most = self.k_max();
        if k > most {
            return Err(Error::argument(format!(
                "k is {k}, and the index is calibrated for up to {most} neighbors of its {} rows: give search_list \
                 or slack instead of recall, or a recall of 1",
                self.rows
            )));
        }
        let at = self.entries.partition_point(|entry| entry.k < k);
        let above = &self.entries[at];
        let below = if above.k == k { above } else { &self.entries[at.saturating_sub(1)] };
        let (low, high) = (below.setting(recall)?, above.setting(recall)?);
        let share = match (below.k as f32, above.k as f32, k as f32) {
            (a, b, k) if a < b => ((k / a).ln() / (b / a).ln()).clamp(0.0, 1.0),
            _ => 1.0,
        };
        let search_list = list_between(low.search_list, high.search_list, share).max(k);
        Ok(SearchOptions { search_list, slack: between(low.slack, high.slack, share), ..SearchOptions::default() })
    }

    /// The most neighbors that there are settings for.
    pub(super) fn k_max(&self) -> usize {
        self.entries[self.entries.len() - 1].k
    }

    /// It itself, for counts of changes that stood at `counted` and are 0 from now on.
    pub(super) fn counted_anew(&self, counted: u64) -> Arc<Self> {
        Arc::new(Self { changes: self.changes.wrapping_sub(counted), ..self.clone() })
    }

    /// What a changed meta page has of it. Bytes of the page that are not its own stay.
    pub(super) fn write(&self, body: &mut [u8]) {
        let mut bytes = Vec::with_capacity(CALIBRATION_BYTES);
        bytes.extend_from_slice(&self.samples.to_le_bytes());
        bytes.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.rows.to_le_bytes());
        bytes.extend_from_slice(&self.changes.to_le_bytes());
        for entry in &self.entries {
            bytes.extend_from_slice(&(entry.k as u32).to_le_bytes());
            bytes.extend_from_slice(&entry.best.to_le_bytes());
            for setting in &entry.settings {
                let none = Setting { slack: f32::NAN, search_list: 0, interval: 0.0 };
                let Setting { slack, search_list, interval } = setting.unwrap_or(none);
                bytes.extend_from_slice(&slack.to_le_bytes());
                bytes.extend_from_slice(&(search_list as u32).to_le_bytes());
                bytes.extend_from_slice(&interval.to_le_bytes());
            }
        }
        debug_assert!(bytes.len() <= CALIBRATION_BYTES);
        body[CALIBRATION_AT..][..bytes.len()].copy_from_slice(&bytes);
        let far = if self.far.is_finite() { self.far } else { 0.0 };
        body[FAR_AT..][..4].copy_from_slice(&far.to_le_bytes());
        // How many queries were a user's: an older program, which knows nothing of it, measures with another number of its own.
        let given = if self.by_queries { self.samples } else { 0 };
        body[QUERIES_AT..][..4].copy_from_slice(&given.to_le_bytes());
    }

    /// What a meta page has of it, if it has any.
    pub(super) fn read(body: &[u8]) -> Result<Option<Self>, Error> {
        let mut fields = Fields { body, at: CALIBRATION_AT };
        let (samples, entries) = (fields.u32(), fields.u32() as usize);
        if samples == 0 {
            return Ok(None);
        }
        let (rows, changes) = (fields.u64(), fields.u64());
        if !(1..=KS.len()).contains(&entries) {
            return Err(Error::corrupt(PageId(0), format!("it is calibrated for {entries} numbers of neighbors")));
        }
        let entries: Vec<_> = (0..entries).map(|_| CalibratedK::read(&mut fields)).collect::<Result<_, _>>()?;
        if !entries.is_sorted_by(|a, b| a.k < b.k) {
            return Err(Error::corrupt(PageId(0), "what it is calibrated for is not in order"));
        }
        let far = f32::from_le_bytes(Fields { body, at: FAR_AT }.bytes());
        // An older program knew nothing of it.
        let far = if far > 0.0 { far } else { f32::INFINITY };
        let by_queries = Fields { body, at: QUERIES_AT }.u32() == samples;
        Ok(Some(Self { rows, changes, samples, by_queries, far, entries }))
    }
}

impl Audit {
    /// What a changed meta page has of it.
    pub(super) fn write(&self, body: &mut [u8]) {
        let mut bytes = Vec::new();
        for number in [self.samples, self.k as u32] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.rows, self.changes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.recall, self.interval, self.target.unwrap_or(0.0)] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        body[AUDIT_AT..][..bytes.len()].copy_from_slice(&bytes);
    }

    /// What a meta page has of it, if it has any.
    pub(super) fn read(body: &[u8]) -> Result<Option<Self>, Error> {
        let mut fields = Fields { body, at: AUDIT_AT };
        let (samples, k) = (fields.u32(), fields.u32() as usize);
        if samples == 0 {
            return Ok(None);
        }
        let (rows, changes) = (fields.u64(), fields.u64());
        let [recall, interval, target] = std::array::from_fn(|_| f32::from_le_bytes(fields.bytes()));
        if [recall, interval, target].iter().any(|share| !(0.0..=1.0).contains(share)) || k == 0 {
            return Err(Error::corrupt(PageId(0), format!("an audit found a recall of {recall} at {k}")));
        }
        let target = (target > 0.0).then_some(target);
        Ok(Some(Self { k, recall, interval, target, samples, rows, changes }))
    }
}

impl CalibratedK {
    fn setting(&self, recall: f32) -> Result<Setting, Error> {
        let at = RECALLS.partition_point(|known| *known < recall);
        let reached = |at: usize| {
            self.settings.get(at).copied().flatten().ok_or_else(|| {
                let most = if at == RECALLS.len() { RECALLS[at - 1].min(self.best) } else { self.best };
                Error::argument(format!(
                    "recall {recall} at {} neighbors was not reached when the index was calibrated: the best was {most:.4}",
                    self.k
                ))
            })
        };
        let (low, high) = (reached(at.saturating_sub(1))?, reached(at)?);
        if at == 0 {
            return Ok(high);
        }
        // What is missed falls about as a power of the effort.
        let missed = |recall: f32| -(1.0 - recall).ln();
        let share = (missed(recall) - missed(RECALLS[at - 1])) / (missed(RECALLS[at]) - missed(RECALLS[at - 1]));
        Ok(Setting {
            slack: between(low.slack, high.slack, share),
            search_list: list_between(low.search_list, high.search_list, share),
            interval: low.interval.max(high.interval),
        })
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let k = fields.u32() as usize;
        let best = f32::from_le_bytes(fields.bytes());
        let mut settings = [None; RECALLS.len()];
        for setting in &mut settings {
            let slack = f32::from_le_bytes(fields.bytes());
            let search_list = fields.u32() as usize;
            let interval = f32::from_le_bytes(fields.bytes());
            *setting = (!slack.is_nan()).then_some(Setting { slack, search_list, interval });
            let fits = |s: Setting| s.slack >= 0.0 && (1..=SEARCH_LIST_MAX).contains(&s.search_list);
            if !setting.is_none_or(fits) {
                let what = format!("it is calibrated to a slack of {slack} with a list of {search_list}");
                return Err(Error::corrupt(PageId(0), what));
            }
        }
        if !(1..=SEARCH_LIST_MAX).contains(&k) || !(0.0..=1.0).contains(&best) {
            return Err(Error::corrupt(PageId(0), format!("it is calibrated for {k} neighbors to {best}")));
        }
        Ok(Self { k, best, settings })
    }
}

/// A share of the way from one slack to another, either of which may be infinite.
fn between(low: f32, high: f32, share: f32) -> f32 {
    match low.is_finite() && high.is_finite() {
        true => low + (high - low) * share,
        false if share <= 0.0 => low,
        false if share >= 1.0 => high,
        false => f32::INFINITY,
    }
}

/// The same from one list to another.
fn list_between(low: usize, high: usize, share: f32) -> usize {
    let (low, high) = (low as f32, high as f32);
    // Digits that only rounding made are no reason for one more.
    ((low * (high / low).powf(share) - 1e-3).ceil() as usize).clamp(1, SEARCH_LIST_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::BODY_BYTES;

    fn calibration() -> Calibration {
        let setting = |slack, search_list| Some(Setting { slack, search_list, interval: 0.01 });
        let entry = |k, more: f32| CalibratedK {
            k,
            best: 0.997,
            settings: [
                setting(more, 100),
                setting(more + 0.1, 100),
                setting(more + 0.2, 100),
                setting(more + 0.3, 100),
                setting(more + 0.4, 200),
                setting(f32::INFINITY, 400),
                None,
            ],
        };
        Calibration {
            rows: 7,
            changes: 8,
            samples: 9,
            by_queries: true,
            far: 10.0,
            entries: vec![entry(1, 0.0), entry(10, 0.1), entry(1000, 0.3)],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut body = vec![0; BODY_BYTES];
        assert_eq!(Calibration::read(&body).expect("none"), None);
        calibration().write(&mut body);
        assert_eq!(Calibration::read(&body).expect("one"), Some(calibration()));
        assert_eq!(Audit::read(&body).expect("none"), None);
        let audit =
            Audit { k: 10, recall: 0.9, interval: 0.01, target: Some(0.95), samples: 11, rows: 12, changes: 13 };
        audit.write(&mut body);
        assert_eq!(Audit::read(&body).expect("one"), Some(audit));
        let end = QUERIES_AT + QUERIES_BYTES;
        assert!(body[..CALIBRATION_AT].iter().chain(&body[end..]).all(|b| *b == 0));
        for at in CALIBRATION_AT..end {
            let mut damaged = body.clone();
            damaged[at] = 0xFF;
            if let Ok(Some(read)) = Calibration::read(&damaged) {
                let _ = read.options(10, 0.9);
            }
            let _ = Audit::read(&damaged);
        }
    }

    #[test]
    fn settings_lie_between_those_that_were_measured() {
        let known = calibration();
        let slack = |k, recall| known.options(k, recall).expect("reached").slack;
        assert_eq!(slack(10, 0.9), 0.2);
        assert_eq!(slack(10, 0.5), 0.1);
        assert_eq!(slack(1, 0.95), 0.2);
        assert!((0.2..0.3).contains(&slack(10, 0.93)));
        assert!((0.3..0.5).contains(&slack(100, 0.95)));
        let error = known.options(1001, 0.95).expect_err("more than was tried").to_string();
        assert!(error.contains("up to 1000 neighbors"), "{error}");
        assert_eq!(slack(10, 0.995), f32::INFINITY);
        let list = |k, recall| known.options(k, recall).expect("reached").search_list;
        assert_eq!((list(10, 0.99), list(300, 0.9)), (200, 300));
        assert_eq!(list(10, 0.986), 143, "between 100 and 200");
        for recall in [0.997, 0.999, 0.9999] {
            let error = known.options(10, recall).expect_err("not reached").to_string();
            assert!(error.contains("the best was 0.997"), "{error}");
        }
        for recall in [0.0, 1.0, -1.0, 2.0, f32::NAN] {
            assert!(known.options(10, recall).is_err(), "{recall}");
        }
    }
}
