//! Edge scoring in plain Rust.

use super::{SCAN_EDGES, SCAN_PLANES};

pub(crate) fn scan_bits(planes: &[u64], codes: &[u8], words: usize, out: &mut [[u32; SCAN_EDGES]]) {
    let (code_words, _) = codes.as_chunks::<8>();
    let (rows, _) = code_words.as_chunks::<SCAN_EDGES>();
    for (block, out) in rows.chunks_exact(words).zip(out) {
        *out = [0; SCAN_EDGES];
        for plane in 0..SCAN_PLANES {
            let words = &planes[plane * words..][..words];
            for (row, plane_word) in block.iter().zip(words) {
                for (code_word, out) in row.iter().zip(&mut *out) {
                    *out += (u64::from_le_bytes(*code_word) ^ plane_word).count_ones() << plane;
                }
            }
        }
    }
}
