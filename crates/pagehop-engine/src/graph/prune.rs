//! Robust prune: chooses the candidates that a node keeps as neighbors.
//!
//! It takes candidates from near to far. It keeps a candidate, unless a kept neighbor is closer to
//! it, by a factor of `alpha`, than the node is. The kept neighbors point in many directions, so a
//! greedy walk makes progress. This is algorithm 2 of the DiskANN paper (Subramanya et al. 2019),
//! with two differences. Equal distances are ordered by id, so a build is reproducible. Free slots
//! are filled with the nearest dropped candidates: a page has space for `degree` edges whether they
//! are used or not.

use super::{key_distance, key_id};

/// The square of `alpha`, for vectors of the inner space. On real embeddings of hundreds of
/// dimensions any other than 1 needs more hops (`docs/decisions/0012-hard-data.md`). In few
/// dimensions few candidates would be kept, and all edges would be short.
pub(crate) fn alpha_sq(inner_dim: usize) -> f32 {
    if inner_dim <= 64 { 1.15 } else { 1.0 }
}

/// Chooses at most `degree` of `candidates`, which are sorted [keys](super::key) without repeats,
/// and writes them to `kept`. Costs at most `candidates.len() * degree` calls of `distance`.
///
/// `alpha_sq` is the square of `alpha`, since distances are squared.
pub(crate) fn prune(
    candidates: &[u64],
    degree: usize,
    alpha_sq: f32,
    distance: impl Fn(u32, u32) -> f32,
    kept: &mut Vec<u32>,
) {
    kept.clear();
    if candidates.len() <= degree {
        kept.extend(candidates.iter().map(|key| key_id(*key)));
        return;
    }
    let mut dropped = Vec::new();
    for &candidate in candidates {
        if kept.len() == degree {
            return;
        }
        let (to_node, id) = (key_distance(candidate), key_id(candidate));
        if kept.iter().any(|k| alpha_sq * distance(*k, id) <= to_node) {
            dropped.push(id);
        } else {
            kept.push(id);
        }
    }
    kept.extend(dropped.into_iter().take(degree - kept.len()));
}
