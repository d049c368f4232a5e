//! The definitions of the kernels, one component at a time, in wider arithmetic than that of the
//! kernels. They are never optimized.

/// A sum of floats, and the numbers that its tolerance depends on.
pub(crate) struct Sum {
    pub(crate) exact: f64,
    scale: f64,
    terms: usize,
}

impl Sum {
    fn of(terms: impl Iterator<Item = f64>) -> Self {
        let (mut exact, mut scale, mut count) = (0.0, 0.0, 0);
        for term in terms {
            exact += term;
            scale += term.abs();
            count += 1;
        }
        Self { exact, scale, terms: count }
    }

    /// Fails unless `got` is within `n * EPSILON * scale` of the exact sum.
    #[track_caller]
    pub(crate) fn assert_near(&self, got: f32, what: &str) {
        let tolerance = self.terms as f64 * f64::from(f32::EPSILON) * self.scale;
        let error = (f64::from(got) - self.exact).abs();
        assert!(error <= tolerance, "{what}: got {got}, want {} +- {tolerance:e}", self.exact);
    }
}

pub(crate) fn l2sq(a: impl Iterator<Item = f64>, b: impl Iterator<Item = f64>) -> Sum {
    Sum::of(a.zip(b).map(|(a, b)| (a - b) * (a - b)))
}

pub(crate) fn dot(a: impl Iterator<Item = f64>, b: impl Iterator<Item = f64>) -> Sum {
    Sum::of(a.zip(b).map(|(a, b)| a * b))
}

pub(crate) fn l2sq_int(a: impl Iterator<Item = i64>, b: impl Iterator<Item = i64>) -> i64 {
    a.zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

pub(crate) fn dot_int(a: impl Iterator<Item = i64>, b: impl Iterator<Item = i64>) -> i64 {
    a.zip(b).map(|(a, b)| a * b).sum()
}

/// The value of half-precision bits, from the definition of the format.
pub(crate) fn widen(half: u16) -> f64 {
    let sign = if half >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(half >> 10 & 31);
    let mantissa = f64::from(half & 1023) / 1024.0;
    match exponent {
        0 => sign * mantissa * 2f64.powi(-14),
        31 if mantissa == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1.0 + mantissa) * 2f64.powi(exponent - 15),
    }
}

/// The nearest half-precision number, found by binary search; ties go to the even one.
pub(crate) fn narrow(single: f32) -> u16 {
    let sign = if single.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = f64::from(single.abs());
    if magnitude.is_nan() {
        return sign | 0x7e00 | (single.to_bits() >> 13 & 1023) as u16;
    }
    const INFINITY: u16 = 0x7c00;
    // The numbers have the same order as their bits. For rounding, infinity counts as 2^16.
    let value = |half: u16| if half == INFINITY { 65_536.0 } else { widen(half) };
    let (mut below, mut above) = (0, INFINITY);
    while above - below > 1 {
        let middle = (below + above) / 2;
        if value(middle) <= magnitude { below = middle } else { above = middle }
    }
    let (down, up) = (magnitude - value(below), value(above) - magnitude);
    sign | if down < up || (down == up && below % 2 == 0) { below } else { above }
}

pub(crate) fn hadamard(x: &[f32]) -> Vec<Sum> {
    let sign = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
    (0..x.len()).map(|i| Sum::of((0..x.len()).map(|j| sign(i, j) * f64::from(x[j])))).collect()
}

pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    let mut state = u32::MAX;
    for byte in bytes {
        state ^= u32::from(*byte);
        for _ in 0..8 {
            state = if state % 2 == 1 { (state / 2) ^ 0x82f6_3b78 } else { state / 2 };
        }
    }
    !state
}

/// Weighted Hamming distances, one bit at a time, from the documented layout.
pub(crate) fn scan_bits(planes: &[u64], codes: &[u8], words: usize, edges: usize) -> Vec<u32> {
    let bit = |byte: u8, bit: usize| byte >> bit & 1 == 1;
    let code_bit = |edge: usize, dim: usize| {
        let word_start = ((edge / 8 * words + dim / 64) * 8 + edge % 8) * 8;
        bit(codes[word_start + dim % 64 / 8], dim % 8)
    };
    let plane_bit = |plane: usize, dim: usize| planes[plane * words + dim / 64] >> (dim % 64) & 1 == 1;
    let weight = |edge: usize, dim: usize| {
        (0..4).filter(|&plane| plane_bit(plane, dim) != code_bit(edge, dim)).map(|plane| 1 << plane).sum::<u32>()
    };
    (0..edges).map(|edge| (0..64 * words).map(|dim| weight(edge, dim)).sum()).collect()
}

/// The bit planes of levels, from the definition.
pub(crate) fn level_planes(x: &[f32], per_unit: f32, bits: usize) -> Vec<u64> {
    let words = x.len().div_ceil(64);
    let mut planes = vec![0; bits * words];
    for (i, x) in x.iter().enumerate() {
        let level = (x * per_unit + 2.0f32.powi(bits as i32 - 1)).floor();
        let level = if level.is_nan() { 0.0 } else { level.clamp(0.0, 2.0f32.powi(bits as i32) - 1.0) } as u64;
        for plane in 0..bits {
            planes[plane * words + i / 64] |= (level >> plane & 1) << (i % 64);
        }
    }
    planes
}
