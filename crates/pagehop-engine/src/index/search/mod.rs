//! Searches: for the `k` nearest rows, for one row after the other, and for exact answers.
//!
//! | file or folder | subject |
//! |---|---|
//! | `visit.rs` | one hop: what a search reads of a page |
//! | `found.rs` | a row that was found |
//! | `bound.rs` | the error bound of a row's distance |
//! | `nearest.rs` | the nearest rows so far |
//! | `observer.rs` | what a search is told of its walk |
//! | `met.rs` | rows and candidates that are kept for later |
//! | `shortlist.rs` | the best of many candidates |
//! | `filter/` | filters: walk or postings, the share of rows that pass, candidates from postings |
//! | `walk/` | best-first search, one page per hop |
//! | `rerank.rs` | exact distances of the last candidates |
//! | `plan.rs` | the options for an effort |
//! | `running.rs` | one search, in steps |
//! | `searcher.rs` | searches of one thread |
//! | `filtered.rs` | searches with a filter |
//! | `exact.rs` | exact answers, by a scan of every row |
//! | `answer.rs` | which kind of search answers a query |
//! | `together.rs` | several searches at once on a thread |
//! | `batch.rs` | many queries on several threads |
//! | `cursor/` | one row after the other, without end |

mod answer;
pub(crate) mod batch;
pub(crate) mod bound;
pub(crate) mod cursor;
pub(crate) mod exact;
pub(crate) mod filter;
pub(crate) mod filtered;
pub(crate) mod found;
pub(crate) mod met;
pub(crate) mod nearest;
pub(crate) mod observer;
pub(crate) mod plan;
pub(crate) mod rerank;
pub(crate) mod running;
pub(crate) mod searcher;
pub(crate) mod shortlist;
pub(crate) mod together;
pub(crate) mod visit;
pub(crate) mod walk;
