//! Pages for tests: in memory, and in memory with faults.
//!
//! [`MemPages`] is the obvious implementation of the page contract, slow at nothing and kind to its
//! caller. [`FaultyPages`] wraps it and is unkind on purpose: reads fail, bytes change, look-ahead
//! completes when it likes. What it does follows from a seed, so a failure can be replayed.
//!
//! An integration test of the engine (`tests/`) can use these pages. A unit test inside the engine's
//! `src` cannot: there the engine under test is another crate, with other traits, than the one this
//! crate was compiled against.
//!
//! With the feature `store`, `SimDisk` is a disk for the store that loses power and refuses calls, and
//! `workload` runs the store on it, a seed at a time.
#![forbid(unsafe_code)]

#[cfg(feature = "store")]
mod disk;
mod faulty;
mod mem;
mod rng;
#[cfg(feature = "store")]
pub mod workload;

#[cfg(feature = "store")]
pub use disk::{CALLS, Call, Fault, Lie, Refusal, SimDisk};
pub use faulty::{Calls, Damage, Faults, FaultyPages, FaultyReader, damage};
pub use mem::{AfterStep, MemPages, MemReader, MemWriter};
pub use rng::Rng;
