//! The last steps of edge scoring: they convert weighted distances of codes into estimated
//! distances of rows, and find the small ones.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod portable;

use crate::dispatch::{Kernels, on_tier};

/// Most values that [`at_most`] compares.
pub const AT_MOST_VALUES: usize = 64;

/// Bytes of the head of an edge: its target (u32), `add` and `factor` (f32), all little-endian.
/// They are adjacent, so that a change of them is one run of bytes in a log.
pub const HEAD_BYTES: usize = 12;

/// The numbers from which the estimates of some edges are computed.
#[derive(Clone, Copy, Debug)]
pub struct EdgeTerms<'a> {
    /// The first and the second coefficient of the query: see [`estimate`].
    pub query: [f32; 2],
    /// Weighted distance of each code from the query, as [`Scan::count`](crate::Scan::count) gives
    /// it.
    pub counts: &'a [u32],
    /// Squared distance from the query to the centroid of each edge.
    pub centroid_sq: &'a [f32],
    /// The head of each edge.
    pub heads: &'a [[u8; HEAD_BYTES]],
    /// Whether `add` is used. If not, it is taken as 0.
    pub has_add: bool,
}

/// `out[i]` becomes `centroid_sq[i] + add[i] - factor[i] * (query[0] - query[1] * counts[i])`, in
/// this order and with each step rounded. The same bits on every instruction set.
///
/// # Panics
///
/// If a slice of `terms` is shorter than `out`.
#[inline]
pub fn estimate(terms: EdgeTerms<'_>, out: &mut [f32]) {
    Kernels::active().estimate(terms, out);
}

/// One bit for each value, the lowest bit for the first value: whether the value is at most `reach`
/// and below `bound`. The bit of a NaN is 0.
///
/// # Panics
///
/// If there are more than [`AT_MOST_VALUES`].
#[inline]
pub fn at_most(values: &[f32], reach: f32, bound: f32) -> u64 {
    Kernels::active().at_most(values, reach, bound)
}

impl Kernels {
    /// [`estimate`] on this instruction set.
    #[inline]
    pub fn estimate(self, terms: EdgeTerms<'_>, out: &mut [f32]) {
        let edges = out.len();
        let EdgeTerms { counts, centroid_sq, heads, .. } = terms;
        let (counts, centroid_sq) = (&counts[..edges], &centroid_sq[..edges]);
        let terms = EdgeTerms { counts, centroid_sq, heads: &heads[..edges], ..terms };
        on_tier!(self, estimate(terms, out), avx2, neon);
    }

    /// [`at_most`] on this instruction set.
    #[inline]
    pub fn at_most(self, values: &[f32], reach: f32, bound: f32) -> u64 {
        assert!(values.len() <= AT_MOST_VALUES, "a bit for each value");
        on_tier!(self, at_most(values, reach, bound), avx2, neon)
    }
}
