//! Edge scoring in plain Rust.

use super::{Prepared, SCAN_EDGES, SCAN_PLANES};

pub(crate) fn prepare(planes: &[u64], prepared: &mut Prepared) {
    let words = planes.len() / SCAN_PLANES;
    prepared.planes.clear();
    prepared.planes.extend((0..words).map(|word| std::array::from_fn(|plane| planes[plane * words + word])));
}

pub(crate) fn count_differing(query: &Prepared, rows: &[[u8; 64]], out: &mut [[u32; SCAN_EDGES]]) {
    for (rows, out) in rows.chunks_exact(query.planes.len()).zip(out) {
        *out = [0; SCAN_EDGES];
        for (row, planes) in rows.iter().zip(&query.planes) {
            for (word, out) in row.as_chunks::<8>().0.iter().zip(&mut *out) {
                for (plane, plane_word) in planes.iter().enumerate() {
                    *out += (u64::from_le_bytes(*word) ^ plane_word).count_ones() << plane;
                }
            }
        }
    }
}
