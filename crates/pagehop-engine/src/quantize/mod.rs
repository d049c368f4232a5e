//! Quantization: vectors to codes and back.
//!
//! A vector is first prepared (metric, mean) and rotated. It then has two codes. Its *own code* has
//! 12 bits per dimension, precise enough for final distances ([`own`]). Its *edge code* has 1 to 4
//! bits per dimension, small enough to be copied into every node that points to it ([`edge`]).

pub(crate) mod centroids;
pub(crate) mod codes;
pub(crate) mod edge;
pub(crate) mod estimate;
pub(crate) mod inner_product;
pub(crate) mod landmarks;
pub(crate) mod own;
pub(crate) mod point;
pub(crate) mod prepare;
pub(crate) mod rotation;
pub(crate) mod tour;
