//! Recall: measuring it, and finding the settings that reach a target.

mod audit;
pub(crate) mod calibrate;
mod effort;
mod samples;
mod trace;
