//! Block inner products without VNNI. Both sides are widened to 16 bits, and one 32-bit lane
//! multiplies two dimensions.
//!
//! As in any matrix product, a tile of the answer stays in registers while the inputs stream
//! through:
//!
//! ```text
//! for 256 rows of a:                      widen
//!     for 16 rows of b:                   pack: two dimensions of 8 rows in a register
//!         for 4 rows of a:                8 registers of sums
//!             for every two dimensions:   2 loads of b, 4 broadcasts of a, 8 vpmaddwd and vpaddd
//! ```
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::dispatch::on_token;
use crate::lanes::avx2::{broadcast_i16x2, load_i8x16, store_i32x8, widen_part_i8x16};
use crate::lanes::rows_repeating_last;

on_token! { Avx2:
    fn dot_i8_block(a: &[i8], b: &[i8], dim: usize, out: &mut [i32]);
}

/// Rows of `a` that are widened at a time: enough to pay for packing `b`, and few enough for the
/// second-level cache.
const WIDE_ROWS: usize = 256;
/// Rows of `a` in a tile.
const TILE_ROWS: usize = 4;
/// Registers of columns in a tile, each of `LANES` columns.
const TILE_WIDTH: usize = 2;
/// Columns of the answer, which are rows of `b`, in a register.
const LANES: usize = 8;

#[target_feature(enable = "avx2")]
fn dot_i8_block(a: &[i8], b: &[i8], dim: usize, out: &mut [i32]) {
    let pairs = dim.div_ceil(2);
    let columns = b.len() / dim;
    let mut panel = vec![[_mm256_setzero_si256(); TILE_WIDTH]; pairs];
    let mut wide = vec![[0i16; 2]; WIDE_ROWS.min(a.len() / dim) * pairs];
    for (a, out) in a.chunks(WIDE_ROWS * dim).zip(out.chunks_mut(WIDE_ROWS * columns)) {
        for (row, wide) in a.chunks_exact(dim).zip(wide.chunks_exact_mut(pairs)) {
            for (wide, &x) in wide.as_flattened_mut().iter_mut().zip(row) {
                *wide = i16::from(x);
            }
        }
        let wide = &wide[..a.len() / dim * pairs];
        for (first, b) in (0..columns).step_by(TILE_WIDTH * LANES).zip(b.chunks(TILE_WIDTH * LANES * dim)) {
            for (part, b) in b.chunks(LANES * dim).enumerate() {
                pack(b, dim, &mut panel, part);
            }
            let here = b.len() / dim;
            for (a, out) in wide.chunks(TILE_ROWS * pairs).zip(out.chunks_mut(TILE_ROWS * columns)) {
                let sums = tile(a, &panel);
                for (sums, out) in sums.iter().zip(out.chunks_exact_mut(columns)) {
                    store(sums, &mut out[first..][..here]);
                }
            }
        }
    }
}

/// The inner products of up to four widened rows with a panel. If `a` has fewer rows, its last row
/// is repeated.
#[inline]
#[target_feature(enable = "avx2")]
fn tile(a: &[[i16; 2]], panel: &[[__m256i; TILE_WIDTH]]) -> [[__m256i; TILE_WIDTH]; TILE_ROWS] {
    let rows: [&[[i16; 2]]; TILE_ROWS] = rows_repeating_last(a, panel.len(), a.len() / panel.len());
    let mut sums = [[_mm256_setzero_si256(); TILE_WIDTH]; TILE_ROWS];
    for (pair, columns) in panel.iter().enumerate() {
        for i in 0..TILE_ROWS {
            let a = broadcast_i16x2(&rows[i][pair]);
            for w in 0..TILE_WIDTH {
                sums[i][w] = _mm256_add_epi32(sums[i][w], _mm256_madd_epi16(columns[w], a));
            }
        }
    }
    sums
}

/// Writes one row of a tile, without the columns after the end of `out`.
#[inline]
#[target_feature(enable = "avx2")]
fn store(sums: &[__m256i; TILE_WIDTH], out: &mut [i32]) {
    for (sum, out) in sums.iter().zip(out.chunks_mut(LANES)) {
        match out.first_chunk_mut() {
            Some(whole) => store_i32x8(whole, *sum),
            None => {
                let mut lanes = [0; LANES];
                store_i32x8(&mut lanes, *sum);
                out.copy_from_slice(&lanes[..out.len()]);
            }
        }
    }
}

/// Widens up to eight rows and packs them into register `part` of each entry of `panel`. One entry
/// holds two dimensions.
#[inline]
#[target_feature(enable = "avx2")]
fn pack(b: &[i8], dim: usize, panel: &mut [[__m256i; TILE_WIDTH]], part: usize) {
    for (first, entries) in (0..dim).step_by(16).zip(panel.chunks_mut(LANES)) {
        let mut rows = [_mm256_setzero_si256(); LANES];
        for (row, b) in rows.iter_mut().zip(b.chunks_exact(dim)) {
            *row = match b[first..].first_chunk() {
                Some(whole) => _mm256_cvtepi8_epi16(load_i8x16(whole)),
                None => widen_part_i8x16(&b[first..]),
            };
        }
        for (entry, column) in entries.iter_mut().zip(transpose_u32x8(rows)) {
            entry[part] = column;
        }
    }
}

/// Transposes eight rows of eight lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_u32x8(rows: [__m256i; 8]) -> [__m256i; 8] {
    let mut out = rows;
    // First, within each half of a register, transpose four rows by four lanes. Half `h` of
    // register `4 * g + c` then has lane `4 * h + c` of rows `4 * g..4 * g + 4`.
    for quad in out.as_chunks_mut::<4>().0 {
        let [a, b, c, d] = *quad;
        let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
        *quad = [
            _mm256_unpacklo_epi64(ab_low, cd_low),
            _mm256_unpackhi_epi64(ab_low, cd_low),
            _mm256_unpacklo_epi64(ab_high, cd_high),
            _mm256_unpackhi_epi64(ab_high, cd_high),
        ];
    }
    // Then exchange halves between registers.
    for c in 0..4 {
        let (front, back) = (out[c], out[4 + c]);
        out[c] = _mm256_permute2x128_si256::<0x20>(front, back);
        out[4 + c] = _mm256_permute2x128_si256::<0x31>(front, back);
    }
    out
}
