//! Pages and disks for tests: in memory, with and without faults.
//!
//! [`MemPages`] is the simple implementation of the page contract. [`FaultyPages`] adds faults to
//! it: reads fail, bytes change, and prefetches complete late and out of order. A seed determines
//! all of it, so a failure can be replayed.
//!
//! Integration tests of the engine (`tests/`) can use these pages. Unit tests in the engine's `src`
//! cannot: for them the engine is compiled as another crate than the one that this crate depends
//! on, so its traits differ.
//!
//! With [`SharedHost`], several writers change one index at the same time. A seed decides whose
//! turn it is.
//!
//! With the feature `store`, `SimDisk` is a disk for the store that loses power and refuses calls,
//! and `workload` runs random operations of the store on it, one seed at a time.
#![forbid(unsafe_code)]

#[cfg(feature = "store")]
mod disk;
pub mod document;
mod faulty;
mod mem;
mod rng;
mod shared;
#[cfg(feature = "store")]
pub mod workload;

#[cfg(feature = "store")]
pub use disk::{CALLS, Call, Fault, Lie, Refusal, SimDisk};
pub use faulty::{Calls, Damage, Faults, FaultyPages, FaultyReader, damage};
pub use mem::{AfterStep, MemPages, MemReader, MemWriter};
pub use rng::Rng;
pub use shared::{AfterSharedStep, SharedHost, SharedPage, SharedReader, SharedSession, SharedWriter, Writes};
