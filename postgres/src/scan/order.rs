//! The order that the executor relies on.
//!
//! The index knows a vector by a code, so its distances have an error, which has a bound. A row
//! whose interval of distances meets no other is in its place, and is returned as it is. For other
//! rows the scan returns a lower bound and asks for a recheck (`xs_recheckorderby`): the executor
//! computes the distance from the table, and holds rows back until no other can come before them.
//! Where their places in the table may be read, `places.rs` does that instead.
//! That is correct only if a bound is never above the distance, and never below the bound of the
//! row before.

use pagehop_engine::{Found, Metric};

/// How much more than the largest error so far is allowed for: the next may be larger.
const MARGIN: f64 = 1.5;

/// Where the rows of a scan stand among those returned before.
#[derive(Debug)]
pub(crate) struct Order {
    /// What was said of the last row: the executor may have returned all that turned out no
    /// farther.
    said: f64,
    /// The most that the distance of a row so far may be.
    most: f64,
    /// What is taken off every distance, so that the order of what is said is that of the index
    /// although errors differ.
    margin: f64,
    /// Whether rows must come in order; else they come as the index finds them.
    strict: bool,
}

/// What the executor gets with a row.
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

    /// What to say of the next row, `upcoming` being those that are known to come after it, the
    /// nearest first. `None` for one that comes too late, and is left out: rows that may be farther
    /// were returned before it.
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
        // Of rows whose errors are no larger than is allowed for, only those within the margin can
        // be in its way.
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
        // Whatever comes later and may be nearer than this is too late.
        self.said = most;
        Some(Place { distance: least, recheck: false })
    }
}

fn interval(found: &Found, metric: Metric) -> (f64, f64) {
    let (least, most) = found.range(metric);
    (least.into(), most.into())
}
