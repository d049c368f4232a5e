//! Searches: for the `k` nearest rows, for one row after the other, and for exact answers.

pub(crate) mod absent;
pub(crate) mod batch;
pub(crate) mod bound;
pub(crate) mod cursor;
pub(crate) mod cursor_limits;
mod cursor_postings;
mod cursor_sequential;
pub(crate) mod exact;
pub(crate) mod filter_plan;
pub(crate) mod filtered;
pub(crate) mod gather;
pub(crate) mod met;
pub(crate) mod nearest;
pub(crate) mod observer;
pub(crate) mod only;
pub(crate) mod plan;
pub(crate) mod rerank;
pub(crate) mod running;
pub(crate) mod searcher;
pub(crate) mod second_phase;
mod sequential;
pub(crate) mod shortlist;
pub(crate) mod tags;
pub(crate) mod together;
pub(crate) mod visit;
pub(crate) mod walk;
pub(crate) mod walls;
