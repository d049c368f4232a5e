//! The recall that searches probably have: from what was measured last, or else from trials.

use pagehop_engine::{Info, Measured};

/// The k of the searches, as of VACUUM's audits.
pub(super) const LIKELY_K: usize = 10;

/// What trials found at least where nothing was measured: the recall in an index of 1,000 rows, and
/// by how much it is less each time the rows double. The first are of searches without any
/// setting, the second of those by a recall (`docs/decisions/0027-training-beside-insertions.md`).
const WITHOUT_SETTING: (f32, f32) = (0.99, 0.02);
const BY_RECALL: (f32, f32) = (0.995, 0.011);

/// The recall that searches probably have in sessions that set none: `target` is theirs, and
/// `reached` what the last calibration reached of it. `None` if there are no rows, or if no recall
/// was reached.
pub(super) fn likely_recall(info: &Info, target: Option<f32>, reached: Option<f32>) -> Option<f32> {
    if info.rows == 0 {
        return None;
    }
    let of_such = info.audit.filter(|audit| target.is_some() && (audit.k, audit.target) == (LIKELY_K, target));
    // Of some hundred queries, none may miss a row that others miss.
    let audited = of_such.zip(info.audited).map(|(audit, since)| (audit.recall, 1.0 - audit.half_interval, since));
    let calibrated = reached.zip(info.calibration).map(|(reached, since)| (reached, reached, since));
    let known = [audited, calibrated].into_iter().flatten();
    let fresh = known.clone().find(|(_, _, since)| !since.is_outdated());
    let latest = || known.min_by_key(|(_, _, since)| since.changes);
    match (fresh, info.calibration) {
        (Some((recall, ..)), _) => Some(recall),
        (None, None) if audited.is_none() => Some(unmeasured(info.rows, target.is_some())),
        (None, _) => latest().map(|(recall, most, since)| after_changes(recall.min(most), &since)),
    }
}

/// What is left of a recall that was measured before many rows changed: as much is missed again
/// each time the rows double. In trials it was no more.
fn after_changes(recall: f32, since: &Measured) -> f32 {
    let changed = since.changes as f32 / since.rows.max(1) as f32;
    (1.0 - (1.0 - recall) * (1.0 + (1.0 + changed).log2())).max(0.0)
}

fn unmeasured(rows: u64, by_recall: bool) -> f32 {
    let (recall, less) = if by_recall { BY_RECALL } else { WITHOUT_SETTING };
    (recall - less * (rows as f32 / 1000.0).log2().max(0.0)).max(0.0)
}
