//! Refines the graph: searches for every row in the graph of leaf neighbors, and adds the nodes it
//! finds to the candidates for the row's edges.
//!
//! This is the second pass of DiskANN, made cheap by edge codes. A hop copies the codes of its
//! neighbors together and scores them as the finished index will, so the candidates are the nodes
//! that a query for this row would find.

use super::list::CandidateList;
use super::{Graph, key};
use crate::quantize::centroids::Centroids;
use crate::quantize::codes::Codes;
use crate::quantize::edge::{self, BLOCK_EDGES, EdgeFactors, EdgeShape};
use pagehop_kernels as kernels;

use crate::quantize::estimate::{DEGREE_MAX, EdgeCodes, Estimator};

/// Edge codes of every row. Pages will have a copy in every node that points to the row.
#[derive(Debug)]
pub(crate) struct EdgeTable {
    pub(crate) shape: EdgeShape,
    pub(crate) words: Vec<u64>,
    pub(crate) factors: Vec<EdgeFactors>,
    pub(crate) centroid: Vec<u8>,
    /// Digits to which queries are quantized: 1 or 2.
    pub(crate) query_digits: usize,
}

impl EdgeTable {
    /// The code of one row.
    pub(crate) fn code(&self, row: usize) -> &[u64] {
        let words = self.shape.words();
        &self.words[row * words..][..words]
    }

    /// A copy of the codes of some rows, in this order.
    pub(crate) fn gather(&self, rows: &[u32]) -> Self {
        let mut words = Vec::with_capacity(rows.len() * self.shape.words());
        rows.iter().for_each(|row| words.extend_from_slice(self.code(*row as usize)));
        let factors = rows.iter().map(|row| self.factors[*row as usize]).collect();
        let centroid = rows.iter().map(|row| self.centroid[*row as usize]).collect();
        Self { shape: self.shape, words, factors, centroid, query_digits: self.query_digits }
    }

    /// Prefetches what scoring `rows` will read: their codes are spread over memory.
    fn prefetch(&self, rows: &[u32]) {
        for row in rows {
            let row = *row as usize;
            kernels::prefetch(self.code(row));
            kernels::prefetch(&self.factors[row..=row]);
            kernels::prefetch(&self.centroid[row..=row]);
        }
    }
}

/// One thread's search over a graph in memory.
pub(crate) struct Walker<'a> {
    pub(crate) table: &'a EdgeTable,
    pub(crate) centroids: &'a Centroids,
    pub(crate) codes: &'a Codes,
    estimator: Estimator,
    list: CandidateList,
    gathered: Vec<u8>,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(table: &'a EdgeTable, centroids: &'a Centroids, codes: &'a Codes) -> Self {
        Self {
            table,
            centroids,
            codes,
            estimator: Estimator::default(),
            list: CandidateList::default(),
            gathered: Vec::new(),
        }
    }

    /// Candidates for the edges of `row`: the nodes that a search for it, from `entries`, kept in a
    /// list of length `list`. Returns sorted keys.
    pub(crate) fn candidates(&mut self, graph: &Graph, row: usize, entries: &[u32], list: usize) -> Vec<u64> {
        let mut query = vec![0.0; self.codes.dim];
        self.codes.decode_hi(row, &mut query);
        self.walk(graph, &query, entries, list);
        let found = self.list.all().map(|(_, id)| id).filter(|id| *id as usize != row);
        let mut keys: Vec<u64> = found.map(|id| key(self.codes.hi_distance(row, id as usize), id)).collect();
        keys.sort_unstable();
        keys
    }

    fn walk(&mut self, graph: &Graph, query: &[f32], entries: &[u32], list: usize) {
        self.estimator.prepare(self.table.shape, self.table.query_digits, query, self.codes.filled_sq);
        self.list.reset(list);
        self.score(entries);
        while let Some((_, row)) = self.list.expand() {
            // The best other candidate is probably expanded next.
            if let Some((_, next)) = self.list.open().next() {
                self.table.prefetch(graph.neighbors(next as usize));
            }
            self.score(graph.neighbors(row as usize));
        }
    }

    /// Estimates the distance to each of `rows` and inserts them into the list.
    fn score(&mut self, rows: &[u32]) {
        for rows in rows.chunks(DEGREE_MAX) {
            let table = self.table;
            let slots = rows.len().next_multiple_of(BLOCK_EDGES);
            self.gathered.resize(slots * table.shape.code_bytes(), 0);
            let (mut add, mut factor) = ([[0; 4]; DEGREE_MAX], [[0; 4]; DEGREE_MAX]);
            let mut centroid = [0; DEGREE_MAX];
            for (slot, row) in rows.iter().enumerate() {
                let row = *row as usize;
                edge::interleave(table.shape, table.code(row), slot, slots, &mut self.gathered);
                add[slot] = table.factors[row].add.to_le_bytes();
                factor[slot] = table.factors[row].factor.to_le_bytes();
                centroid[slot] = table.centroid[row];
            }
            let edges =
                EdgeCodes { codes: &self.gathered, add: &add, factor: &factor, centroid: &centroid[..slots] };
            let mut estimates = [0.0; DEGREE_MAX];
            let estimates = &mut estimates[..rows.len()];
            let scored = self.estimator.score(self.centroids, edges, estimates);
            scored.expect("centroids of the table exist");
            let bound = self.list.bound();
            for (estimate, row) in estimates.iter().zip(rows) {
                if *estimate < bound {
                    self.list.insert(*estimate, *row);
                }
            }
        }
    }
}
