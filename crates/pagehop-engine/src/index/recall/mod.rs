//! Recall: measuring it, and finding the settings that reach a target.

mod audit;
pub(crate) mod calibrate;
mod effort;
mod points;
mod samples;
mod trace;
