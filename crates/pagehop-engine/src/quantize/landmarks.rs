//! Landmarks: rows that every search knows without reading a page, one in 4 to one in 32.
//!
//! A search begins at the landmarks nearest to its query, so it begins in the right region of the
//! graph, however large the graph is. A landmark has the content of an edge to the row: its node
//! and its edge code. Landmarks are stored on pages of their own and held in memory, in lists by
//! centroid. A search scores the lists of the nearest centroids, as an inverted file does (Jegou et
//! al. 2011).
//!
//! A landmark is a hint, like an edge. A build chooses landmarks, and insertions add to them
//! (`index/change/graph/landmarks.rs`). Deletions leave them as they are: the row of a landmark may
//! be gone, and its slot may hold another row. A search that is misled finds its way from the entry
//! point, which changes keep right.

use super::centroids::Centroids;
use super::edge::{self, BLOCK_EDGES, EdgeFactors, EdgeHead, EdgeShape};
use super::estimate::{DEGREE_MAX, EdgeCodes, Estimator};
use pagehop_kernels as kernels;

/// One row in this many is a landmark in a build of up to [`FIRST_ROWS`] rows.
const BUILT_EVERY: usize = 8;
/// One inserted row in this many is a landmark while the index has up to [`FIRST_ROWS`] slots.
/// Fewer edges lead to a new row than to one of a build, so more new rows are known without an edge
/// (`docs/decisions/0023-landmarks-of-inserted-rows.md`).
const INSERTED_EVERY: usize = 4;
/// Of the rows beyond [`FIRST_ROWS`] one in this many is a landmark, so that a large index takes 2
/// to 4 bytes of memory a row for them in 384 dimensions.
const LATER_EVERY: usize = 32;
/// Rows among which landmarks are denser.
const FIRST_ROWS: usize = 1 << 18;
/// Most landmarks of an index, so that memory and the lists that a search scores stop growing: of
/// more than 15 million rows fewer than one in [`LATER_EVERY`] is a landmark.
const LANDMARKS_MAX: usize = 1 << 19;
/// Most lists that a search scores.
const LISTS: usize = 8;
/// A search that scored this many landmarks begins no further list. Builds of up to a million rows
/// have fewer in all [`LISTS`]; with ten million, two lists have 2,600. At a million rows one list
/// instead of eight cost .003 of recall (`docs/decisions/0012-hard-data.md`).
const SCORED_ENOUGH: usize = 2048;
/// Landmarks that a search begins at.
const NEAREST: usize = 4;

/// The most landmarks of a build of `rows` rows.
pub(crate) fn built_landmarks(rows: usize) -> usize {
    count(rows, BUILT_EVERY)
}

/// The most landmarks of an index that grew to `slots` slots by insertions.
pub(crate) fn inserted_landmarks(slots: usize) -> usize {
    count(slots, INSERTED_EVERY)
}

fn count(rows: usize, first_every: usize) -> usize {
    let first = rows.min(FIRST_ROWS);
    (first.div_ceil(first_every) + (rows - first) / LATER_EVERY).min(LANDMARKS_MAX)
}

/// One row in this many is a landmark of a build of `rows` rows.
pub(crate) fn built_every(rows: usize) -> usize {
    rows.div_ceil(built_landmarks(rows).max(1)).max(BUILT_EVERY)
}

/// One inserted row in this many becomes a landmark of an index of `slots` slots.
pub(crate) fn inserted_every(slots: usize) -> usize {
    match slots <= FIRST_ROWS {
        true => INSERTED_EVERY,
        false => LATER_EVERY.max(slots.div_ceil(LANDMARKS_MAX)),
    }
}

/// A landmark as it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Landmark {
    pub(crate) node: u32,
    /// Generation of the node: it distinguishes the landmark's row from a later one in its slot.
    pub(crate) generation: u8,
    pub(crate) centroid: u8,
    pub(crate) factors: EdgeFactors,
    pub(crate) code: Vec<u64>,
}

/// A landmark that a search begins at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Start {
    /// Estimated squared distance of the query from its row.
    pub(crate) estimate: f32,
    pub(crate) node: u32,
    pub(crate) generation: u8,
}

/// All landmarks of an index, in lists by centroid. They are laid out like the edges of nodes, in
/// blocks of up to [`DEGREE_MAX`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Landmarks {
    /// For each centroid the first of its blocks, and then the number of all blocks.
    first_blocks: Vec<u32>,
    blocks: Vec<Block>,
    generations: Vec<u8>,
    heads: Vec<EdgeHead>,
    codes: Vec<u8>,
    code_bytes: usize,
    len: usize,
}

/// The position of a block of landmarks.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Its first place in `heads` and `generations`, a multiple of [`BLOCK_EDGES`].
    start: u32,
    len: u8,
}

impl Landmarks {
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.codes)
            + size_of_val(&*self.heads)
            + size_of_val(&*self.generations)
            + size_of_val(&*self.blocks)
    }

    /// Adds a block.
    fn push(&mut self, shape: EdgeShape, waiting: &Waiting) {
        let (start, len) = (self.heads.len(), waiting.heads.len());
        let slots = len.next_multiple_of(BLOCK_EDGES);
        self.len += len;
        self.blocks.push(Block { start: start as u32, len: len as u8 });
        self.generations.extend_from_slice(&waiting.generations);
        self.generations.resize(start + slots, 0);
        self.heads.extend_from_slice(&waiting.heads);
        self.heads.resize(start + slots, EdgeHead::default());
        let codes_start = self.codes.len();
        self.codes.resize(codes_start + slots * self.code_bytes, 0);
        for (slot, code) in waiting.codes.chunks_exact(shape.words()).enumerate() {
            edge::interleave(shape, code, slot, slots, &mut self.codes[codes_start..]);
        }
    }

    /// The number of landmarks.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Writes the landmarks nearest to a prepared query to `nearest`, nearest first. `coarse` has
    /// the estimated distance of each centroid. `nearest` stays empty if there are no landmarks
    /// near.
    pub(crate) fn nearest(
        &self,
        estimator: &mut Estimator,
        centroids: &Centroids,
        coarse: &[f32],
        nearest: &mut Vec<Start>,
    ) {
        nearest.clear();
        if self.blocks.is_empty() {
            return;
        }
        let lists = smallest::<LISTS>(coarse);
        lists.clone().for_each(|list| self.prefetch(list, centroids));
        let mut scored_count = 0;
        for list in lists {
            if scored_count >= SCORED_ENOUGH {
                return;
            }
            for block in self.list(list) {
                scored_count += usize::from(block.len);
                self.keep_nearest(*block, list as u8, estimator, centroids, nearest);
            }
        }
    }

    /// The blocks of a centroid.
    fn list(&self, centroid: usize) -> &[Block] {
        &self.blocks[self.first_blocks[centroid] as usize..self.first_blocks[centroid + 1] as usize]
    }

    /// Prefetches the bytes that scoring a list reads: other queries' pages have taken its place in
    /// the CPU's caches.
    fn prefetch(&self, list: usize, centroids: &Centroids) {
        kernels::prefetch(centroids.plane(list));
        // Most lists are one block.
        if let Some(block) = self.list(list).first() {
            let (heads, codes) = self.bytes(*block);
            kernels::prefetch(heads);
            kernels::prefetch(codes);
        }
    }

    /// The heads and the codes of a block, with its empty places.
    fn bytes(&self, block: Block) -> (&[EdgeHead], &[u8]) {
        let (start, slots) = (block.start as usize, usize::from(block.len).next_multiple_of(BLOCK_EDGES));
        (&self.heads[start..start + slots], &self.codes[start * self.code_bytes..][..slots * self.code_bytes])
    }

    /// Scores the landmarks of a block, and keeps those that are among the nearest.
    fn keep_nearest(
        &self,
        block: Block,
        centroid: u8,
        estimator: &mut Estimator,
        centroids: &Centroids,
        nearest: &mut Vec<Start>,
    ) {
        let (heads, codes) = self.bytes(block);
        let of_edges = [[centroid]; DEGREE_MAX];
        let edges = EdgeCodes { codes, heads, centroids: &of_edges[..heads.len()] };
        let mut estimates = [0.0; DEGREE_MAX];
        let estimates = &mut estimates[..usize::from(block.len)];
        estimator.score(centroids, edges, estimates).expect("lists are of centroids that exist");
        let last = |nearest: &[Start]| nearest.get(NEAREST - 1).map_or(f32::INFINITY, |last| last.estimate);
        // Nearly all landmarks are farther than those that were found: one comparison for eight.
        let mut near = kernels::at_most(estimates, f32::INFINITY, last(nearest));
        while near != 0 {
            let at = near.trailing_zeros() as usize;
            near &= near - 1;
            if estimates[at] < last(nearest) {
                let (estimate, node) = (estimates[at], edge::target_of(&heads[at]));
                let generation = self.generations[block.start as usize + at];
                insert(nearest, Start { estimate, node, generation });
            }
        }
    }
}

/// Sorts landmarks into the lists of their centroids. Beside the lists, less than a block of each
/// is in memory.
pub(crate) struct LandmarkLists {
    shape: EdgeShape,
    all: Landmarks,
    /// The centroid of each block.
    centroids: Vec<u8>,
    /// For each centroid, the landmarks that are in no block yet.
    waiting: Vec<Waiting>,
}

/// Landmarks of a centroid that are in no block yet, codes one after another.
#[derive(Clone, Debug, Default)]
struct Waiting {
    heads: Vec<EdgeHead>,
    generations: Vec<u8>,
    codes: Vec<u64>,
}

impl Waiting {
    fn clear(&mut self) {
        self.heads.clear();
        self.generations.clear();
        self.codes.clear();
    }
}

impl LandmarkLists {
    /// Empty lists of `centroids` centroids, with room for about `count` landmarks.
    pub(crate) fn new(shape: EdgeShape, centroids: usize, count: usize) -> Self {
        // The last block of a list has empty places.
        let places = count + centroids * (BLOCK_EDGES - 1);
        let all = Landmarks {
            generations: Vec::with_capacity(places),
            heads: Vec::with_capacity(places),
            codes: Vec::with_capacity(places * shape.code_bytes()),
            code_bytes: shape.code_bytes(),
            ..Landmarks::default()
        };
        Self { shape, all, centroids: Vec::new(), waiting: vec![Waiting::default(); centroids] }
    }

    /// Adds a landmark of a centroid that exists.
    pub(crate) fn add(&mut self, landmark: &Landmark) {
        let waiting = &mut self.waiting[usize::from(landmark.centroid)];
        waiting.heads.push(landmark.factors.head(landmark.node));
        waiting.generations.push(landmark.generation);
        waiting.codes.extend_from_slice(&landmark.code);
        if waiting.heads.len() == DEGREE_MAX {
            self.end_block(landmark.centroid);
        }
    }

    fn end_block(&mut self, centroid: u8) {
        let waiting = &mut self.waiting[usize::from(centroid)];
        if !waiting.heads.is_empty() {
            self.all.push(self.shape, waiting);
            self.centroids.push(centroid);
            waiting.clear();
        }
    }

    /// The finished lists. The landmarks of a list keep the order in which they were added.
    pub(crate) fn finish(mut self) -> Landmarks {
        (0..self.waiting.len()).for_each(|centroid| self.end_block(centroid as u8));
        let Self { mut all, centroids, waiting, .. } = self;
        if all.blocks.is_empty() {
            return all;
        }
        let mut order: Vec<usize> = (0..centroids.len()).collect();
        order.sort_by_key(|block| centroids[*block]);
        let first = |centroid| order.partition_point(|block| usize::from(centroids[*block]) < centroid) as u32;
        all.first_blocks = (0..=waiting.len()).map(first).collect();
        all.blocks = order.iter().map(|block| all.blocks[*block]).collect();
        all.generations.shrink_to_fit();
        all.heads.shrink_to_fit();
        all.codes.shrink_to_fit();
        all
    }
}

/// Inserts a landmark, which is nearer than the last, into the sorted list of the [`NEAREST`]; of
/// equally near ones the first comes first.
fn insert(nearest: &mut Vec<Start>, start: Start) {
    nearest.truncate(NEAREST - 1);
    let at = nearest.iter().position(|other| other.estimate > start.estimate).unwrap_or(nearest.len());
    nearest.insert(at, start);
}

/// The positions of the `N` smallest values, smallest first, or of all if there are fewer. No value
/// is negative. Of equal ones the first comes first.
pub(crate) fn smallest<const N: usize>(values: &[f32]) -> impl Iterator<Item = usize> + Clone {
    // Value and position as one integer, which has the order of both.
    let key = |(at, value): (usize, &f32)| u64::from(value.to_bits()) << 32 | at as u64;
    let mut best = [u64::MAX; N];
    let mut bound = f32::INFINITY;
    for (at, value) in values.iter().enumerate() {
        if *value < bound {
            // Each place keeps the smaller one and hands on the larger, without a branch.
            let mut larger = key((at, value));
            for place in &mut best {
                (*place, larger) = ((*place).min(larger), (*place).max(larger));
            }
            if best[N - 1] != u64::MAX {
                bound = f32::from_bits((best[N - 1] >> 32) as u32);
            }
        }
    }
    best.into_iter().filter(|key| *key != u64::MAX).map(|key| key as u32 as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::codes::Codes;
    use crate::random::Random;

    #[test]
    fn the_smallest_values_are_found_in_order() {
        let values = [5.0, f32::NAN, 1.0, 3.0, 1.0, 0.5];
        assert!(smallest::<3>(&values).eq([5, 2, 4]));
        assert!(smallest::<3>(&values[..1]).eq([0]));
        assert_eq!(smallest::<3>(&[]).count(), 0);
    }

    #[test]
    fn landmarks_are_denser_among_the_first_rows() {
        for rows in 0..40 {
            assert_eq!((built_every(rows), built_landmarks(rows)), (8, rows.div_ceil(8)));
            assert_eq!((inserted_every(rows), inserted_landmarks(rows)), (4, rows.div_ceil(4)));
        }
        let first = 1 << 18;
        assert_eq!((built_every(first), built_landmarks(first)), (8, 1 << 15));
        assert_eq!((built_every(first + 1), built_landmarks(first + 32)), (9, (1 << 15) + 1));
        assert_eq!((built_every(1_000_000), built_landmarks(1_000_000)), (18, 55_826));
        assert_eq!((inserted_every(first), inserted_landmarks(first)), (4, 1 << 16));
        assert_eq!((inserted_every(first + 1), inserted_landmarks(first + 32)), (32, (1 << 16) + 1));
        for rows in [20_000_000, usize::MAX >> 8] {
            assert_eq!((built_landmarks(rows), inserted_landmarks(rows)), (LANDMARKS_MAX, LANDMARKS_MAX));
            // A build takes rows 0, `every`, 2 `every`, ...
            assert!(rows.div_ceil(built_every(rows)) <= LANDMARKS_MAX);
        }
        assert_eq!(inserted_every(20_000_000), 39);
    }

    fn lists(shape: EdgeShape, landmarks: &[Landmark]) -> Landmarks {
        let mut lists = LandmarkLists::new(shape, 3, landmarks.len());
        landmarks.iter().for_each(|landmark| lists.add(landmark));
        lists.finish()
    }

    #[test]
    fn the_nearest_landmarks_are_those_with_the_best_estimates() {
        let (dim, shape) = (64, EdgeShape { dims: 64, bits: 4 });
        let mut random = Random::new(8, 0);
        let mut point = || (0..dim).map(|_| random.below(1000) as f32 - 500.0).collect::<Vec<f32>>();
        let mut centers = Codes::new(dim);
        (0..3).for_each(|_| centers.push(&point()));
        let centroids = Centroids::from_codes(&centers);
        let decoded = centroids.decode();
        let mut landmarks = Vec::new();
        for node in 0..200 {
            let centroid = node % 3;
            let mut code = vec![0; shape.words()];
            let factors = edge::encode(shape, &point(), &decoded[centroid * dim..][..dim], &mut code);
            landmarks.push(Landmark { node: node as u32, generation: 7, centroid: centroid as u8, factors, code });
        }
        let lists = lists(shape, &landmarks);
        let (mut estimator, mut nearest) = (Estimator::default(), Vec::new());
        estimator.prepare(shape, 2, &point(), None);
        lists.nearest(&mut estimator, &centroids, &[1.0, 0.0, 2.0], &mut nearest);
        let mut all: Vec<Start> = Vec::new();
        for landmark in &landmarks {
            let mut codes = vec![0; BLOCK_EDGES * shape.code_bytes()];
            edge::interleave(shape, &landmark.code, 0, BLOCK_EDGES, &mut codes);
            let heads = [landmark.factors.head(landmark.node); BLOCK_EDGES];
            let edges = EdgeCodes { codes: &codes, heads: &heads, centroids: &[[landmark.centroid]; BLOCK_EDGES] };
            let mut estimate = [0.0];
            estimator.score(&centroids, edges, &mut estimate).expect("a known centroid");
            all.push(Start { estimate: estimate[0], node: landmark.node, generation: 7 });
        }
        all.sort_by(|a, b| a.estimate.total_cmp(&b.estimate));
        assert_eq!(nearest, all[..NEAREST]);
        // The nearest list has many equal landmarks, so the next list is not scored.
        let mut many: Vec<Landmark> = (0..SCORED_ENOUGH).map(|_| landmarks[1].clone()).collect();
        many.push(landmarks[0].clone());
        let lists = self::lists(shape, &many);
        lists.nearest(&mut estimator, &centroids, &[1.0, 0.0, 2.0], &mut nearest);
        assert!(nearest.iter().all(|start| start.node == 1), "{nearest:?}");
        Landmarks::default().nearest(&mut estimator, &centroids, &[0.0; 3], &mut nearest);
        assert_eq!(nearest, []);
    }
}
