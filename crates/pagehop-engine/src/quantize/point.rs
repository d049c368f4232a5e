//! A query in the inner space, rounded to 16 bits per dimension with one step. All distances are
//! measured to the rounded point: their inner products are integers, so every CPU computes the same
//! bits.
//!
//! Rounding moves a point by at most `.51 * step * sqrt(dim)`, an eighth to a sixteenth of what an
//! own code moves a row; `index/search/bound.rs` adds it to the error of a distance. A point that
//! was decoded from an own code is not moved at all.

use super::own::OwnCode;
use pagehop_kernels as kernels;

/// A rounded point. Reusable: [`RoundedPoint::round`] replaces it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundedPoint {
    rounded: kernels::Rounded,
    norm_sq: f64,
    /// Under the inner product, the squared norm to which this point and every other is filled up.
    filled_sq: Option<f32>,
    /// Twice the step.
    twice_step: f64,
}

impl RoundedPoint {
    /// The rounded `x`.
    pub(crate) fn new(x: &[f32]) -> Self {
        let mut point = Self::default();
        point.round(x);
        point
    }

    /// Rounds `x`.
    pub(crate) fn round(&mut self, x: &[f32]) {
        self.rounded.round(x);
        let step = f64::from(self.rounded.step());
        self.norm_sq = self.rounded.sum_sq() as f64 * step * step;
        self.twice_step = 2.0 * step;
    }

    /// From now on, distances are those between points that are filled up to this squared norm
    /// (`prepare.rs`); Euclidean ones if there is none.
    pub(crate) fn fill(&mut self, filled_sq: Option<f32>) {
        self.filled_sq = filled_sq;
    }

    /// The sum of the squared norms of the point and of another one, as distances have it.
    #[inline]
    pub(crate) fn squares(&self, norm_sq: f32) -> f64 {
        self.filled_sq.map_or(self.norm_sq + f64::from(norm_sq), |filled_sq| 2.0 * f64::from(filled_sq))
    }

    /// The rounded point as floats.
    pub(crate) fn decode(&self, x: &mut [f32]) {
        let step = self.rounded.step();
        for (x, value) in x.iter_mut().zip(self.rounded.values()) {
            *x = step * f32::from(*value);
        }
    }

    /// The step to multiples of which the point was rounded.
    pub(crate) fn step(&self) -> f32 {
        self.rounded.step()
    }

    /// Squared norm of the rounded point.
    pub(crate) fn norm_sq(&self) -> f32 {
        self.norm_sq as f32
    }

    /// Squared distance to an own code.
    #[inline]
    pub(crate) fn distance(&self, own: OwnCode, hi: &[i8], lo: &[u8]) -> f32 {
        self.apart(own.norm_sq, own.step, self.rounded.dot_i12(hi, lo))
    }

    /// Squared distance to an 8-bit code with this squared norm and this step.
    #[inline]
    pub(crate) fn distance_to_bytes(&self, norm_sq: f32, step: f32, code: &[i8]) -> f32 {
        self.apart(norm_sq, step, self.rounded.dot_i8(code))
    }

    /// In 64-bit floats, so that the error is that of `norm_sq` and of the result.
    #[inline]
    fn apart(&self, norm_sq: f32, step: f32, dot: i64) -> f32 {
        let twice_dot = self.twice_step * f64::from(step) * dot as f64;
        (self.squares(norm_sq) - twice_dot).max(0.0) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::own;
    use crate::random::Random;

    fn encode(x: &[f32]) -> (OwnCode, Vec<i8>, Vec<u8>) {
        let (mut values, mut hi, mut lo) = (vec![0; x.len()], vec![0; x.len()], vec![0; own::lo_bytes(x.len())]);
        let code = own::encode(x, &mut values, &mut hi, &mut lo);
        (code, hi, lo)
    }

    #[test]
    fn a_distance_is_that_between_the_decoded_vectors() {
        let mut random = Random::new(3, 0);
        for dim in [1, 2, 17, 64, 385, 784, 4096] {
            for scale in [1e-12, 1.0, 1e12] {
                let mut gauss = || scale * (random.below(2_000_001) as f32 / 1e6 - 1.0);
                let (x, y): (Vec<_>, Vec<_>) = (0..dim).map(|_| (gauss(), gauss())).unzip();
                let (code, hi, lo) = encode(&y);
                let (mut values, mut decoded) = (vec![0; dim], vec![0.0; dim]);
                own::decode(code.step, &hi, &lo, &mut values, &mut decoded);
                let point = RoundedPoint::new(&x);
                let mut rounded = vec![0.0; dim];
                point.decode(&mut rounded);
                let pairs = rounded.iter().zip(&decoded);
                let want: f64 = pairs.map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
                let got = f64::from(point.distance(code, &hi, &lo));
                let lengths_sq = f64::from(point.norm_sq()) + f64::from(code.norm_sq);
                assert!((got - want).abs() <= 1e-6 * lengths_sq, "{dim} dimensions, {scale}: {got}, want {want}");
            }
        }
    }

    #[test]
    fn a_decoded_own_code_is_at_no_distance_from_itself() {
        let mut random = Random::new(4, 0);
        for dim in [64, 384, 784, 1025] {
            let x: Vec<f32> = (0..dim).map(|_| random.below(2001) as f32 / 1e3 - 1.0).collect();
            let (code, hi, lo) = encode(&x);
            let (mut values, mut decoded) = (vec![0; dim], vec![0.0; dim]);
            own::decode(code.step, &hi, &lo, &mut values, &mut decoded);
            let distance = RoundedPoint::new(&decoded).distance(code, &hi, &lo);
            assert!(distance <= 1e-6 * code.norm_sq, "{dim} dimensions: {distance}");
        }
    }
}
