//! Float query against integer codes in plain Rust, and the 12-bit packing, which exists only here.

/// The smallest value of a 12-bit code.
pub const I12_MIN: i16 = -127 * 16 - 8;

/// The largest value of a 12-bit code.
pub const I12_MAX: i16 = 127 * 16 + 7;

const LANES: usize = 16;

/// Subtracted from a nibble, so that the high byte alone is the nearest 8-bit code.
const NIBBLE_BIAS: i16 = 8;

pub(crate) fn dot_f32_i8(q: &[f32], code: &[i8]) -> f32 {
    let (q_chunks, q_rest) = q.as_chunks::<LANES>();
    let (code_chunks, code_rest) = code.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (q, code) in q_chunks.iter().zip(code_chunks) {
        for lane in 0..LANES {
            sums[lane] += q[lane] * f32::from(code[lane]);
        }
    }
    for (lane, (q, &code)) in q_rest.iter().zip(code_rest).enumerate() {
        sums[lane] += q * f32::from(code);
    }
    sums.iter().sum()
}

pub(crate) fn dot_f32_i12(q: &[f32], hi: &[i8], lo: &[u8]) -> f32 {
    const STEP: usize = 512;
    let mut values = [0; STEP];
    let mut sum = 0.0;
    for ((q, hi), lo) in q.chunks(STEP).zip(hi.chunks(STEP)).zip(lo.chunks(STEP / 2)) {
        let values = &mut values[..q.len()];
        unpack_i12(hi, lo, values);
        sum += dot_f32_i16(q, values);
    }
    sum
}

fn dot_f32_i16(q: &[f32], values: &[i16]) -> f32 {
    let (q_chunks, q_rest) = q.as_chunks::<LANES>();
    let (value_chunks, value_rest) = values.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (q, value) in q_chunks.iter().zip(value_chunks) {
        for lane in 0..LANES {
            sums[lane] += q[lane] * f32::from(value[lane]);
        }
    }
    for (lane, (q, &value)) in q_rest.iter().zip(value_rest).enumerate() {
        sums[lane] += q * f32::from(value);
    }
    sums.iter().sum()
}

pub(crate) fn pack_i12(v: &[i16], hi: &mut [i8], lo: &mut [u8]) {
    for ((pair, hi), lo) in v.chunks(2).zip(hi.chunks_mut(2)).zip(lo) {
        *lo = 0;
        for (place, (v, hi)) in pair.iter().zip(hi).enumerate() {
            let biased = v.clamp(&I12_MIN, &I12_MAX) + NIBBLE_BIAS;
            // An arithmetic shift rounds down. Because of the bias this is rounding to nearest.
            *hi = (biased >> 4) as i8;
            *lo |= ((biased & 15) as u8) << (4 * place);
        }
    }
}

pub(crate) fn unpack_i12(hi: &[i8], lo: &[u8], out: &mut [i16]) {
    let (hi_pairs, hi_rest) = hi.as_chunks::<2>();
    let (out_pairs, out_rest) = out.as_chunks_mut::<2>();
    for ((hi, out), &lo) in hi_pairs.iter().zip(out_pairs).zip(lo) {
        out[0] = i16::from(hi[0]) * 16 + i16::from(lo & 15) - NIBBLE_BIAS;
        out[1] = i16::from(hi[1]) * 16 + i16::from(lo >> 4) - NIBBLE_BIAS;
    }
    if let ([hi], [out], Some(&lo)) = (hi_rest, out_rest, lo.last()) {
        *out = i16::from(*hi) * 16 + i16::from(lo & 15) - NIBBLE_BIAS;
    }
}
