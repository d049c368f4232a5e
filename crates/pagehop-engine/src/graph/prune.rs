//! Robust prune: chooses the candidates that a node keeps as neighbors.
//!
//! It takes candidates from near to far. It keeps a candidate, unless a kept neighbor is closer to
//! it, by a factor of `alpha`, than the node is. The kept neighbors point in many directions, so a
//! greedy walk makes progress. This is algorithm 2 of the DiskANN paper (Subramanya et al. 2019),
//! with two differences. Equal distances are ordered by id, so a build is reproducible. Free slots
//! are filled: a page has space for `degree` edges whether they are used or not. First come dropped
//! candidates that a more tolerant `alpha` keeps, then the nearest of the others.

use super::{key_distance, key_id};
use crate::quantize::codes::Codes;

/// The squares of `alpha`, for vectors of the inner space. The first decides. On real embeddings of
/// hundreds of dimensions any other than 1 needs more hops (`docs/decisions/0012-hard-data.md`). In
/// few dimensions few candidates would be kept, and all edges would be short.
///
/// The second fills the slots that are left. If all rows share a few near rows, the first keeps
/// three edges of 32, and the nearest of the others lead to the same place. Under L2, short rows
/// are such rows. Under the inner product a factor of distances has no meaning.
fn alphas_sq(inner_dim: usize, filled_sq: Option<f32>) -> &'static [f32] {
    match filled_sq {
        Some(_) => &[1.0],
        None if inner_dim <= 64 => &[1.15, 1.15 * TOLERANCE],
        None => &[1.0, TOLERANCE],
    }
}

/// The first of [`alphas_sq`].
pub(crate) fn alpha_sq(inner_dim: usize, filled_sq: Option<f32>) -> f32 {
    alphas_sq(inner_dim, filled_sq)[0]
}

/// Ratio between the second of [`alphas_sq`] and the first.
const TOLERANCE: f32 = 1.5;

/// When a neighbor covers a candidate, so that the candidate gets no edge.
pub(crate) struct Cover<'a> {
    /// Codes of the candidates. A candidate beyond them has no code: it covers none, and none
    /// covers it.
    pub(crate) codes: &'a Codes,
    /// Squared norm of the node.
    pub(crate) norm_sq: f32,
}

impl Cover<'_> {
    /// Whether `near` is closer to the row of `candidate`, a [key](super::key), than the node is.
    ///
    /// Under the inner product it must also be closer in angle. Otherwise a long row covers half of
    /// all others, wherever they are.
    fn covers(&self, near: u32, candidate: u64, alpha_sq: f32) -> bool {
        let (to_node, near, id) = (key_distance(candidate), near as usize, key_id(candidate) as usize);
        if near.max(id) >= self.codes.len() {
            return false;
        }
        let between = self.codes.hi_distance(near, id);
        let is_closer = alpha_sq * between <= to_node;
        let Some(filled_sq) = self.codes.filled_sq.filter(|_| is_closer) else { return is_closer };
        let product = |distance: f32| filled_sq - 0.5 * distance;
        product(between) * self.norm_sq.sqrt() >= product(to_node) * self.codes.hi_norm_sq[near].max(0.0).sqrt()
    }
}

/// Chooses at most `degree` of `candidates`, which are sorted [keys](super::key) without repeats,
/// and writes them to `kept`. Costs at most `candidates.len() * degree` distances for each
/// of [`alphas_sq`].
pub(crate) fn prune(candidates: &[u64], degree: usize, cover: &Cover<'_>, kept: &mut Vec<u32>) {
    kept.clear();
    if candidates.len() <= degree {
        kept.extend(candidates.iter().map(|key| key_id(*key)));
        return;
    }
    let mut left = candidates.to_vec();
    for alpha_sq in alphas_sq(cover.codes.dim, cover.codes.filled_sq) {
        if kept.len() < degree {
            left = choose(&left, degree, *alpha_sq, cover, kept);
        }
    }
    let free = degree - kept.len();
    kept.extend(left.iter().take(free).map(|key| key_id(*key)));
}

/// Adds candidates to `kept` that no kept one is closer to, up to `degree`. Returns the others.
fn choose(candidates: &[u64], degree: usize, alpha_sq: f32, cover: &Cover<'_>, kept: &mut Vec<u32>) -> Vec<u64> {
    let mut left = Vec::with_capacity(candidates.len());
    // A neighbor that covered the last candidates probably covers the next: it is tried first.
    let mut tried = kept.clone();
    for &candidate in candidates {
        if kept.len() == degree {
            left.push(candidate);
        } else if let Some(at) = tried.iter().position(|k| cover.covers(*k, candidate, alpha_sq)) {
            tried[..=at].rotate_right(1);
            left.push(candidate);
        } else {
            kept.push(key_id(candidate));
            tried.push(key_id(candidate));
        }
    }
    left
}
