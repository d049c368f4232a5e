//! Robust prune: choose which candidates a node keeps as neighbors.
//!
//! Walk candidates from near to far. Keep one; drop every later candidate that is closer to a kept
//! neighbor, by a factor `alpha`, than to the node. What survives points in many directions, which is what
//! lets a greedy walk make progress. Algorithm 2 of the DiskANN paper (Subramanya et al. 2019), except that
//! equal distances are ordered by id, so a build is reproducible, and that places left over go to the
//! nearest candidates that were dropped: a page has room for `degree` edges whether they are used or not.

use super::{key_distance, key_id};

/// Chooses at most `degree` of `candidates`, which are [keys](super::key) in order without repeats.
///
/// `alpha_sq` is the square of the slack, since distances are squared.
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
