//! Block inner products with VNNI.
//!
//! As in any matrix product, a tile of the answer stays in registers while the inputs stream
//! through:
//!
//! ```text
//! for 48 rows of b:                       pack: four dimensions of 16 rows in a register
//!     for 8 rows of a:                    24 registers of sums
//!         for every four dimensions:      3 loads of b, 8 broadcasts of a, 24 vpdpbusd
//! ```
//!
//! A lane sums the products of one pair of rows from the first dimension to the last, so no sum
//! across lanes is needed. `vpdpbusd` multiplies unsigned by signed bytes, so packing adds 128 to
//! `b`, and the sums of a row of `a` start at minus 128 times the sum of that row.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::dispatch::on_token;
use crate::lanes::avx512::{broadcast_i8x4, load_i8x64, load_part_i8x64, store_part_i32x16};
use crate::lanes::rows_repeating_last;

on_token! { Avx512:
    fn dot_i8_block(a: &[i8], b: &[i8], dim: usize, out: &mut [i32]);
}

/// Rows of `a` in a tile.
const TILE_ROWS: usize = 8;
/// Registers of columns in a tile. With eight rows, 24 sums, three columns and a broadcast fill 28
/// of 32 registers.
const TILE_WIDTH: usize = 3;
/// Columns of the answer, which are rows of `b`, in a register.
const LANES: usize = 16;
/// Dimensions that one lane multiplies at a time.
const GROUP: usize = 4;

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dot_i8_block(a: &[i8], b: &[i8], dim: usize, out: &mut [i32]) {
    let starts = starts(a, dim);
    let mut panel = vec![_mm512_setzero_si512(); dim.div_ceil(GROUP) * TILE_WIDTH];
    let columns = b.len() / dim;
    for (first, b) in b.chunks(TILE_WIDTH * LANES * dim).enumerate() {
        let job = Job { a, starts: &starts, b, dim, first: first * TILE_WIDTH * LANES, columns };
        match (b.len() / dim).div_ceil(LANES) {
            1 => job.run::<1>(&mut panel, out),
            2 => job.run::<2>(&mut panel, out),
            _ => job.run::<TILE_WIDTH>(&mut panel, out),
        }
    }
}

/// All rows of `a` times the rows of `b` in one panel.
struct Job<'a> {
    a: &'a [i8],
    /// Initial value of the sums of each row of `a`.
    starts: &'a [i32],
    b: &'a [i8],
    dim: usize,
    /// The column of the answer for the first row of `b`.
    first: usize,
    /// Columns of the whole answer.
    columns: usize,
}

impl Job<'_> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn run<const WIDTH: usize>(&self, panel: &mut [__m512i], out: &mut [i32]) {
        let (panel, _) = panel.as_chunks_mut::<WIDTH>();
        let panel = &mut panel[..self.dim.div_ceil(GROUP)];
        for (part, b) in self.b.chunks(LANES * self.dim).enumerate() {
            pack(b, self.dim, panel, part);
        }
        let here = self.b.len() / self.dim;
        let tiles = self.a.chunks(TILE_ROWS * self.dim).zip(self.starts.chunks(TILE_ROWS));
        for ((a, starts), out) in tiles.zip(out.chunks_mut(TILE_ROWS * self.columns)) {
            let sums = tile(a, starts, self.dim, panel);
            for (sums, out) in sums.iter().zip(out.chunks_exact_mut(self.columns)) {
                for (sum, out) in sums.iter().zip(out[self.first..][..here].chunks_mut(LANES)) {
                    store_part_i32x16(out, *sum);
                }
            }
        }
    }
}

/// The inner products of up to eight rows of `a` with a panel. If `a` has fewer rows, its last row
/// is repeated.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn tile<const WIDTH: usize>(
    a: &[i8],
    starts: &[i32],
    dim: usize,
    panel: &[[__m512i; WIDTH]],
) -> [[__m512i; WIDTH]; TILE_ROWS] {
    let last = starts.len() - 1;
    let (whole, partial) = panel.split_at(dim / GROUP);
    let rows: [&[i8]; TILE_ROWS] = rows_repeating_last(a, dim, a.len() / dim);
    let groups = groups(rows, whole.len());
    let mut sums: [[__m512i; WIDTH]; TILE_ROWS] = [[_mm512_setzero_si512(); WIDTH]; TILE_ROWS];
    for (i, sums) in sums.iter_mut().enumerate() {
        sums.fill(_mm512_set1_epi32(starts[i.min(last)]));
    }
    for (group, columns) in whole.iter().enumerate() {
        for i in 0..TILE_ROWS {
            let a = broadcast_i8x4(&groups[i][group]);
            for w in 0..WIDTH {
                sums[i][w] = _mm512_dpbusd_epi32(sums[i][w], columns[w], a);
            }
        }
    }
    for columns in partial {
        for (i, sums) in sums.iter_mut().enumerate() {
            let mut group = [0; GROUP];
            let rest = rows[i].as_chunks::<GROUP>().1;
            group[..rest.len()].copy_from_slice(rest);
            let a = broadcast_i8x4(&group);
            for (sum, columns) in sums.iter_mut().zip(columns) {
                *sum = _mm512_dpbusd_epi32(*sum, *columns, a);
            }
        }
    }
    sums
}

/// Initial values of the sums: they cancel what the offset of `b` adds.
fn starts(a: &[i8], dim: usize) -> Vec<i32> {
    a.chunks_exact(dim).map(|row| -128 * row.iter().map(|&x| i32::from(x)).sum::<i32>()).collect()
}

/// The first `count` groups of every row.
#[inline]
fn groups(rows: [&[i8]; TILE_ROWS], count: usize) -> [&[[i8; GROUP]]; TILE_ROWS] {
    rows.map(|row| &row.as_chunks().0[..count])
}

/// Packs up to 16 rows into register `part` of each entry of `panel`. One entry holds four
/// dimensions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pack<const WIDTH: usize>(b: &[i8], dim: usize, panel: &mut [[__m512i; WIDTH]], part: usize) {
    let offset = _mm512_set1_epi8(-128);
    for (first, entries) in (0..dim).step_by(64).zip(panel.chunks_mut(64 / GROUP)) {
        let mut rows = [offset; LANES];
        for (row, b) in rows.iter_mut().zip(b.chunks_exact(dim)) {
            let bytes = match b[first..].first_chunk() {
                Some(whole) => load_i8x64(whole),
                None => load_part_i8x64(&b[first..]),
            };
            *row = _mm512_xor_si512(bytes, offset);
        }
        for (entry, column) in entries.iter_mut().zip(transpose_u32x16(rows)) {
            entry[part] = column;
        }
    }
}

/// Transposes 16 rows of 16 lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_u32x16(rows: [__m512i; 16]) -> [__m512i; 16] {
    let mut out = rows;
    // First, within each quarter of a register, transpose four rows by four lanes. Quarter `q` of
    // register `4 * g + c` then has lane `4 * q + c` of rows `4 * g..4 * g + 4`.
    for quad in out.as_chunks_mut::<4>().0 {
        let [a, b, c, d] = *quad;
        let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        *quad = [
            _mm512_unpacklo_epi64(ab_low, cd_low),
            _mm512_unpackhi_epi64(ab_low, cd_low),
            _mm512_unpacklo_epi64(ab_high, cd_high),
            _mm512_unpackhi_epi64(ab_high, cd_high),
        ];
    }
    // Then exchange quarters between four registers: 0x88 takes the even quarters and 0xdd the odd
    // ones, twice.
    for c in 0..4 {
        let [g0, g1, g2, g3] = [out[c], out[4 + c], out[8 + c], out[12 + c]];
        let (even_01, odd_01) = (_mm512_shuffle_i32x4::<0x88>(g0, g1), _mm512_shuffle_i32x4::<0xdd>(g0, g1));
        let (even_23, odd_23) = (_mm512_shuffle_i32x4::<0x88>(g2, g3), _mm512_shuffle_i32x4::<0xdd>(g2, g3));
        out[c] = _mm512_shuffle_i32x4::<0x88>(even_01, even_23);
        out[4 + c] = _mm512_shuffle_i32x4::<0x88>(odd_01, odd_23);
        out[8 + c] = _mm512_shuffle_i32x4::<0xdd>(even_01, even_23);
        out[12 + c] = _mm512_shuffle_i32x4::<0xdd>(odd_01, odd_23);
    }
    out
}
