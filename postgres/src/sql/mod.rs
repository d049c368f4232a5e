//! Functions for users: the state of an index, a check of it, its recall, and the cost of a scan.
//!
//! A question requires the right to read the table; a check or a calibration requires the right to
//! maintain it.
//!
//! | file | job |
//! |---|---|
//! | `target.rs` | the index that a function is about: finds it, tests rights, opens and locks it |
//! | `info.rs`, `likely.rs` | `pagehop_info`; the recall that searches probably have |
//! | `check.rs` | `pagehop_check` |
//! | `recall.rs`, `queries.rs` | `pagehop_recall` and `pagehop_calibrate`; queries that a user gives |
//! | `last_scan.rs` | `pagehop_last_scan` |
//! | `datum.rs` | values and rows as functions return them |

mod check;
mod datum;
mod info;
mod last_scan;
mod likely;
mod queries;
mod recall;
mod target;
