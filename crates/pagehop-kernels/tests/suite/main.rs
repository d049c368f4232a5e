//! One suite over every instruction set of the machine it runs on.
//!
//! Each kernel is compared with `naive.rs`, which is slow and obvious. Integer answers are exact. Float sums
//! may differ from the exact sum by `n * EPSILON * scale`, where `scale` is the sum of the magnitudes of the
//! terms, the bound any order of additions keeps. Inputs are seeded and the same on every run.

mod codes;
mod crc;
mod dispatch;
mod floats;
mod half;
mod inputs;
mod integers;
mod naive;
mod planes;
mod rotate;
mod scan;
