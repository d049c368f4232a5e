//! How hard to search: what an [`Effort`] comes to on this index. The one place that decides it.

use crate::calibration::CALIBRATED_ROWS_MIN;
use crate::index::state::State;
use crate::page::meta::Meta;
use crate::{Effort, Error, Measured, Reach, SearchOptions, SearchPlan};

/// How to search an index with this meta page.
pub(crate) fn plan(meta: &Meta, k: usize, effort: &Effort) -> Result<SearchPlan, Error> {
    let plan = match *effort {
        Effort::Default => default_plan(meta, k),
        Effort::Recall(1.0) => SearchPlan::exact(),
        Effort::Recall(recall) => plan_for(meta, k, recall)?,
        Effort::Settings { search_list, slack } => SearchOptions::of_settings(search_list, slack).into(),
    };
    plan.options.clone().unwrap_or_default().validate(k)?;
    Ok(plan)
}

fn default_plan(meta: &Meta, k: usize) -> SearchPlan {
    let calibrated = meta.calibration.as_ref().and_then(|known| Some(known.plan(k, known.default_recall(k)?)));
    calibrated.unwrap_or_else(|| SearchOptions::default().into())
}

fn plan_for(meta: &Meta, k: usize, recall: f32) -> Result<SearchPlan, Error> {
    if !(recall > 0.0 && recall < 1.0) {
        return Err(Error::argument(format!("recall is {recall}, it must be above 0 and at most 1")));
    }
    match &meta.calibration {
        Some(calibration) => {
            let outdated = calibrated(meta).filter(Measured::is_outdated);
            Ok(SearchPlan { outdated, ..calibration.plan(k, recall) })
        }
        None if meta.rows < CALIBRATED_ROWS_MIN => {
            Ok(SearchOptions::to_the_end(CALIBRATED_ROWS_MIN as usize).into())
        }
        None => Ok(SearchPlan { reach: Reach::Uncalibrated, ..SearchOptions::uncalibrated().into() }),
    }
}

/// The capacity of the list: `search_list`, plus the places that dead nodes are expected to take,
/// and at least `k`.
pub(crate) fn list_capacity(k: usize, options: &SearchOptions, state: &State) -> usize {
    let (rows, dead) = (state.meta.rows.max(1), state.meta.change.dead_rows);
    let more = (options.search_list as u64).saturating_mul(dead.min(3 * rows)) / rows;
    k.max(options.search_list + more as usize)
}

/// How much longer rows outdate a calibration, as a factor of squared norms.
const LONGER: f32 = 1.1;

/// What has become of the index since it was calibrated; `None` if it never was.
pub(crate) fn calibrated(meta: &Meta) -> Option<Measured> {
    let known = meta.calibration.as_ref()?;
    Some(Measured {
        rows: known.rows,
        samples: known.samples,
        by_queries: known.by_queries,
        changes: since(meta, known.changes),
        longer_rows: meta.change.norm_sq_beyond > LONGER * meta.norm_sq_max,
    })
}

/// The same since the audit that was stored last.
pub(crate) fn audited(meta: &Meta) -> Option<Measured> {
    let audit = meta.audit?;
    let changes = since(meta, audit.changes);
    Some(Measured { rows: audit.rows, samples: audit.samples, by_queries: false, changes, longer_rows: false })
}

/// Rows added and deleted since their count was `then`.
pub(crate) fn since(meta: &Meta, then: u64) -> u64 {
    meta.change.added_rows.wrapping_add(meta.change.deleted_rows).wrapping_sub(then)
}
