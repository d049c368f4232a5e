//! Vectors to codes and back.
//!
//! A vector is prepared (metric, mean), rotated, and then kept in two forms: its *own code*, 12 bits
//! per dimension, precise enough to rank by ([`own`]); and its *edge code*, 1 to 4 bits per dimension,
//! small enough to be copied into every node that points to it ([`edge`]).

pub(crate) mod centroids;
pub(crate) mod codes;
pub(crate) mod edge;
pub(crate) mod estimate;
pub(crate) mod own;
pub(crate) mod prepare;
pub(crate) mod rotation;
