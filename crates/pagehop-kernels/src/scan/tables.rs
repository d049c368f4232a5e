//! Tables of a query for instruction sets without an instruction that counts bits: the weighted
//! Hamming distance of any four bits of a code from the same bits of the query.

use super::{SCAN_PLANES, Table, WordTables};

/// Number of bits in which two nibbles differ.
const DIFFERING: [Table; 16] = {
    let mut tables = [[0; 16]; 16];
    let mut at = 0;
    while at < 256 {
        tables[at / 16][at % 16] = ((at / 16) ^ (at % 16)).count_ones() as u8;
        at += 1;
    }
    tables
};

/// Makes the tables of the planes, which follow one another. Always inlined, so that it is compiled
/// for the instruction set of its caller.
#[inline(always)]
pub(crate) fn make(planes: &[u64], tables: &mut Vec<WordTables>) {
    let words = planes.len() / SCAN_PLANES;
    tables.resize(words, WordTables::default());
    for (word, tables) in tables.iter_mut().enumerate() {
        let of_plane = |plane: usize| planes[plane * words + word];
        let mut planes = [of_plane(3), of_plane(2), of_plane(1), of_plane(0)];
        for table in tables.as_flattened_mut() {
            let mut sums = [0; 16];
            for plane in &mut planes {
                let differing = &DIFFERING[(*plane & 15) as usize];
                for (sum, differing) in sums.iter_mut().zip(differing) {
                    *sum = 2 * *sum + differing;
                }
                *plane >>= 4;
            }
            *table = sums;
        }
    }
}
