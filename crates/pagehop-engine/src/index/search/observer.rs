//! The observer of a walk: it receives the candidates and rows that the walk's answer leaves out.

use crate::Error;
use crate::ids::NodeId;
use crate::index::search::nearest::NearRow;
use crate::index::search::visit::{Scored, Visited};

/// Receives the candidates and rows of a walk beside its answer.
pub(crate) trait Observer {
    /// A candidate will be expanded next. `rank` is the number of better candidates among all seen
    /// so far. `farthest` is the distance of the row that ends the search, or infinity as long as
    /// there is none.
    #[inline]
    fn expand(&mut self, _estimate: f32, _rank: usize, _farthest: f32) {}

    /// Makes room for this number of rejected candidates, and for a row: the walk is about to
    /// report up to that.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give it.
    #[inline]
    fn make_room(&mut self, _rejected: usize) -> Result<(), Error> {
        Ok(())
    }

    /// The list rejected a candidate, or dropped it before it was expanded. The same candidate may
    /// be reported again.
    fn reject(&mut self, estimate: f32, node: NodeId);

    /// [`Observer::reject`] for the neighbors of a node that have a bit in `rejected`, the lowest
    /// for the first. Does nothing by default: an observer that uses rejected candidates implements
    /// both.
    #[inline]
    fn reject_some(&mut self, _scored: &Scored<'_>, _rejected: u64) {}

    /// A row was visited, among the nearest or not. The same row may be reported again.
    fn visit_row(&mut self, node: NodeId, row: NearRow, visited: &Visited);

    /// Whether rows that are too far for the nearest are to be reported, too.
    #[inline]
    fn wants_rows(&self) -> bool {
        true
    }

    /// Whether the walk may stop, because the observer has what it needs.
    #[inline]
    fn is_enough(&self) -> bool {
        false
    }
}

/// The observer of a plain search, which needs nothing besides its answer.
pub(crate) struct Unobserved;

impl Observer for Unobserved {
    #[inline]
    fn wants_rows(&self) -> bool {
        false
    }

    #[inline]
    fn reject(&mut self, _: f32, _: NodeId) {}

    #[inline]
    fn visit_row(&mut self, _: NodeId, _: NearRow, _: &Visited) {}
}
