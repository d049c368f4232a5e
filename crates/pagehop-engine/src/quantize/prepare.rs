//! Maps a user's vector to the inner space of the index. The steps depend on the metric: normalize
//! for cosine, then subtract the mean and rotate.
//!
//! Under the inner product nothing is normalized, and the mean is 0. Instead, the squared distance
//! of any two vectors is `2 M^2 - 2 <a, b>`, where `M` is at least the norm of every row, and a
//! query is scaled to it. It is the squared Euclidean distance after each vector was filled up to
//! the norm `M` by a dimension of its own, which no other vector has. So few other parts of the
//! engine depend on the metric. One dimension for all, `sqrt(M^2 - |o|^2)` (Bachrach et al. 2014),
//! makes a graph whose edges do not lead to large products
//! (`docs/decisions/0021-inner-product.md`).

use super::inner_product::dot;
use super::rotation::Rotation;
use crate::{Error, Metric};

/// The parameters that map a vector to the inner space.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    pub(crate) metric: Metric,
    /// Dimensions of the user's vectors.
    pub(crate) dim: usize,
    /// Mean of the rows after normalizing; 0 under the inner product. [`Space::inner_dim`] long.
    pub(crate) mean: Vec<f32>,
    pub(crate) rotation: Rotation,
}

/// Converts a squared distance `d` of the inner space to the distance of the metric: `mul * d +
/// add`, at least `floor`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ToDistance {
    pub(crate) mul: f32,
    add: f32,
    floor: f32,
}

impl ToDistance {
    pub(crate) fn apply(self, inner: f32) -> f32 {
        (self.mul * inner + self.add).max(self.floor)
    }
}

/// Smallest dimension of the inner space; shorter vectors are padded with zeros. The rotation
/// spreads a vector over all components, so that an edge code has enough bits to rank by, and so
/// has the query in its 4-bit digits.
pub(crate) const INNER_DIM_MIN: usize = 64;

/// Dimensions of the inner space.
pub(crate) fn inner_dim(dim: usize) -> usize {
    dim.max(INNER_DIM_MIN)
}

/// Refuses NaN, infinities, squared norms that overflow `f32`, and the zero vector under cosine.
/// Returns the squared norm.
pub(crate) fn validate(metric: Metric, x: &[f32]) -> Result<f32, Error> {
    let norm_sq = dot(x, x);
    // The bound leaves room for the squared distance between two such vectors.
    if norm_sq < f32::MAX / 16.0 {
        if metric == Metric::Cosine && norm_sq < f32::MIN_POSITIVE {
            return Err(Error::argument("the zero vector has no direction: cosine distance is undefined"));
        }
        return Ok(norm_sq);
    }
    match x.iter().position(|v| !v.is_finite()) {
        Some(i) => Err(Error::argument(format!("component {i} of the vector is {}", x[i]))),
        None => Err(Error::argument(format!(
            "the norm of the vector is too large for 32-bit floats: its square is {norm_sq}"
        ))),
    }
}

impl Space {
    /// Dimensions of the inner space.
    pub(crate) fn inner_dim(&self) -> usize {
        inner_dim(self.dim)
    }

    /// Maps a row to the inner space. `out` is [`Space::inner_dim`] long.
    pub(crate) fn row(&self, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
        place(self.metric, x, out)?;
        self.center_and_rotate(out);
        Ok(())
    }

    /// Maps a query to the inner space. `filled_sq` is `M^2` under the inner product. Returns the
    /// conversion from inner distances to distances of the metric.
    pub(crate) fn query(&self, x: &[f32], filled_sq: Option<f32>, out: &mut [f32]) -> Result<ToDistance, Error> {
        if x.len() != self.dim {
            return Err(Error::Dimension { expected: self.dim, got: x.len() });
        }
        let norm_sq = validate(self.metric, x)?;
        let to_distance = match self.metric {
            Metric::L2 => {
                scale_into(x, 1.0, out);
                ToDistance { mul: 1.0, add: 0.0, floor: 0.0 }
            }
            Metric::Cosine => {
                scale_into(x, 1.0 / norm_sq.sqrt(), out);
                ToDistance { mul: 0.5, add: 0.0, floor: 0.0 }
            }
            Metric::InnerProduct => {
                // Scaling the query does not change the order of rows. A query of the length of the
                // longest row has no negative distance from any row.
                let filled_sq = filled_sq.unwrap_or(norm_sq);
                let scale = (filled_sq / norm_sq).sqrt();
                let scale = if scale.is_normal() { scale } else { 1.0 };
                scale_into(x, scale, out);
                ToDistance { mul: 0.5 / scale, add: -filled_sq / scale, floor: f32::NEG_INFINITY }
            }
        };
        self.center_and_rotate(out);
        Ok(to_distance)
    }

    /// The inverse of [`Space::row`], up to rounding: the user's vector, normalized under cosine.
    /// Overwrites `point` and returns a part of it.
    pub(crate) fn restore<'p>(&self, point: &'p mut [f32]) -> &'p [f32] {
        self.rotation.undo(point);
        for (x, mean) in point.iter_mut().zip(&self.mean) {
            *x += mean;
        }
        &point[..self.dim]
    }

    fn center_and_rotate(&self, out: &mut [f32]) {
        for (x, mean) in out.iter_mut().zip(&self.mean) {
            *x -= mean;
        }
        self.rotation.apply(out);
    }
}

/// Normalizes a row if the metric requires it. Does not center or rotate.
fn place(metric: Metric, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
    let norm_sq = validate(metric, x)?;
    match metric {
        Metric::L2 | Metric::InnerProduct => scale_into(x, 1.0, out),
        Metric::Cosine => scale_into(x, 1.0 / norm_sq.sqrt(), out),
    }
    Ok(())
}

/// Writes `x * scale`, and zeros in the rest of `out`.
fn scale_into(x: &[f32], scale: f32, out: &mut [f32]) {
    let (front, back) = out.split_at_mut(x.len());
    for (out, x) in front.iter_mut().zip(x) {
        *out = x * scale;
    }
    back.fill(0.0);
}
