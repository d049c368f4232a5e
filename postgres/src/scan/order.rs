//! The order that the executor relies on.
//!
//! The index stores a code of each vector, so its distances have an error, which has a bound. If
//! the interval of a row's distance overlaps no other interval, the order of the row is certain,
//! and it is returned as it is. For other rows the scan returns a lower bound and asks for a
//! recheck (`xs_recheckorderby`): the executor computes the distance from the table, and holds rows
//! back until no other can come before them. Where their places in the table may be read,
//! `places.rs` does that instead. The order is right only if a bound is never above the distance,
//! and never below the bound of the row before.

use pagehop_engine::{Found, Metric};

/// Safety factor: a later row may have a larger error than every earlier row.
const MARGIN: f64 = 1.5;

/// The distances that the executor got so far, which bound those of later rows.
#[derive(Debug)]
pub(crate) struct Order {
    /// The executor may have returned every row up to this distance. It is the lower bound given
    /// with the last row or, if that row needed no recheck, the upper end of its interval.
    said: f64,
    /// Largest upper end of an interval so far.
    most: f64,
    /// Subtracted from every distance, so lower bounds ascend in the index's order although errors
    /// differ.
    margin: f64,
    /// Whether rows must come in order. If not, they come as the index finds them.
    strict: bool,
}

/// The distance of a row for the executor.
pub(crate) struct Place {
    pub(crate) distance: f64,
    /// Whether to compute the true distance.
    pub(crate) recheck: bool,
}

impl Order {
    /// No rows so far.
    pub(crate) fn new(strict: bool) -> Self {
        Self { said: f64::NEG_INFINITY, most: f64::NEG_INFINITY, margin: 0.0, strict }
    }

    /// Whether rows must come in order.
    pub(super) fn is_strict(&self) -> bool {
        self.strict
    }

    /// Lower bound and recheck flag of the next row. `None` if the row must be left out: the
    /// executor may have returned rows that are farther. `upcoming` are the rows that are known to
    /// come next, nearest first.
    pub(crate) fn place(
        &mut self,
        found: &Found,
        upcoming: impl Iterator<Item = Found>,
        metric: Metric,
    ) -> Option<Place> {
        let (least, most) = interval(found, metric);
        if !most.is_finite() {
            // Only a damaged page has no bound. A recheck would make the executor read the whole
            // index for the next row.
            let distance = if metric == Metric::L2 { found.distance.sqrt() } else { found.distance };
            self.said = self.said.max(distance.into());
            return Some(Place { distance: self.said, recheck: false });
        }
        if !self.strict {
            // As the index has it.
            return Some(Place { distance: least, recheck: false });
        }
        if least < self.said {
            return None;
        }
        self.margin = self.margin.max(MARGIN * (most - least) / 2.0);
        let meets_last = least <= self.most;
        // As long as errors are below the margin, only rows within the margin can be nearer than
        // this row.
        let mut near = upcoming.map(|next| interval(&next, metric));
        let meets_next = near
            .by_ref()
            .take_while(|(least, farthest)| (least + farthest) / 2.0 - self.margin <= most)
            .any(|(least, _)| least <= most);
        self.most = self.most.max(most);
        if meets_last || meets_next {
            self.said = self.said.max(((least + most) / 2.0 - self.margin).min(least));
            return Some(Place { distance: self.said, recheck: true });
        }
        // A later row that may be nearer than this row is left out.
        self.said = most;
        Some(Place { distance: least, recheck: false })
    }
}

fn interval(found: &Found, metric: Metric) -> (f64, f64) {
    let (least, most) = found.range(metric);
    (least.into(), most.into())
}
