//! Row codes: a finer code of every row in memory, for a search whose pages are on storage.
//!
//! An edge code has one or two bits a dimension, because every in-neighbor of a row stores a copy.
//! A code of twice as many bits for each row, once, fits in a memory that is much smaller than the
//! index: 106 bytes a row in 384 dimensions, where a row takes 2,750 on its page. It decides which
//! candidate is worth the read of a page, as product codes in memory do in DiskANN (Subramanya et
//! al. 2019). `docs/decisions/0037-row-codes.md` has the numbers.

use super::edge::{EdgeFactors, EdgeShape};
use crate::Error;

/// Most bits per dimension of a code.
const BITS_MAX: usize = 4;
/// The generation of a node without a code: no slot has it.
const NO_GENERATION: u8 = 0xFF;

/// Codes of the nodes of an index, by node.
#[derive(Debug)]
pub(crate) struct RowCodes {
    shape: EdgeShape,
    /// For each node the factors of its code in one word, and the code.
    records: Vec<u64>,
    /// For each node its centroid and its generation.
    origins: Vec<[u8; 2]>,
}

/// The codes of successive nodes, to be set.
pub(crate) struct RowCodesMut<'c> {
    shape: EdgeShape,
    first: u32,
    records: &'c mut [u64],
    origins: &'c mut [[u8; 2]],
}

/// A code, and what belongs to it.
pub(crate) struct RowCode<'c> {
    pub(crate) factors: EdgeFactors,
    pub(crate) centroid: u8,
    pub(crate) code: &'c [u64],
}

/// Words of a node's record.
fn record_words(shape: EdgeShape) -> usize {
    1 + shape.words()
}

impl RowCodes {
    /// Room for the codes of `nodes` nodes, beside edge codes of this shape.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give it.
    pub(crate) fn new(edge: EdgeShape, nodes: usize) -> Result<Self, Error> {
        let shape = EdgeShape { bits: (2 * edge.bits).min(BITS_MAX), ..edge };
        let (mut records, mut origins) = (Vec::new(), Vec::new());
        let words = nodes.saturating_mul(record_words(shape));
        if records.try_reserve_exact(words).is_err() || origins.try_reserve_exact(nodes).is_err() {
            let needed_bytes = (words.saturating_mul(8) + 2 * nodes) as u64;
            let mib = needed_bytes.div_ceil(1 << 20);
            let what = format!(
                "the system refused {mib} MiB of memory for row codes; search without them, or free memory"
            );
            return Err(Error::Memory { what, needed_bytes });
        }
        records.resize(words, 0);
        origins.resize(nodes, [0, NO_GENERATION]);
        Ok(Self { shape, records, origins })
    }

    /// The shape of the codes.
    pub(crate) fn shape(&self) -> EdgeShape {
        self.shape
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.records) + size_of_val(&*self.origins)
    }

    /// Splits the codes into those of the nodes from each of `firsts` on, which ascend.
    pub(crate) fn split(&mut self, firsts: &[u32]) -> Vec<RowCodesMut<'_>> {
        let (shape, words) = (self.shape, record_words(self.shape));
        let (mut records, mut origins) = (&mut *self.records, &mut *self.origins);
        let mut parts = Vec::with_capacity(firsts.len());
        for first in firsts.iter().rev() {
            let at = (*first as usize).min(origins.len());
            let (before, of_part) = std::mem::take(&mut records).split_at_mut(at * words);
            let (origins_before, origins_of_part) = std::mem::take(&mut origins).split_at_mut(at);
            (records, origins) = (before, origins_before);
            parts.push(RowCodesMut { shape, first: *first, records: of_part, origins: origins_of_part });
        }
        parts.reverse();
        parts
    }

    /// The code of a node, if its slot had this generation.
    #[inline]
    pub(crate) fn get(&self, node: u32, generation: u8) -> Option<RowCode<'_>> {
        let [centroid, known] = *self.origins.get(node as usize)?;
        if known != generation {
            return None;
        }
        let ([factors], code) = self.record(node)?.split_first_chunk()?;
        let (add, factor) = (f32::from_bits(*factors as u32), f32::from_bits((factors >> 32) as u32));
        Some(RowCode { factors: EdgeFactors { add, factor }, centroid, code })
    }

    /// Prefetches the code of a node.
    #[inline]
    pub(crate) fn prefetch(&self, node: u32) {
        if let (Some(record), Some(origin)) = (self.record(node), self.origins.get(node as usize)) {
            pagehop_kernels::prefetch(record);
            pagehop_kernels::prefetch(origin);
        }
    }

    #[inline]
    fn record(&self, node: u32) -> Option<&[u64]> {
        let words = record_words(self.shape);
        self.records.get(node as usize * words..(node as usize + 1) * words)
    }
}

impl RowCodesMut<'_> {
    /// Sets the code of a node of the part, which `encode` writes.
    pub(crate) fn set(
        &mut self,
        node: u32,
        (centroid, generation): (u8, u8),
        encode: impl FnOnce(EdgeShape, &mut [u64]) -> EdgeFactors,
    ) {
        let (at, words) = ((node - self.first) as usize, record_words(self.shape));
        let (factors, code) = self.records[at * words..][..words].split_at_mut(1);
        let EdgeFactors { add, factor } = encode(self.shape, code);
        factors[0] = u64::from(factor.to_bits()) << 32 | u64::from(add.to_bits());
        self.origins[at] = [centroid, generation];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_in_parts_is_found_by_node_and_generation() {
        let mut codes = RowCodes::new(EdgeShape { dims: 100, bits: 1 }, 10).expect("a little memory");
        assert_eq!((codes.shape().bits, codes.bytes()), (2, 10 * (5 * 8 + 2)));
        for (part, nodes) in codes.split(&[2, 7, 7]).iter_mut().zip([2..7, 7..7, 7..10]) {
            for node in nodes.filter(|node| node % 2 == 0) {
                part.set(node, (node as u8, 3), |shape, code| {
                    code.fill(u64::from(node) * shape.bits as u64);
                    EdgeFactors { add: node as f32, factor: -0.5 }
                });
            }
        }
        for node in 0..12 {
            let found = codes.get(node, 3).map(|found| (found.centroid, found.factors.add, found.code.to_vec()));
            let is_set = (2..10).contains(&node) && node % 2 == 0;
            assert_eq!(found, is_set.then(|| (node as u8, node as f32, vec![u64::from(node) * 2; 4])));
            assert!(codes.get(node, 4).is_none() && codes.get(node, 0).is_none());
        }
        assert!(matches!(RowCodes::new(EdgeShape { dims: 64, bits: 4 }, 1 << 50), Err(Error::Memory { .. })));
    }
}
