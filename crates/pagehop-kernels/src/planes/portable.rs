//! Bit planes in plain Rust.

pub(crate) fn max_abs(x: &[f32]) -> f32 {
    x.iter().fold(0.0f32, |most, x| most.max(x.abs()))
}

pub(crate) fn level_planes(x: &[f32], per_unit: f32, bits: usize, planes: &mut [u64]) {
    let words = planes.len() / bits;
    let middle = (1 << (bits - 1)) as f32;
    let largest = (1 << bits) - 1;
    let mut levels = [0u8; 64];
    for (word, chunk) in x.chunks(64).enumerate() {
        for (level, x) in levels.iter_mut().zip(chunk) {
            *level = ((x * per_unit + middle) as i32).clamp(0, largest) as u8;
        }
        levels[chunk.len()..].fill(0);
        for plane in 0..bits {
            planes[plane * words + word] = bit_plane(&levels, plane);
        }
    }
}

/// Bit `plane` of each of 64 levels; the first level gives the lowest bit. Eight levels are done at
/// a time: a multiplication gathers one bit of each byte in the top byte.
fn bit_plane(levels: &[u8; 64], plane: usize) -> u64 {
    let mut bits = 0;
    for (i, eight) in levels.as_chunks::<8>().0.iter().enumerate() {
        let spread = u64::from_le_bytes(*eight) >> plane & 0x0101_0101_0101_0101;
        bits |= (spread.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
    }
    bits
}
