//! One suite that runs on every instruction set of this machine.
//!
//! Each kernel is compared with `naive.rs`, which is slow and obvious. Integer answers are exact. A
//! float sum may differ from the exact sum by `n * EPSILON * scale`, where `scale` is the sum of
//! the magnitudes of the `n` terms: any order of additions stays within that bound. Inputs are
//! seeded, so they are the same in every run.

mod codes;
mod crc;
mod dispatch;
mod estimate;
mod floats;
mod half;
mod inputs;
mod integers;
mod naive;
mod planes;
mod rotate;
mod scan;
