//! Recall: measuring it, and finding the settings that reach a target.
//!
//! | file | subject |
//! |---|---|
//! | `duplicates.rs` | the duplicates of a row that stands for a query |
//! | `samples.rs` | queries whose exact answers are known |
//! | `trace.rs` | the record of a search, and the results of shorter searches that follow from it |
//! | `points.rs` | the results of one list with each slack |
//! | `effort.rs` | the cheapest settings that reach each recall |
//! | `calibrate.rs`, `audit.rs` | calibrations; audits |

mod audit;
pub(crate) mod calibrate;
mod duplicates;
mod effort;
mod points;
mod samples;
mod trace;
