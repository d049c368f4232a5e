//! Refines the graph: searches for a row in the graph that there is, and adds the nodes it finds to
//! the candidates for the row's edges.
//!
//! This is the second pass of DiskANN, made cheap by edge codes. A hop copies the codes of its
//! neighbors together and scores them as the finished index will, so the candidates are the nodes
//! that a query for this row would find.

use super::edge_table::{EdgeTable, TableRow};
use super::list::CandidateList;
use super::{Adjacency, keys_of};
use crate::quantize::centroids::Centroids;
use crate::quantize::codes::Codes;
use crate::quantize::edge::{self, BLOCK_EDGES, EdgeHead};
use crate::quantize::estimate::{DEGREE_MAX, EdgeCodes, Estimator};

/// One thread's search over a graph in memory.
pub(crate) struct Walker<'a> {
    pub(crate) table: &'a EdgeTable,
    pub(crate) centroids: &'a Centroids,
    pub(crate) codes: &'a Codes,
    estimator: Estimator,
    list: CandidateList,
    /// Direct-mapped cache of scored rows; a later row may overwrite an earlier one. Two of three
    /// neighbors of a node were scored before.
    scored: Box<[u32; SCORED]>,
    /// Neighbors of the current node that were not scored yet.
    fresh: Vec<u32>,
    gathered: Vec<u8>,
}

/// Places of [`Walker::scored`]. A walk with a list of 200 scores two to three thousand rows.
const SCORED: usize = 1 << SCORED_BITS;
const SCORED_BITS: u32 = 13;

/// Where [`Walker::scored`] has a row (Fibonacci hashing, Knuth 1973).
#[inline]
fn scored_place(row: u32) -> usize {
    (row.wrapping_mul(0x9e37_79b9) >> (u32::BITS - SCORED_BITS)) as usize
}

impl<'a> Walker<'a> {
    pub(crate) fn new(table: &'a EdgeTable, centroids: &'a Centroids, codes: &'a Codes) -> Self {
        Self {
            table,
            centroids,
            codes,
            estimator: Estimator::default(),
            list: CandidateList::default(),
            scored: vec![u32::MAX; SCORED].try_into().expect("as many places"),
            fresh: Vec::new(),
            gathered: Vec::new(),
        }
    }

    /// Candidates for the edges of `row`: its neighbors, and the nodes that a search for it, from
    /// `entries`, kept in a list of length `list`. Returns sorted keys.
    pub(crate) fn candidates(&mut self, graph: &Adjacency, row: usize, entries: &[u32], list: usize) -> Vec<u64> {
        let mut query = vec![0.0; self.codes.dim];
        self.codes.decode_hi(row, &mut query);
        self.walk(graph, &query, entries, list);
        let found = self.list.all().map(|(_, id)| id).filter(|id| *id as usize != row);
        let mut found: Vec<u32> = found.chain(graph.neighbors(row).iter().copied()).collect();
        found.sort_unstable();
        found.dedup();
        keys_of(self.codes, row, &found)
    }

    fn walk(&mut self, graph: &Adjacency, query: &[f32], entries: &[u32], list: usize) {
        self.estimator.prepare(self.table.shape, self.table.query_digits, query, self.codes.filled_sq);
        self.list.reset(list);
        self.scored.fill(u32::MAX);
        self.score(entries);
        while let Some((_, row)) = self.list.expand() {
            self.look_ahead(graph);
            self.score(graph.neighbors(row as usize));
        }
    }

    /// Prefetches for the next two hops: the best other candidate is probably expanded next.
    fn look_ahead(&self, graph: &Adjacency) {
        let mut open = self.list.open();
        if let Some((_, next)) = open.next() {
            let neighbors = graph.neighbors(next as usize).iter();
            let is_fresh = |row: &&u32| self.scored[scored_place(**row)] != **row;
            neighbors.filter(is_fresh).for_each(|row| self.table.prefetch(*row));
        }
        if let Some((_, later)) = open.next() {
            graph.prefetch(later as usize);
        }
    }

    /// Estimates the distance to those of `rows` that were not scored yet, and inserts them into
    /// the list. The others need no second score: they are in the list, or worse than its last.
    fn score(&mut self, rows: &[u32]) {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.clear();
        for row in rows {
            let last = &mut self.scored[scored_place(*row)];
            if *last != *row {
                *last = *row;
                self.table.prefetch(*row);
                fresh.push(*row);
            }
        }
        self.score_fresh(&fresh);
        self.fresh = fresh;
    }

    fn score_fresh(&mut self, rows: &[u32]) {
        for rows in rows.chunks(DEGREE_MAX) {
            let table = self.table;
            let slots = rows.len().next_multiple_of(BLOCK_EDGES);
            self.gathered.resize(slots * table.shape.code_bytes(), 0);
            let mut heads = [EdgeHead::default(); DEGREE_MAX];
            let mut centroids = [[0]; DEGREE_MAX];
            for (slot, row) in rows.iter().enumerate() {
                let TableRow { factors, centroid, code } = table.row(*row as usize);
                edge::interleave(table.shape, code, slot, slots, &mut self.gathered);
                heads[slot] = factors.head(*row);
                centroids[slot] = [centroid];
            }
            let edges = EdgeCodes { codes: &self.gathered, heads: &heads, centroids: &centroids[..slots] };
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
