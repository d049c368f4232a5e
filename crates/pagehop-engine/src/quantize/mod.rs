//! Quantization: vectors to codes and back.
//!
//! A vector is first prepared (metric, mean) and rotated. It then has two codes. Its *own code* has
//! 12 bits per dimension, precise enough for final distances ([`own`]). Its *edge code* has 1 to 4
//! bits per dimension, small enough to be copied into every node that points to it ([`edge`]).
//!
//! | file | subject |
//! |---|---|
//! | `prepare.rs`, `rotation.rs` | maps a vector to the inner space of the index; the random rotation |
//! | `point.rs`, `inner_product.rs` | a query, rounded; an inner product with the same bits on every CPU |
//! | `own.rs`, `codes.rs` | own codes; own codes of many vectors in memory |
//! | `edge.rs`, `estimate.rs` | edge codes; distances to the neighbors of a node |
//! | `row_codes.rs` | finer codes of all rows in memory |
//! | `centroids.rs`, `tour.rs` | k-means, and the nearest center of a row; the numbers of centroids |
//! | `landmarks.rs` | rows that every search knows without reading a page |

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
pub(crate) mod row_codes;
pub(crate) mod tour;
