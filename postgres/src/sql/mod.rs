//! Functions for users: what an index says of itself, whether it is sound, what recall it has, what
//! a scan cost.
//!
//! To ask takes the right to read the table; to check or to calibrate takes the right to maintain
//! it.

mod check;
mod datum;
mod info;
mod last_scan;
mod likely;
mod queries;
mod recall;
mod target;
