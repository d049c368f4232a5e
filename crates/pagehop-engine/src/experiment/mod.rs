//! What the experiments in `benches/` need of the build and the search, with the engine's fixed
//! choices as parameters. Exists only with the feature `experiments`.
//!
//! A [`Bed`] holds rows and queries in the space the index works in; [`SharedCodes`] and
//! [`NodeCodes`] are two ways to code edges; [`connect`] and [`vamana`] are two ways to a [`Net`].
//! [`walk`] is the search of `index/search/walk.rs` on them, which counts and reads no pages.

mod bed;
mod graphs;
mod walk;

pub use bed::{Bed, K, SharedCodes};
pub use graphs::{Net, Placement, Steps, connect, vamana};
pub use walk::{Guide, NodeCodes, Point, at_recall, default_layout, nodes_per_page, walk};
