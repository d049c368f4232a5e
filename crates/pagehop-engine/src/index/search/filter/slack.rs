//! How far a search by postings looks, from the slack of its options: which leaves it reads, and
//! how many nodes it visits.
//!
//! A slack is chosen for walks that search for `k` rows. The more rows, the smaller it is for the
//! same recall: the distance of the last row is known better. But the share of rows behind a wall
//! does not depend on `k`, so leaves are chosen by the slack that ten rows need for that recall.
//! Of many rows, whose distances are nearly the same, wrong estimates also cost more, so more nodes
//! are visited. `docs/decisions/0015-filters.md` has the measurements, *Many rows*.

use super::plan::FEW_ROWS;
use crate::index::search::filter::walls;
use crate::index::search::walk::around;
use crate::page::meta::Meta;

/// The width for a slack of 0, and its growth with the square root of the slack.
const WIDTH: f32 = 0.67;
const WIDTH_OF_ROOT: f32 = 1.75;
/// Share of the slack that visits need for the same recall: wrong estimates cost a search by
/// postings rows, missing edges do not.
const ALL_LEAVES: f32 = 0.58;
/// The same if some leaves are skipped, whose rows are missed: for the same recall, one more node
/// costs fewer pages than those leaves.
const SOME_LEAVES: f32 = 0.8;
/// Largest growth of this share with the number of rows.
const GROWTH_MAX: f32 = 1.5;

/// A walk also finds rows because they share a page with others. Searches by postings get the slack
/// of walks that miss this share of what was asked.
const MISSED: f32 = 0.83;

/// The width ([`Walls::limit`](walls::Walls::limit)) of a search for `k` rows with this slack.
/// Under the inner product it is infinite: rows may be near however far their cell is from that of
/// the query.
pub(crate) fn width(slack: f32, k: usize, meta: &Meta) -> f32 {
    if !walls::tells(meta) {
        return f32::INFINITY;
    }
    let few = match &meta.calibration {
        Some(known) if k > FEW_ROWS && slack.is_finite() => known.slack_for(FEW_ROWS, (k, slack)),
        _ => slack,
    };
    let few = without_page_neighbors(few, k.min(FEW_ROWS), meta);
    WIDTH + WIDTH_OF_ROOT * (few.max(0.0) * growth(k)).sqrt()
}

/// The slack of the visits of such a search, which read only some leaves or all.
pub(crate) fn of_visits(slack: f32, k: usize, some_leaves: bool, meta: &Meta) -> f32 {
    let slack = without_page_neighbors(slack, k, meta);
    slack * if some_leaves { SOME_LEAVES } else { ALL_LEAVES } * growth(k).min(GROWTH_MAX)
}

/// The slack with which a search that compares no page neighbors finds what a walk finds with
/// `slack`.
fn without_page_neighbors(slack: f32, k: usize, meta: &Meta) -> f32 {
    match &meta.calibration {
        Some(known) if slack.is_finite() && around::looks(&meta.layout, false) => {
            known.slack_missing(MISSED, (k, slack))
        }
        _ => slack,
    }
}

/// 1 for few rows, 1.8 for ten times as many.
fn growth(k: usize) -> f32 {
    (k.max(FEW_ROWS) as f32 / FEW_ROWS as f32).sqrt().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rows_take_wider_searches_and_more_visits() {
        assert_eq!((growth(1), growth(10), growth(160)), (1.0, 1.0, 2.0));
        let meta = Meta::empty(crate::Metric::L2, 384, 0, 1, crate::IdKind::Int);
        let of_visits = |slack, k, some_leaves| super::of_visits(slack, k, some_leaves, &meta);
        let visits = |k| of_visits(0.1, k, true);
        assert!((visits(10) - 0.08).abs() < 1e-6 && (visits(1000) - 0.12).abs() < 1e-6);
        assert!(of_visits(0.1, 10, false) < visits(10), "all leaves were read");
        assert_eq!(of_visits(f32::INFINITY, 100, true), f32::INFINITY);
    }
}
