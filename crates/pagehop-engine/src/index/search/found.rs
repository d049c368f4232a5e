//! A row as a cursor returns it: its id, and how far it is, with a bound on the error.

use crate::Metric;
use crate::ids::NodeId;

/// One row that a cursor found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The user's id of the row; under [`IdKind::Text`](crate::IdKind::Text) its number, and
    /// [`Cursor::text_id`](crate::Cursor::text_id) reads the id.
    pub row_id: u64,
    /// Distance under the index's metric, as in [`Hit`](crate::Hit).
    pub distance: f32,
    /// Bound on the difference between `distance` and the distance of the user's vector; under L2,
    /// between their square roots. The bound fails with a probability of 5e-18:
    /// `docs/how-it-works.md`.
    pub error: f32,
    pub(super) node: NodeId,
}

/// The node of a row does not count.
impl PartialEq for Found {
    fn eq(&self, other: &Self) -> bool {
        (self.row_id, self.distance, self.error) == (other.row_id, other.distance, other.error)
    }
}

impl Found {
    /// The range of the true distance; under L2 of the distance itself, not its square.
    ///
    /// The true distance is that of the vectors as they were given, computed exactly or with 32-bit
    /// floats in any order.
    pub fn range(&self, metric: Metric) -> (f32, f32) {
        match metric {
            Metric::L2 => {
                let distance = self.distance.sqrt();
                ((distance - self.error).max(0.0), distance + self.error)
            }
            Metric::InnerProduct | Metric::Cosine => (self.distance - self.error, self.distance + self.error),
        }
    }
}
