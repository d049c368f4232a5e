//! Which leaves of postings may have rows near a query: those whose cells are near.
//!
//! A cell is the region that is nearer to one centroid than to all others. The query is in the cell
//! of its nearest centroid, and a row of another cell is behind the wall between the two, which is
//! at
//!
//! ```text
//! wall = (|query - other|^2 - |query - nearest|^2) / (2 |other - nearest|)
//! ```
//!
//! from the query. If the nearest rows are at most `r` from the query, no cell behind a farther
//! wall has one of them. In `n` dimensions nearly all of the volume of a ball of radius `r` is
//! within about `r / sqrt(n)` of any plane through its center. So the cells behind walls up to
//! `width * r / sqrt(n)` are enough, and `width` is like a quantile of the normal distribution. `n`
//! is not the number of components, but that of the dimensions in which rows lie around the query.
//! It is estimated from the distances of the nearest centroids: the number of those within a
//! distance grows with its `n`-th power.
//!
//! None of this holds under the inner product, nor for a query that is far from all rows: the query
//! is then outside of the rows, and every leaf is read.
//!
//! The measurements are in `docs/decisions/0015-filters.md`.

use crate::index::search::visit::Probe;
use crate::index::state::State;
use crate::page::leaf_ranges::LeafRange;
use crate::page::meta::Meta;

/// The number of dimensions is estimated from the distances of the nearest centroid and of the one
/// with this rank.
const TELLING: usize = 16;
/// Twice the natural logarithm of [`TELLING`].
const GROWTH: f32 = 5.545;
/// Largest quotient of the two squared distances.
const QUOTIENT_MAX: f32 = 1e4;
/// A query is far from all rows if its nearest centroid is farther than this number of times the
/// mean squared distance between a centroid and its entry point. Queries like the rows have 1.6 on
/// real texts, and 3.5 on rows of very different lengths.
const FAR: f32 = 4.0;
/// The walls between a query and each cell. Reusable.
#[derive(Debug, Default)]
pub(crate) struct Walls {
    /// For each cell the distance of its wall; 0 for the cell of the query, and below 0 for an
    /// empty cell.
    distances: Vec<f32>,
    /// One divided by the dimensions around the query.
    spread: f32,
    /// Whether the query is far from all rows. Walls then tell nothing: the nearest rows are those
    /// on one side of all rows, in many cells.
    is_far: bool,
    sorted: Vec<f32>,
}

impl Walls {
    /// Measures the walls around the query of `probe`.
    pub(crate) fn measure(&mut self, probe: &Probe, state: &State) {
        let (centroids, point) = (&state.model.centroids, probe.point());
        let count = centroids.len();
        self.distances.clear();
        self.distances.extend((0..count).map(|at| centroids.distance(at, point)));
        self.sorted.clear();
        let euclidean = |(at, distance): (usize, &f32)| centroids.euclidean(at, point, *distance);
        self.sorted.extend(self.distances.iter().enumerate().map(euclidean));
        let by_distance = |a: &usize, b: &usize| self.distances[*a].total_cmp(&self.distances[*b]);
        let nearest = (0..count).min_by(by_distance).unwrap_or(0);
        let least = self.distances.get(nearest).copied().unwrap_or(0.0);
        let of_entries: f32 = state.entries.iter().map(|entry| entry.from_centroid_sq).sum();
        self.is_far = least * state.entries.len() as f32 > FAR * of_entries;
        for (at, distance) in self.distances.iter_mut().enumerate() {
            let apart = 2.0 * centroids.apart(at, nearest).sqrt();
            *distance = if apart > 0.0 { (*distance - least) / apart } else { 0.0 };
        }
        self.spread = spread(&mut self.sorted);
    }

    /// The distance of the nearest wall behind which a leaf may have rows. A leaf of several values
    /// may have rows of every cell.
    pub(crate) fn of(&self, leaf: &LeafRange) -> f32 {
        if !leaf.has_one_value() {
            return 0.0;
        }
        let cells = usize::from(leaf.low.centroid())..=usize::from(leaf.high.centroid());
        let walls = self.distances.get(cells).unwrap_or_default();
        walls.iter().copied().reduce(f32::min).unwrap_or(0.0)
    }

    /// The place of the leaf, or of the page above leaves, with the nearest wall.
    pub(crate) fn nearest(&self, level: &[LeafRange]) -> usize {
        (0..level.len()).min_by(|a, b| self.of(&level[*a]).total_cmp(&self.of(&level[*b]))).unwrap_or(0)
    }

    /// The largest distance of a wall that may matter, if the nearest rows are within the squared
    /// distance `reach`.
    pub(crate) fn limit(&self, reach: f32, width: f32) -> f32 {
        // Infinity times 0 would be NaN.
        let is_limited = width.is_finite() && reach.is_finite() && !self.is_far;
        if is_limited { width * (reach * self.spread).sqrt() } else { f32::INFINITY }
    }
}

/// One divided by the dimensions in which the centroids lie around a point, from their squared
/// distances; infinite if there are too few centroids.
fn spread(distances: &mut [f32]) -> f32 {
    if distances.len() < TELLING {
        return f32::INFINITY;
    }
    let (nearer, far, _) = distances.select_nth_unstable_by(TELLING - 1, f32::total_cmp);
    let near = nearer.iter().copied().fold(f32::INFINITY, f32::min);
    // This also holds if both are 0.
    let quotient = (*far / near).min(QUOTIENT_MAX);
    // Nearly the logarithm, and the same on every CPU.
    let logarithm = (quotient - 1.0) / quotient.sqrt();
    logarithm / GROWTH
}

/// Whether most of these pages have one value. The others may have rows of every cell.
pub(crate) fn separate<'a>(ranges: impl ExactSizeIterator<Item = &'a LeafRange>) -> bool {
    let half = ranges.len() / 2;
    ranges.filter(|range| range.has_one_value()).count() >= half
}

/// Whether walls tell where the nearest rows are.
pub(crate) fn tells(meta: &Meta) -> bool {
    meta.filled_sq().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_told_from_the_nearest_centroids() {
        // The distances of these 16 points grow like those of the nearest of many points in `n`
        // dimensions.
        for n in [2.0f32, 8.0, 30.0] {
            let mut distances: Vec<f32> = (1..=40).rev().map(|at| (at as f32).powf(2.0 / n)).collect();
            let told = 1.0 / spread(&mut distances);
            assert!((0.6..=1.05).contains(&(told / n)), "{told} dimensions, {n} wanted");
        }
        assert_eq!(spread(&mut [1.0; 15]), f32::INFINITY);
        assert!((10.0..100.0).contains(&spread(&mut [0.0; 16])));
        assert_eq!(spread(&mut [1.0; 16]), 0.0);
    }
}
