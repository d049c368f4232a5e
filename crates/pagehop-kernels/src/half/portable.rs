//! Half precision by bit manipulation. The results have the same bits as the F16C instructions.

pub(crate) fn f16_to_f32(src: &[u16], dst: &mut [f32]) {
    for (src, dst) in src.iter().zip(dst) {
        *dst = widen(*src);
    }
}

pub(crate) fn f32_to_f16(src: &[f32], dst: &mut [u16]) {
    for (src, dst) in src.iter().zip(dst) {
        *dst = narrow(*src);
    }
}

/// Converts one half-precision number to `f32`. It selects values and does not branch, so that
/// loops over it vectorize.
#[inline]
pub(crate) fn widen(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let magnitude = u32::from(half & 0x7fff);
    // The exponent biases of the two formats differ by 127 - 15 = 112.
    let normal = (magnitude << 13) + (112 << 23);
    // The value of a denormal is its mantissa times 2^-24, which `f32` represents exactly.
    let denormal = (magnitude as i32 as f32 * (1.0 / 16_777_216.0)).to_bits();
    let quiet = if magnitude > 0x7c00 { 0x0040_0000 } else { 0 };
    let special = 0x7f80_0000 | (magnitude << 13) | quiet;
    let finite = if magnitude < 0x0400 { denormal } else { normal };
    f32::from_bits(sign | if magnitude >= 0x7c00 { special } else { finite })
}

/// The half-precision number nearest to `single`, ties to even.
#[inline]
pub(crate) fn narrow(single: f32) -> u16 {
    let bits = single.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Rounds to even: adds just under half of the last place that is kept, or exactly half if that
    // place is odd. A carry out of the mantissa increments the exponent, up to infinity, which is
    // correct.
    let odd = (magnitude >> 13) & 1;
    let normal = (magnitude.wrapping_sub(112 << 23).wrapping_add(0x0fff + odd) >> 13).min(0x7c00);
    // The ulp of 0.5 in `f32` is 2^-24, the smallest half-precision number. So adding 0.5 rounds a
    // small magnitude to the mantissa of a denormal.
    let denormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let nan = 0x7e00 | ((magnitude >> 13) & 0x03ff);
    let finite = if magnitude < (113 << 23) { denormal } else { normal };
    sign | if magnitude > 0x7f80_0000 { nan } else { finite } as u16
}
