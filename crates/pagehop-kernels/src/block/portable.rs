//! Block inner products in plain Rust, one pair at a time.

use crate::dot::portable::dot_i8;

/// Rows of `b` that are compared with all rows of `a` while they stay in the first-level cache.
const ROWS: usize = 16;

pub(crate) fn dot_i8_block(a: &[i8], b: &[i8], dim: usize, out: &mut [i32]) {
    let n = b.len() / dim;
    for (first, b_rows) in (0..n).step_by(ROWS).zip(b.chunks(ROWS * dim)) {
        for (a_row, out_row) in a.chunks_exact(dim).zip(out.chunks_exact_mut(n)) {
            for (b_row, out) in b_rows.chunks_exact(dim).zip(&mut out_row[first..]) {
                *out = dot_i8(a_row, b_row);
            }
        }
    }
}
