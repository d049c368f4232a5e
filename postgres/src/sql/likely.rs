//! The recall that searches probably have: what was measured last, or the lowest recall of trials
//! if nothing was measured.

use pagehop_engine::{Info, Measured};

/// The k of the searches, as of VACUUM's audits.
pub(super) const LIKELY_K: usize = 10;

/// A lower bound of the recall that trials found in indexes that were never measured: the recall at
/// 1,000 rows, and how much is lost each time the rows double
/// (`docs/decisions/0027-training-beside-insertions.md`). For searches without any setting, and for
/// searches that aim at a recall.
const WITHOUT_SETTING: (f32, f32) = (0.99, 0.02);
const BY_RECALL: (f32, f32) = (0.995, 0.011);

/// The recall that searches probably have in a session without settings of its own. `target` is the
/// recall that these searches aim at, and `reached` the recall that the last calibration reached
/// for it. `None` if the index has no rows, or if its calibration reached no recall.
pub(super) fn likely_recall(info: &Info, target: Option<f32>, reached: Option<f32>) -> Option<f32> {
    if info.rows == 0 {
        return None;
    }
    let of_such = info.audit.filter(|audit| target.is_some() && (audit.k, audit.target) == (LIKELY_K, target));
    // An audit of a few hundred queries may find every row although searches miss some. So changes
    // are counted from a recall of at most 1 minus half the interval of the audit.
    let audited = of_such.zip(info.audited).map(|(audit, since)| (audit.recall, 1.0 - audit.half_interval, since));
    let calibrated = reached.zip(info.calibrated).map(|(reached, since)| (reached, reached, since));
    let known = [audited, calibrated].into_iter().flatten();
    let fresh = known.clone().find(|(_, _, since)| !since.is_outdated());
    let latest = || known.min_by_key(|(_, _, since)| since.changes);
    match (fresh, info.calibrated) {
        (Some((recall, ..)), _) => Some(recall),
        (None, None) if audited.is_none() => Some(unmeasured(info.rows, target.is_some())),
        (None, _) => latest().map(|(recall, most, since)| after_changes(recall.min(most), &since)),
    }
}

/// The recall that is left after many rows have changed since it was measured. The share of missed
/// rows grows by its first value each time the rows double: trials never found a larger growth.
fn after_changes(recall: f32, since: &Measured) -> f32 {
    let changed = since.changes as f32 / since.rows.max(1) as f32;
    (1.0 - (1.0 - recall) * (1.0 + (1.0 + changed).log2())).max(0.0)
}

/// The recall of an index of `rows` rows that was never measured.
fn unmeasured(rows: u64, by_recall: bool) -> f32 {
    let (recall, less) = if by_recall { BY_RECALL } else { WITHOUT_SETTING };
    (recall - less * (rows as f32 / 1000.0).log2().max(0.0)).max(0.0)
}
