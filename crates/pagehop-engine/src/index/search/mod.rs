//! Searches: for the `k` nearest rows, for one row after the other, and for exact answers.
//!
//! | file | subject |
//! |---|---|
//! | `visit.rs`, `found.rs`, `bound.rs` | one hop; a row that was found; the error bound of its distance |
//! | `nearest.rs`, `met.rs`, `shortlist.rs` | the nearest rows so far; rows and candidates for later; the best of many candidates |
//! | `observer.rs`, `absent.rs`, `only.rs`, `expected.rs` | parts of a walk: its observer; leaving out a node; finding only some rows; the reach that it expects |
//! | `walk.rs`, `offer.rs` | best-first search, one page per hop; the neighbors of a node in the list |
//! | `plan.rs`, `filter_plan.rs`, `shares.rs` | the options for an effort; walk or postings for a filter; the share of rows that pass |
//! | `walls.rs`, `gather.rs`, `tags.rs` | searches by postings: which leaves are near; candidates from leaves; tests of tags |
//! | `rerank.rs`, `running.rs`, `searcher.rs` | exact distances of the last candidates; one search; searches of one thread |
//! | `filtered.rs`, `answer.rs` | searches with a filter; which kind of search answers a query |
//! | `together.rs`, `batch.rs` | several searches at once on a thread; many queries on several threads |
//! | `cursor.rs`, `cursor_parts.rs` | a cursor; the state that its phases share |
//! | `second_phase.rs`, `cursor_second.rs` | the phase after the walk; a hop of it |
//! | `cursor_postings.rs` | the phase after the walk, with candidates from postings |
//! | `sequential.rs`, `cursor_passes.rs` | the phase without room in memory: the rows of one pass over all pages; the passes |
//! | `exact.rs` | exact answers, by a scan of every row |

pub(crate) mod absent;
mod answer;
pub(crate) mod batch;
pub(crate) mod bound;
pub(crate) mod cursor;
mod cursor_parts;
mod cursor_passes;
mod cursor_postings;
mod cursor_second;
pub(crate) mod exact;
mod expected;
pub(crate) mod filter_plan;
pub(crate) mod filtered;
pub(crate) mod found;
pub(crate) mod gather;
pub(crate) mod met;
pub(crate) mod nearest;
pub(crate) mod observer;
mod offer;
pub(crate) mod only;
pub(crate) mod plan;
pub(crate) mod rerank;
pub(crate) mod running;
pub(crate) mod searcher;
pub(crate) mod second_phase;
mod sequential;
mod shares;
pub(crate) mod shortlist;
pub(crate) mod tags;
pub(crate) mod together;
pub(crate) mod visit;
pub(crate) mod walk;
pub(crate) mod walls;
