//! Queries in the binary format of a server: pgvector's `vector` and `halfvec`, MariaDB's blob.
//!
//! pgvector's types begin with the number of components and an unused number, 16 bits each. The
//! components of a vector are float32, those of a halfvec are float16, all big-endian. A blob has
//! only float32 numbers, little-endian. Queries are encoded before the clock starts.
#![expect(clippy::big_endian_bytes, reason = "pgvector's format is big-endian")]

use clap::ValueEnum;

use crate::matrix::Matrix;

/// Largest number of components that the format allows.
const DIM_MAX: usize = i16::MAX as usize;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ParameterType {
    /// pgvector's float32
    Vector,
    /// pgvector's float16
    Halfvec,
    /// MariaDB's float32, which is not an option of the command line
    #[value(skip)]
    Blob,
}

impl ParameterType {
    /// The server's name of the type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::Halfvec => "halfvec",
            Self::Blob => "blob",
        }
    }

    /// pgvector's type with this name, if it is one of the types here.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Vector, Self::Halfvec].into_iter().find(|kind| kind.name() == name)
    }
}

/// The queries of a file, encoded as parameters.
#[derive(Debug)]
pub(crate) struct Queries {
    pub(crate) kind: ParameterType,
    pub(crate) dim: usize,
    pub(crate) encoded: Encoded,
    /// The first query as text, which PostgreSQL accepts in EXPLAIN EXECUTE.
    pub(crate) first_text: String,
}

impl Queries {
    /// Encodes `vectors`.
    pub(crate) fn new(kind: ParameterType, vectors: &Matrix<f32>) -> Result<Self, String> {
        let encoded = Encoded::new(kind, &vectors.values, vectors.width)?;
        Ok(Self { kind, dim: vectors.width, encoded, first_text: as_text(vectors.row(0)) })
    }
}

/// Encoded queries, all of the same width.
#[derive(Debug)]
pub(crate) struct Encoded {
    bytes: Vec<u8>,
    query_bytes: usize,
}

impl Encoded {
    /// Encodes rows of `dim` components each.
    pub(crate) fn new(kind: ParameterType, components: &[f32], dim: usize) -> Result<Self, String> {
        if !(1..=DIM_MAX).contains(&dim) {
            return Err(format!("its rows have {dim} components; a {} has 1 to {DIM_MAX}", kind.name()));
        }
        let query_bytes = match kind {
            ParameterType::Vector => 4 + 4 * dim,
            ParameterType::Halfvec => 4 + 2 * dim,
            ParameterType::Blob => 4 * dim,
        };
        let mut bytes = Vec::with_capacity(components.len() / dim * query_bytes);
        for (number, row) in components.chunks_exact(dim).enumerate() {
            if let Some(bad) = row.iter().find(|x| !x.is_finite()) {
                return Err(format!("row {number} has the component {bad}"));
            }
            if kind != ParameterType::Blob {
                bytes.extend((dim as i16).to_be_bytes());
                bytes.extend([0, 0]);
            }
            match kind {
                ParameterType::Blob => bytes.extend(row.iter().flat_map(|x| x.to_le_bytes())),
                ParameterType::Vector => bytes.extend(row.iter().flat_map(|x| x.to_be_bytes())),
                ParameterType::Halfvec => {
                    for x in row {
                        let half = f32_to_f16(*x);
                        if half & 0x7fff == 0x7c00 {
                            return Err(format!("row {number} has the component {x}, too large for a halfvec"));
                        }
                        bytes.extend(half.to_be_bytes());
                    }
                }
            }
        }
        Ok(Self { bytes, query_bytes })
    }

    /// The parameter of query `number`.
    pub(crate) fn get(&self, number: usize) -> &[u8] {
        &self.bytes[number * self.query_bytes..][..self.query_bytes]
    }

    /// The number of queries.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / self.query_bytes
    }
}

/// A query as text, such as `[1,2.5]`, which the server reads as the same numbers.
fn as_text(components: &[f32]) -> String {
    let numbers: Vec<String> = components.iter().map(f32::to_string).collect();
    format!("[{}]", numbers.join(","))
}

/// The half-precision number nearest to a finite `x`, ties to even; infinite from 65520 on.
fn f32_to_f16(x: f32) -> u16 {
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    let magnitude = x.to_bits() & 0x7fff_ffff;
    if magnitude >= 0x4780_0000 {
        return sign | 0x7c00; // 65536 and more
    }
    if magnitude < 0x3880_0000 {
        // Below 2^-14, half-precision numbers are multiples of 2^-24. Adding 0.5 rounds to such a
        // multiple.
        let shifted = f32::from_bits(magnitude) + 0.5;
        return sign | (shifted.to_bits() - 0x3f00_0000) as u16;
    }
    let odd = magnitude >> 13 & 1;
    let rounded = magnitude - (112 << 23) + 0xfff + odd;
    sign | (rounded >> 13) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_has_these_bytes() {
        let encoded = Encoded::new(ParameterType::Vector, &[1.0, -2.5, 0.0, 0.1], 2).unwrap();
        assert_eq!(encoded.len(), 2);
        assert_eq!(encoded.get(0), [0, 2, 0, 0, 0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0]);
        assert_eq!(encoded.get(1), [0, 2, 0, 0, 0, 0, 0, 0, 0x3d, 0xcc, 0xcc, 0xcd]);
    }

    #[test]
    fn a_halfvec_has_these_bytes() {
        let encoded = Encoded::new(ParameterType::Halfvec, &[1.0, -2.5, 65504.0], 3).unwrap();
        assert_eq!(encoded.get(0), [0, 3, 0, 0, 0x3c, 0, 0xc1, 0, 0x7b, 0xff]);
    }

    #[test]
    fn a_blob_has_these_bytes() {
        let encoded = Encoded::new(ParameterType::Blob, &[1.0, -2.5, 0.0, 0.1], 2).unwrap();
        assert_eq!((encoded.len(), encoded.get(0)), (2, &[0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0][..]));
        assert_eq!(encoded.get(1), [0, 0, 0, 0, 0xcd, 0xcc, 0xcc, 0x3d]);
    }

    #[test]
    fn what_the_server_would_refuse_is_refused() {
        let encode = |kind, components: &[f32]| Encoded::new(kind, components, 1).unwrap_err();
        assert!(encode(ParameterType::Vector, &[0.0, f32::NAN]).contains("row 1"));
        assert!(encode(ParameterType::Halfvec, &[65520.0]).contains("too large"));
        assert!(Encoded::new(ParameterType::Vector, &[], 0).is_err());
        assert!(Encoded::new(ParameterType::Vector, &[0.0; 40_000], 40_000).is_err());
    }

    #[test]
    fn every_half_and_what_lies_between_is_rounded() {
        let value = |bits: u16| {
            let (exponent, mantissa) = (i32::from(bits >> 10), f64::from(bits & 0x3ff));
            if exponent == 0 { mantissa * 2f64.powi(-24) } else { (1024.0 + mantissa) * 2f64.powi(exponent - 25) }
        };
        for bits in 0..0x7bff_u16 {
            let (low, high) = (value(bits), value(bits + 1));
            let middle = ((low + high) / 2.0) as f32; // exact: one bit more than a half
            let even = if bits % 2 == 0 { bits } else { bits + 1 };
            assert_eq!(f32_to_f16(low as f32), bits);
            assert_eq!(f32_to_f16(-low as f32), bits | 0x8000);
            assert_eq!(f32_to_f16(middle), even, "{middle}");
            assert_eq!(f32_to_f16(f32::from_bits(middle.to_bits() - 1)), bits, "below {middle}");
            assert_eq!(f32_to_f16(f32::from_bits(middle.to_bits() + 1)), bits + 1, "above {middle}");
        }
        assert_eq!(f32_to_f16(65504.0), 0x7bff);
        assert_eq!(f32_to_f16(65519.9), 0x7bff);
        assert_eq!(f32_to_f16(65520.0), 0x7c00);
        assert_eq!(f32_to_f16(1e30), 0x7c00);
        assert_eq!(f32_to_f16(1e-30), 0);
    }

    #[test]
    fn text_reads_back_as_the_same_numbers() {
        assert_eq!(as_text(&[1.0, -2.5, 0.1]), "[1,-2.5,0.1]");
        assert_eq!(as_text(&[1e-40]).trim_matches(['[', ']']).parse(), Ok(1e-40_f32));
    }
}
