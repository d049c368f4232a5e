//! Distance functions.

use crate::Error;

/// A distance function. A smaller distance means a closer vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Squared Euclidean distance.
    L2,
    /// Negative inner product.
    InnerProduct,
    /// `1 - cosine similarity`. Zero vectors are refused, because they have no direction.
    Cosine,
}

impl Metric {
    /// The name in all interfaces: `l2`, `ip` or `cosine`.
    pub fn name(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::InnerProduct => "ip",
            Self::Cosine => "cosine",
        }
    }
}

impl std::str::FromStr for Metric {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        [Self::L2, Self::InnerProduct, Self::Cosine]
            .into_iter()
            .find(|metric| metric.name() == name)
            .ok_or_else(|| Error::argument(format!("metric '{name}' is not one of l2, ip, cosine")))
    }
}
