//! Filters: what a search knows of them before it reads a node, and candidates from postings.
//!
//! | file | subject |
//! |---|---|
//! | `shares.rs` | the share of rows that pass, and how much the conditions of a filter share |
//! | `walls.rs` | which leaves of postings are near a query |
//! | `plan.rs` | walk or postings, by the pages that each is expected to read |
//! | `slack.rs` | how far a search by postings looks |
//! | `gather.rs` | candidates from the leaves |
//! | `tags.rs` | rows whose tags a posting cannot tell |

pub(crate) mod gather;
pub(crate) mod plan;
pub(crate) mod shares;
pub(crate) mod slack;
pub(crate) mod tags;
pub(crate) mod walls;
