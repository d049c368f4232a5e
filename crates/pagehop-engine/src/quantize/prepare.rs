//! From the user's vector to the space the index works in, where nearer always means a smaller squared
//! Euclidean distance: metric, centering, rotation.
//!
//! Cosine normalizes. Inner product adds one dimension, `sqrt(M^2 - |o|^2)` for a row and 0 for a query
//! (Bachrach et al. 2014), after which the nearest row is the one with the largest product.

use super::rotation::Rotation;
use crate::{Error, Metric};

/// Everything needed to prepare a vector.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    pub(crate) metric: Metric,
    /// Components of the user's vectors.
    pub(crate) dim: usize,
    /// Mean of the (normalized, extended) rows; [`Space::inner_dim`] long.
    pub(crate) mean: Vec<f32>,
    /// Inner product only: square of the largest row length `M`.
    pub(crate) norm_sq_max: f32,
    pub(crate) rotation: Rotation,
}

/// How a squared distance in the inner space becomes the metric's distance: `mul * d + add`.
#[derive(Clone, Copy, Debug)]
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

/// Fewest components of the inner space: shorter vectors are padded with zeros. The rotation spreads them over
/// all components, so that an edge code has enough bits, and the query enough of its 4-bit digits, to rank by.
const INNER_DIM_MIN: usize = 64;

/// Components in the inner space.
pub(crate) fn inner_dim(metric: Metric, dim: usize) -> usize {
    (dim + usize::from(metric == Metric::InnerProduct)).max(INNER_DIM_MIN)
}

/// Refuses what no metric can place: NaN, infinities, squared lengths beyond `f32`; under cosine the zero
/// vector. Returns the squared length.
pub(crate) fn validate(metric: Metric, x: &[f32]) -> Result<f32, Error> {
    let norm_sq = pagehop_kernels::dot_f32(x, x);
    // The bound leaves room for distances between two such vectors.
    if norm_sq < f32::MAX / 16.0 {
        if metric == Metric::Cosine && norm_sq < f32::MIN_POSITIVE {
            return Err(Error::argument("the zero vector has no direction: cosine distance is undefined"));
        }
        return Ok(norm_sq);
    }
    match x.iter().position(|v| !v.is_finite()) {
        Some(i) => Err(Error::argument(format!("component {i} of the vector is {}", x[i]))),
        None => Err(Error::argument(format!("the vector is too long for 32-bit floats: squared length {norm_sq}"))),
    }
}

impl Space {
    /// Components in the inner space.
    pub(crate) fn inner_dim(&self) -> usize {
        inner_dim(self.metric, self.dim)
    }

    /// Prepares a row: `out` is [`Space::inner_dim`] long.
    pub(crate) fn row(&self, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
        place(self.metric, self.norm_sq_max, x, out)?;
        self.center_and_rotate(out);
        Ok(())
    }

    /// Prepares a query and says how to read the distances it gets.
    pub(crate) fn query(&self, x: &[f32], out: &mut [f32]) -> Result<ToDistance, Error> {
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
                // The order does not depend on the query's length; precision does: make it the rows'.
                let scale = (self.norm_sq_max / norm_sq).sqrt();
                let scale = if scale.is_normal() { scale } else { 1.0 };
                scale_into(x, scale, out);
                let squares = norm_sq * scale * scale + self.norm_sq_max;
                ToDistance { mul: 0.5 / scale, add: -0.5 * squares / scale, floor: f32::NEG_INFINITY }
            }
        };
        self.center_and_rotate(out);
        Ok(to_distance)
    }

    /// The user's vector of a point that [`Space::row`] made, up to rounding; `point` is used up. Under cosine it
    /// is of length 1.
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

/// Normalizes or extends a row as the metric asks; neither centered nor rotated.
pub(crate) fn place(metric: Metric, norm_sq_max: f32, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
    let norm_sq = validate(metric, x)?;
    match metric {
        Metric::L2 => scale_into(x, 1.0, out),
        Metric::Cosine => scale_into(x, 1.0 / norm_sq.sqrt(), out),
        Metric::InnerProduct => {
            scale_into(x, 1.0, out);
            out[x.len()] = (norm_sq_max - norm_sq).max(0.0).sqrt();
        }
    }
    Ok(())
}

/// Writes `x`, scaled, and zeros behind it.
fn scale_into(x: &[f32], scale: f32, out: &mut [f32]) {
    let (front, back) = out.split_at_mut(x.len());
    for (out, x) in front.iter_mut().zip(x) {
        *out = x * scale;
    }
    back.fill(0.0);
}
