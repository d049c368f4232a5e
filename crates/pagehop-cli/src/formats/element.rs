//! The kinds of numbers in a file, and how they become the numbers of an index.

/// One kind of number; all are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    U32,
    U64,
}

impl Element {
    /// Bytes of one number.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// NumPy's name of the kind.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F16 => "float16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::I8 => "int8",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::U8 => "uint8",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
        }
    }

    /// Whether a component of a vector may be this kind of number.
    pub(crate) fn is_component(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64 | Self::I8 | Self::U8)
    }

    /// Whether an id may be this kind of number.
    pub(crate) fn is_id(self) -> bool {
        matches!(self, Self::I32 | Self::I64 | Self::U32 | Self::U64)
    }

    /// Appends the numbers of `bytes` to `out`; a float64 beyond float32 becomes infinite.
    ///
    /// # Panics
    ///
    /// If the element [is not a component](Self::is_component).
    pub(crate) fn to_components(self, bytes: &[u8], out: &mut Vec<f32>) {
        match self {
            Self::F32 => out.extend(each(bytes).map(f32::from_le_bytes)),
            Self::F16 => out.extend(each(bytes).map(u16::from_le_bytes).map(f16_to_f32)),
            Self::F64 => out.extend(each(bytes).map(f64::from_le_bytes).map(|x| x as f32)),
            Self::I8 => out.extend(each(bytes).map(i8::from_le_bytes).map(f32::from)),
            Self::U8 => out.extend(bytes.iter().copied().map(f32::from)),
            Self::I32 | Self::I64 | Self::U32 | Self::U64 => {
                unreachable!("the reader accepts no components of {}", self.name())
            }
        }
    }

    /// Appends the numbers of `bytes` to `out`. An `i128` holds ids of every kind.
    ///
    /// # Panics
    ///
    /// If the element [is not an id](Self::is_id).
    pub(crate) fn to_ids(self, bytes: &[u8], out: &mut Vec<i128>) {
        match self {
            Self::I32 => out.extend(each(bytes).map(i32::from_le_bytes).map(i128::from)),
            Self::I64 => out.extend(each(bytes).map(i64::from_le_bytes).map(i128::from)),
            Self::U32 => out.extend(each(bytes).map(u32::from_le_bytes).map(i128::from)),
            Self::U64 => out.extend(each(bytes).map(u64::from_le_bytes).map(i128::from)),
            Self::F16 | Self::F32 | Self::F64 | Self::I8 | Self::U8 => {
                unreachable!("the reader accepts no ids of {}", self.name())
            }
        }
    }
}

fn each<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks().0.iter().copied()
}

/// The value of an IEEE 754 half.
pub(super) fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let mantissa = u32::from(bits & 0x3ff);
    let magnitude = match exponent {
        0 => (mantissa as f32 * f32::from_bits(0x3380_0000)).to_bits(), // mantissa * 2^-24, exact
        31 => 0x7f80_0000 | mantissa << 13,
        _ => (exponent + 112) << 23 | mantissa << 13,
    };
    f32::from_bits(sign | magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_has_its_value() {
        for bits in 0..=u16::MAX {
            let exponent = i32::from(bits >> 10 & 0x1f);
            let mantissa = f64::from(bits & 0x3ff);
            let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
            let expected = match exponent {
                0 => sign * mantissa / 1024.0 * 2f64.powi(-14),
                31 if mantissa == 0.0 => sign * f64::INFINITY,
                31 => f64::NAN,
                _ => sign * (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
            };
            let value = f64::from(f16_to_f32(bits));
            assert!(
                value == expected && value.is_sign_negative() == expected.is_sign_negative()
                    || value.is_nan() && expected.is_nan(),
                "{bits:#06x} is {expected}, not {value}",
            );
        }
    }

    #[test]
    fn numbers_keep_their_sign_and_width() {
        let mut components = Vec::new();
        Element::I8.to_components(&[0x80, 0x7f], &mut components);
        Element::U8.to_components(&[0x80], &mut components);
        Element::F64.to_components(&1e300f64.to_le_bytes(), &mut components);
        assert_eq!(components, [-128.0, 127.0, 128.0, f32::INFINITY]);
        let mut ids = Vec::new();
        Element::I32.to_ids(&[0xff; 4], &mut ids);
        Element::U64.to_ids(&[0xff; 8], &mut ids);
        assert_eq!(ids, [-1, i128::from(u64::MAX)]);
    }
}
