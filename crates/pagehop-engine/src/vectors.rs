//! The data that an index keeps of vectors beside their codes.

use crate::Error;

/// The form in which an index keeps a row's vector. Chosen when the index is made; it never
/// changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vectors {
    /// A code of 12 bits per dimension. Distances come from codes.
    #[default]
    Codes,
    /// The code, and the vector in half precision: the row is the vector after rounding.
    /// Components are at most 65,504.
    Float16,
    /// The code, and the vector as it was given.
    Float32,
}

impl Vectors {
    /// The name in all interfaces: `codes`, `float16` or `float32`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Codes => "codes",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
        }
    }

    /// Bytes of a kept component; 0 if none are kept.
    pub(crate) fn component_bytes(self) -> usize {
        match self {
            Self::Codes => 0,
            Self::Float16 => 2,
            Self::Float32 => 4,
        }
    }
}

impl std::str::FromStr for Vectors {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        [Self::Codes, Self::Float16, Self::Float32]
            .into_iter()
            .find(|vectors| vectors.name() == name)
            .ok_or_else(|| Error::argument(format!("vectors '{name}' is not one of codes, float16, float32")))
    }
}
