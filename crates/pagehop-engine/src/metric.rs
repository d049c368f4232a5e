//! The rules of closeness.

use crate::Error;

/// Rule of closeness; the smaller the distance, the nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Squared Euclidean distance.
    L2,
    /// Negative inner product.
    InnerProduct,
    /// `1 - cosine similarity`; the zero vector has no direction and is refused.
    Cosine,
}

impl Metric {
    /// The word users write: `l2`, `ip` or `cosine`.
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
