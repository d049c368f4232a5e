//! How far a distance that the index gives may be from the true one.
//!
//! A row lies within half a step of its own code in each of the `n` components of the inner space, so within
//! `e = step / 2 * sqrt(n)` of it: by the triangle inequality the distance from a query is off by at most `e`. The
//! mean is taken from row and query alike and a rotation keeps lengths, so that is so in the user's space too.
//!
//! That would take an error that points straight at the query. It is made of `n` roundings in a basis that was chosen at
//! random, which know nothing of where the query lies, so it hardly points there: the part of it that does is more than
//! `z` steps with a probability of `2 exp(-2 z^2)` (Hoeffding 1963), and no more than that many are allowed for where
//! that is less than `e`, as it is beyond 81 components.
//!
//! What each metric makes of it is in [`Bound::error`]. All else is rounding: worst cases, not what is likely,
//! because they are small beside this but for rows that are nearly the query.

use super::meta::Meta;
use super::state::State;
use super::visit::Probe;
use crate::Metric;
use crate::quantize::prepare::ToDistance;

/// Rounding of one operation, relative to its result.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;
/// Rounding of an operation whose result is too small to have all its digits.
const UNDERFLOW: f64 = 1.0 / (1u128 << 126) as f64 * ROUNDING;
/// Half a step, and what it takes to find the nearest multiple of one: a component over its step is known to three
/// roundings of at most 2,032, `VALUE_MAX` of `quantize/own.rs`, which no component exceeds: none is cut off.
const HALF_STEP: f64 = 0.501;
/// Steps in one direction that the error of a code may have: more has a probability of 5e-18.
const STEPS: f64 = 4.5 * 2.0 * HALF_STEP;
/// Length of a vector whose step would be too small for a number and counts as 0.
const NO_LENGTH: f64 = 1e-33;
/// Roundings of the mean's subtraction and of at most four rounds of the rotation with 12 passes each, relative to
/// the length of the vector; and how far its constants are from an orthogonal map's.
const TURNS: f64 = 100.0;

/// The bound for one query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    metric: Metric,
    /// Components of the user's vectors.
    dim: f64,
    /// Components in the inner space.
    inner_dim: f64,
    /// Squared length of the query in the inner space.
    query_sq: f64,
    /// Inner product only: length of the user's query and of the longest row, and the factor that brings the one to
    /// the other.
    lengths: [f64; 2],
    scale: f64,
    /// How far the vector that was encoded may be from the user's.
    recoded: f64,
}

impl Bound {
    pub(super) fn new(state: &State, query: &[f32], probe: &Probe, to_distance: ToDistance) -> Self {
        let meta = &state.meta;
        let lengths = match meta.metric {
            Metric::InnerProduct => {
                let query_sq: f64 = query.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
                [query_sq.sqrt(), f64::from(meta.norm_sq_max).sqrt()]
            }
            Metric::L2 | Metric::Cosine => [1.0; 2],
        };
        Self {
            metric: meta.metric,
            dim: meta.dim as f64,
            inner_dim: meta.layout.inner_dim as f64,
            query_sq: probe.query_norm_sq().into(),
            lengths,
            scale: 0.5 / f64::from(to_distance.mul),
            recoded: meta.change.recoded_error.into(),
        }
    }

    /// How far the distance of a row may be off, under L2 its square root. `distance` is squared, in the inner
    /// space; `step` and `norm_sq` are those of the row's own code.
    pub(super) fn error(&self, distance: f32, step: f32, norm_sq: f32) -> f32 {
        let (distance, step, row_sq) = (f64::from(distance), f64::from(step), f64::from(norm_sq));
        // A kernel adds at least 16 sums side by side, and those at the end.
        let sum = (self.inner_dim / 16.0 + 32.0) * ROUNDING;
        // |q|^2 + |o|^2 - 2 q o, of which little is left if q is near o.
        let lengths_sq = self.query_sq + row_sq;
        let cancelled = (2.0 * sum + 8.0 * ROUNDING) * lengths_sq + (self.inner_dim + 64.0) * 8.0 * UNDERFLOW;
        let code = code_error(step, self.inner_dim);
        let turned = TURNS * ROUNDING * (self.query_sq.sqrt() + row_sq.sqrt() + code);
        let placed = towards(distance.sqrt(), step, code) + turned;
        let error = match self.metric {
            Metric::L2 => self.l2(distance, placed + self.recoded, cancelled),
            // What was read back was brought to length 1 again, which may move it as far once more.
            Metric::Cosine => self.cosine(distance, placed + 2.0 * self.recoded, cancelled),
            Metric::InnerProduct => {
                self.inner_product(distance, placed, cancelled, sum) + self.lengths[0] * self.recoded
            }
        };
        // To the next number up, and a NaN, which only a damaged page can bring, to no bound at all.
        let error = (error * (1.0 + 4.0 * ROUNDING)) as f32;
        if error.is_nan() { f32::INFINITY } else { error }
    }

    /// The user's own sum of positive numbers is off by a rounding for each, its root by half of that.
    fn l2(&self, distance_sq: f64, placed: f64, cancelled: f64) -> f64 {
        let distance = distance_sq.sqrt();
        let root = cancelled.sqrt().min(cancelled / distance);
        let error = placed + root;
        error + (self.dim / 2.0 + 8.0) * ROUNDING * (distance + error) + (self.dim * UNDERFLOW).sqrt()
    }

    /// `1 - cos` is half the squared distance between vectors of length 1. Theirs here is nearly 1: what they are
    /// off by stretches the distance. Sums of the user's own whose squares underflow are not covered.
    fn cosine(&self, distance_sq: f64, placed: f64, cancelled: f64) -> f64 {
        let placed = placed + 4.0 * ROUNDING;
        let half = distance_sq / 2.0 + squares_apart(distance_sq, placed, cancelled) / 2.0;
        let stretched = 2.0 * (self.dim + 32.0) * ROUNDING;
        let users = 2.0 * (self.dim + 8.0) * ROUNDING;
        half - distance_sq / 2.0 + stretched * (half + stretched) + users
    }

    /// The squared distance is `M^2 + s^2 |q|^2 - 2 s q o`, where `s` scales the query and the added dimension makes
    /// every row `M` long, up to rounding.
    fn inner_product(&self, distance_sq: f64, placed: f64, cancelled: f64, sum: f64) -> f64 {
        let [query, row] = self.lengths;
        let scaled = self.scale * query;
        let placed = placed + ROUNDING * scaled;
        let apart = squares_apart(distance_sq, placed, cancelled);
        let constants = (2.0 * sum + 16.0 * ROUNDING) * (row * row + scaled * scaled);
        let users = (self.dim + 8.0) * ROUNDING * query * row + self.dim * UNDERFLOW;
        (apart + constants + 8.0 * ROUNDING * distance_sq) / (2.0 * self.scale) + users
    }
}

/// How far a row may be from its own code.
pub(super) fn code_error(step: f64, inner_dim: f64) -> f64 {
    HALF_STEP * step * inner_dim.sqrt() + NO_LENGTH
}

/// How much nearer or farther a code is than its row, if it is `distance` from the query and `code` from the row at most.
///
/// With the row at `d`, `distance^2` is `d^2 + 2 d p + code^2`, where `p` is the part of the error in the query's direction. The
/// result covers the difference of the squares, too, as [`squares_apart`] makes it of this.
fn towards(distance: f64, step: f64, code: f64) -> f64 {
    let part = STEPS * step + NO_LENGTH;
    let likely = part * (1.0 + code / distance) + code * code / (2.0 * distance - code);
    // So near that the direction is the error's own.
    if 2.0 * distance > code { likely.min(code) } else { code }
}

/// How far a vector that is read back from a code may be from the one that was encoded, `mean_sq` being the squared
/// length of the mean.
pub(super) fn restored_error(step: f32, norm_sq: f32, mean_sq: f32, inner_dim: usize) -> f32 {
    let code = code_error(step.into(), inner_dim as f64);
    // There and back.
    let turned = 2.0 * TURNS * ROUNDING * (f64::from(norm_sq).sqrt() + f64::from(mean_sq).sqrt() + code);
    ((code + turned) * (1.0 + 4.0 * ROUNDING)) as f32
}

/// Whether a row at `distance_sq` in the inner space from an own code may share it: the code is then no farther from it than from a row
/// of its own, as far as is known.
pub(super) fn is_within(meta: &Meta, distance_sq: f32, step: f32) -> bool {
    let recoded = match meta.metric {
        Metric::L2 => f64::from(meta.change.recoded_error),
        Metric::Cosine => 2.0 * f64::from(meta.change.recoded_error),
        // The added dimension stretches small differences.
        Metric::InnerProduct => return false,
    };
    f64::from(distance_sq).sqrt() <= recoded + step as f64 / 2.0 * (meta.layout.inner_dim as f64).sqrt()
}

/// How far a squared distance may be off whose points are off by `placed`, and itself by `cancelled`.
fn squares_apart(distance_sq: f64, placed: f64, cancelled: f64) -> f64 {
    cancelled + 2.0 * (distance_sq + cancelled).sqrt() * placed + placed * placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::own;
    use crate::random::Random;

    #[test]
    fn no_component_is_farther_than_half_a_step_from_its_code() {
        let mut random = Random::new(5, 0);
        for scale in [1e-42, 3e-36, 1e-35, 1e-30, 1e-3, 1.0, 777.7, 1e18] {
            for dim in [1, 2, 64, 999] {
                let x: Vec<f32> = (0..dim).map(|_| scale * (random.below(2_000_001) as f32 / 1e6 - 1.0)).collect();
                let (mut values, mut decoded) = (vec![0; dim], vec![0.0; dim]);
                let (mut hi, mut lo) = (vec![0; dim], vec![0; own::lo_bytes(dim)]);
                let code = own::encode(&x, &mut values, &mut hi, &mut lo);
                own::decode(1.0, &hi, &lo, &mut values, &mut decoded);
                let step = f64::from(code.step);
                let off = x.iter().zip(&decoded).map(|(x, v)| (f64::from(*x) - step * f64::from(*v)).abs());
                let most = off.fold(0.0, f64::max);
                assert!(
                    most <= HALF_STEP * step + NO_LENGTH / 64.0,
                    "{scale}, {dim} dimensions: {most}, step {step}"
                );
            }
        }
    }
}
