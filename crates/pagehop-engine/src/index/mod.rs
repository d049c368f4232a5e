//! What a user does with an index: build, open, search, check.

use std::ops::ControlFlow;

use crate::Error;
use crate::page::{PageSink, Pages};

/// Rule of closeness; the smaller the distance, the nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Squared Euclidean distance.
    L2,
    /// Negative inner product.
    InnerProduct,
    /// `1 - cosine similarity`.
    Cosine,
}

/// Choices of a bulk build. `Default` is what the README measures.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Rule of closeness of the index, fixed for its life.
    pub metric: Metric,
    /// Bytes the build may hold at once; it fails at the start, naming what it needs, if this is too little.
    pub memory_bytes: u64,
    /// Threads to use; 0 means one per core. The index does not depend on it.
    pub threads: usize,
    /// Seed of everything random. Same vectors, options and seed give the same bytes.
    pub seed: u64,
}

/// How far a long operation has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What is being done: `read`, `train`, `encode`, `connect`, `prune`, `write`, `check`.
    pub phase: &'static str,
    /// Steps of the phase that are done.
    pub done: u64,
    /// Steps of the phase; 0 while unknown.
    pub total: u64,
}

/// Called now and then by long operations; `Break` stops them with [`Error::Interrupted`].
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Takes consecutive chunks of rows: ids, and `ids.len() * dim` components in row order.
pub type EachChunk<'a> = &'a mut dyn FnMut(&[u64], &[f32]) -> Result<(), Error>;

/// Vectors that can be read more than once, always in the same order.
pub trait VectorSource {
    /// Components of each vector.
    fn dim(&self) -> usize;
    /// Passes every row to `each`, in chunks of the source's choice (a few thousand rows are good).
    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error>;
}

/// What a build did.
#[derive(Clone, Debug, Default)]
pub struct BuildReport {
    /// Rows in the index.
    pub rows: u64,
    /// Pages written.
    pub pages: u32,
}

/// How hard to search.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Candidates kept while searching; raise it for recall, lower it for speed. At least `k` are kept.
    pub search_list: usize,
    /// Most pages asked for at once.
    pub beam_width: usize,
}

/// One row found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The user's id of the row.
    pub row_id: u64,
    /// Distance under the index's metric.
    pub distance: f32,
}

/// What a search cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Nodes expanded.
    pub hops: u64,
    /// Distinct pages read, from memory or storage.
    pub pages_read: u64,
    /// Pages that had to come from storage.
    pub pages_missed: u64,
    /// Distances estimated from edge codes.
    pub estimates: u64,
    /// Distances computed from a node's own code.
    pub distances: u64,
}

/// Rows found, nearest first (equal distances in order of row id), and what they cost.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// The rows.
    pub hits: Vec<Hit>,
    /// The cost.
    pub stats: Stats,
}

/// What the index says of itself.
#[derive(Clone, Debug)]
pub struct Info {
    /// Format version of the meta page.
    pub format_version: u32,
    /// Rule of closeness.
    pub metric: Metric,
    /// Components of each vector.
    pub dim: usize,
    /// Rows in the index.
    pub rows: u64,
    /// Pages, all kinds.
    pub pages: u32,
    /// Most neighbors of a node.
    pub max_degree: usize,
    /// Nodes on a page.
    pub nodes_per_page: usize,
    /// Bits per dimension of an edge code.
    pub edge_bits: usize,
    /// Bits per dimension of a node's own code.
    pub own_bits: usize,
    /// Seed of the build.
    pub seed: u64,
}

/// What [`Index::check`] found in an index without contradictions.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Pages read.
    pub pages: u32,
    /// Nodes found.
    pub nodes: u64,
    /// Edges found.
    pub edges: u64,
    /// Nodes that a walk from the entry points reaches.
    pub reachable: u64,
}

/// An open index.
pub struct Index<P: Pages> {
    pages: P,
}

impl<P: Pages> Index<P> {
    /// Reads the meta page and the model. See each error for what is refused.
    pub fn open(pages: P) -> Result<Self, Error> {
        Ok(Self { pages })
    }

    /// The host's pages.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// What the index says of itself.
    pub fn info(&self) -> Info {
        todo!()
    }

    /// Finds the `k` rows nearest to `query`. Fewer come back only if the index has fewer.
    pub fn search(&self, query: &[f32], k: usize, options: &SearchOptions) -> Result<SearchResult, Error> {
        let _ = (query, k, options);
        todo!()
    }

    /// Reads every page and proves the structure, or says where it is broken.
    pub fn check(&self, progress: OnProgress<'_>) -> Result<CheckReport, Error> {
        let _ = progress;
        todo!()
    }
}

/// Builds an index over all rows of `source` and writes its pages to `sink`.
pub fn build(
    source: &mut dyn VectorSource,
    options: &BuildOptions,
    sink: &mut dyn PageSink,
    progress: OnProgress<'_>,
) -> Result<BuildReport, Error> {
    let _ = (source, options, sink, progress);
    todo!()
}
