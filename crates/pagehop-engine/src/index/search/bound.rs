//! The error bound of a distance: how far it may be from the true distance.
//!
//! The own code of a row differs from it by at most half a step in each of the `n` components of
//! the inner space, so by at most `e = step / 2 * sqrt(n)`. By the triangle inequality, the
//! distance from a query is off by at most `e`. The mean is subtracted from both row and query, and
//! a rotation keeps distances, so this also holds in the user's space.
//!
//! An error of `e` needs an error vector that points straight at the query. But it consists of `n`
//! roundings in a random basis that is independent of the query: its component in the query's
//! direction exceeds `z` steps with a probability of at most `2 exp(-2 z^2)` (Hoeffding 1963). So
//! the bound allows only 4.5 steps where that is less than `e`, which is the case above 81
//! components.
//!
//! Distances are measured to the query rounded to 16 bits, with a step of its own. Its roundings
//! are treated like those of the row.
//!
//! [`Bound::error`] derives the bound of each metric from this. The other terms are rounding
//! errors. They are worst cases, because they are small except for rows that nearly equal the
//! query.

use crate::Metric;
use crate::index::search::visit::Probe;
use crate::index::state::State;
use crate::page::meta::Meta;
use crate::quantize::prepare::ToDistance;

/// Rounding error of one operation, relative to its result.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;
/// Rounding error of an operation whose result is subnormal.
const UNDERFLOW: f64 = 1.0 / (1u128 << 126) as f64 * ROUNDING;
/// Half a step, plus the error of finding the nearest multiple of a step: a component in steps has
/// an error of three roundings of at most 2,032 (`VALUE_MAX` of `quantize/own.rs`). No component
/// exceeds that, so none is clamped.
const HALF_STEP: f64 = 0.501;
/// The same for a component of the query: three roundings of at most 32,512 (`ROUNDED_MAX` of the
/// kernels).
const QUERY_HALF_STEP: f64 = 0.51;
/// Allowed error of a code in one direction, in units of half a step. A larger error has a
/// probability of 5e-18.
const HALF_STEPS: f64 = 4.5 * 2.0;
/// Largest norm of a vector whose step underflows and counts as 0.
const NO_LENGTH: f64 = 1e-32;
/// Number of roundings in subtracting the mean and in at most four rounds of the rotation with 12
/// passes each, relative to the norm of the vector. Includes the deviation of the rotation's
/// constants from an orthogonal map.
const TURNS: f64 = 100.0;

/// The bound for one query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    metric: Metric,
    /// Dimensions of the user's vectors.
    dim: f64,
    /// Root of the dimensions of the inner space.
    inner_dim_root: f64,
    /// Norm of the rounded query in the inner space, squared and not.
    query_sq: f64,
    query: f64,
    /// Half a step of the rounded query, with the error of rounding.
    query_half: f64,
    /// Inner product only: the norms of the user's query and of the longest row, and the factor
    /// that scales the query to the rows.
    lengths: [f64; 2],
    scale: f64,
    /// Largest distance between the vector that was encoded and the user's vector; above 0 if the
    /// model was trained again.
    recoded: f64,
}

impl Bound {
    pub(crate) fn new(state: &State, query: &[f32], probe: &Probe, to_distance: ToDistance) -> Self {
        let meta = &state.meta;
        let lengths = match meta.metric {
            Metric::InnerProduct => {
                let query_sq: f64 = query.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
                [query_sq.sqrt(), f64::from(meta.filled_sq().unwrap_or(0.0)).sqrt()]
            }
            Metric::L2 | Metric::Cosine => [1.0; 2],
        };
        Self {
            metric: meta.metric,
            dim: meta.dim as f64,
            inner_dim_root: (meta.layout.inner_dim as f64).sqrt(),
            query_sq: probe.point().norm_sq().into(),
            query: f64::from(probe.point().norm_sq()).sqrt(),
            query_half: QUERY_HALF_STEP * f64::from(probe.point().step()),
            lengths,
            scale: 0.5 / f64::from(to_distance.mul),
            recoded: meta.change.recoded_error.into(),
        }
    }

    /// The error bound of a row's distance; under L2, of its square root. `distance` is squared, in
    /// the inner space; `step` and `norm_sq` are from the row's own code.
    pub(crate) fn error(&self, distance: f32, step: f32, norm_sq: f32) -> f32 {
        let (distance, step, row_sq) = (f64::from(distance), f64::from(step), f64::from(norm_sq));
        // `|q|^2 + |o|^2 - 2 <q, o>` cancels if q is near o. The inner product is exact. The
        // squared norm of o and the result are rounded.
        let cancelled = 4.0 * (ROUNDING * (self.query_sq + row_sq) + UNDERFLOW);
        let half = HALF_STEP * step + self.query_half;
        let code = half * self.inner_dim_root + 2.0 * NO_LENGTH;
        let turned = TURNS * ROUNDING * (self.query + row_sq.sqrt() + code);
        let placed = towards(distance.sqrt(), half, code) + turned;
        let error = match self.metric {
            Metric::L2 => self.l2(distance, placed + self.recoded, cancelled),
            // A vector that was decoded was normalized again, which may move it by the same
            // distance once more.
            Metric::Cosine => self.cosine(distance, placed + 2.0 * self.recoded, cancelled),
            Metric::InnerProduct => {
                self.inner_product(distance, half - self.query_half, row_sq.sqrt()) + self.lengths[0] * self.recoded
            }
        };
        // Rounds up. A NaN, which only a damaged page can cause, gives no bound.
        let error = (error * (1.0 + 4.0 * ROUNDING)) as f32;
        if error.is_nan() { f32::INFINITY } else { error }
    }

    /// The user's own sum of positive numbers is off by one rounding per term, and its root by half
    /// of that.
    fn l2(&self, distance_sq: f64, placed: f64, cancelled: f64) -> f64 {
        let distance = distance_sq.sqrt();
        let root = cancelled.sqrt().min(cancelled / distance);
        let error = placed + root;
        error + (self.dim / 2.0 + 8.0) * ROUNDING * (distance + error) + (self.dim * UNDERFLOW).sqrt()
    }

    /// `1 - cos` is half the squared distance between normalized vectors. The norms here are nearly
    /// 1; their deviation stretches the distance. A user's own sums whose squares underflow are not
    /// covered.
    fn cosine(&self, distance_sq: f64, placed: f64, cancelled: f64) -> f64 {
        let placed = placed + 4.0 * ROUNDING;
        let half = distance_sq / 2.0 + squares_apart(distance_sq, placed, cancelled) / 2.0;
        let stretched = 2.0 * (self.dim + 32.0) * ROUNDING;
        let users = 2.0 * (self.dim + 8.0) * ROUNDING;
        half - distance_sq / 2.0 + stretched * (half + stretched) + users
    }

    /// The squared distance is `2 M^2 - 2 s <q, o>`, where `s` scales the query to the norm `M`.
    /// The error of `<q, o>` is that of each code in the direction of the other vector. `half` is
    /// half a step of the row.
    fn inner_product(&self, distance_sq: f64, half: f64, row: f64) -> f64 {
        let [query, longest] = self.lengths;
        let likely = |half: f64| (HALF_STEPS * half).min(half * self.inner_dim_root) + 2.0 * NO_LENGTH;
        let scaled = self.query;
        let (of_row, of_query) = (likely(half), likely(self.query_half));
        let codes = scaled * of_row + (row + of_row) * of_query;
        let turned = 2.0 * TURNS * ROUNDING * (scaled + of_query) * (row + of_row);
        let rounded = 8.0 * ROUNDING * (2.0 * longest * longest + distance_sq) + 8.0 * UNDERFLOW;
        let users = (self.dim + 8.0) * ROUNDING * query * (row + of_row) + self.dim * UNDERFLOW;
        (codes + turned + rounded) / self.scale + users
    }
}

/// Largest distance of a row from its own code.
pub(crate) fn code_error(step: f64, inner_dim: f64) -> f64 {
    HALF_STEP * step * inner_dim.sqrt() + NO_LENGTH
}

/// Largest difference between the distance of the code from the rounded query and that of its row
/// from the query, if the code is at `distance` and the two errors together are at most `half` in a
/// component and `code` in all.
///
/// If the row is at distance `d`, then `distance^2 = d^2 + 2 d p + code^2`, where `p` is the
/// component of the errors in the query's direction. The result also covers the difference of the
/// squares, in [`squares_apart`].
fn towards(distance: f64, half: f64, code: f64) -> f64 {
    let part = HALF_STEPS * half + 2.0 * NO_LENGTH;
    let likely = part * (1.0 + code / distance) + code * code / (2.0 * distance - code);
    // So near the query, the direction of the query is that of the error itself.
    if 2.0 * distance > code { likely.min(code) } else { code }
}

/// Largest distance between a vector and its decoded code. `mean_sq` is the squared norm of the
/// mean.
pub(crate) fn restored_error(step: f32, norm_sq: f32, mean_sq: f32, inner_dim: usize) -> f32 {
    let code = code_error(step.into(), inner_dim as f64);
    // Errors of the rotation and of its inverse.
    let turned = 2.0 * TURNS * ROUNDING * (f64::from(norm_sq).sqrt() + f64::from(mean_sq).sqrt() + code);
    ((code + turned) * (1.0 + 4.0 * ROUNDING)) as f32
}

/// Whether a row at `distance_sq` in the inner space from an own code may share that code: it is no
/// farther from the code than [`Bound::error`] allows in any direction, wherever the query is.
///
/// A row whose code was made of an older code may be that far from it. Otherwise a row has the code
/// that is made of it.
pub(crate) fn is_within(meta: &Meta, distance_sq: f32, step: f32) -> bool {
    let recoded = match meta.metric {
        Metric::L2 | Metric::InnerProduct => f64::from(meta.change.recoded_error),
        Metric::Cosine => 2.0 * f64::from(meta.change.recoded_error),
    };
    let (half, inner_dim) = (HALF_STEP * f64::from(step), meta.layout.inner_dim as f64);
    recoded > 0.0 && f64::from(distance_sq).sqrt() <= recoded + half * HALF_STEPS.min(inner_dim.sqrt())
}

/// Error of a squared distance between points that are off by `placed`, when the squared distance
/// itself is off by `cancelled`.
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
