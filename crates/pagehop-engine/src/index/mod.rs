//! What a user does with an index: build, open, search, check.

mod absent;
mod audit;
mod bound;
pub(crate) mod build;
mod calibrate;
mod calibration;
mod change;
mod check;
mod cursor;
mod dead;
mod effort;
mod encode;
mod equal;
mod ids;
mod link;
mod memory;
pub(crate) mod meta;
pub(crate) mod model;
mod near;
mod node_set;
mod offer;
pub(crate) mod order;
mod pending;
mod retrain;
mod samples;
mod scan;
mod search;
mod state;
mod tids;
mod trace;
mod vacuum;
mod visit;

use std::ops::ControlFlow;

use crate::page::{PageId, Pages, PagesMut};
use crate::{Error, Metric, RowIds};
pub use audit::RecallReport;
pub use build::{build, create};
pub use calibrate::{CALIBRATED_ROWS_MIN, CALIBRATION_QUERIES_MIN};
pub use calibration::{Audit, CalibratedK, Calibration, RECALL_DEFAULT, RECALLS, Setting};
pub use change::{AddReport, Change, DeleteReport};
pub use cursor::{Cursor, Found};
pub use memory::build_memory_bytes;
pub use retrain::TRAINED_ENOUGH;
pub use search::Searcher;
use state::{Newest, State};
pub use tids::{Prepared, RemoveReport};
pub use vacuum::VacuumReport;

/// Choices of a bulk build. `Default` is what the README measures.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Rule of closeness of the index, fixed for its life.
    pub metric: Metric,
    /// Bytes the build may hold at once; it fails at the start, naming what it needs, if this is too little.
    pub memory_bytes: u64,
    /// Threads to use; 0 means one per core. The index does not depend on it.
    pub threads: usize,
    /// Seed of everything random. Same vectors, options and seed give the same page bodies.
    pub seed: u64,
    /// What the row ids are, fixed for the index's life.
    pub row_ids: RowIds,
    /// Whether a host is to end the build by [`Index::calibrate`].
    pub calibrate: bool,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            metric: Metric::L2,
            memory_bytes: 2 << 30,
            threads: 0,
            seed: 1,
            row_ids: RowIds::Mapped,
            calibrate: true,
        }
    }
}

/// How far a long operation has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What is being done: `read`, `train`, `encode`, `partition`, `connect`, `prune`, `refine`, `write`, `check`, `add`,
    /// `vacuum`, `scan`, `search`.
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
    /// Stop when the nearest estimate left is beyond `1 + slack` times the k-th distance found; infinite to expand the whole list.
    pub slack: f32,
}

/// One of so many rows added or deleted makes what was measured outdated.
const OUTDATED_SHARE: u64 = 5;
/// Largest `k` and `search_list`.
pub const SEARCH_LIST_MAX: usize = 100_000;
/// Largest `beam_width`.
pub const BEAM_WIDTH_MAX: usize = 64;

impl Default for SearchOptions {
    fn default() -> Self {
        Self { search_list: 100, slack: 0.2, beam_width: 4 }
    }
}

impl SearchOptions {
    /// What the user gave of list and slack, as [`SearchOptions::choose`] has it; `None` if neither.
    pub fn given(search_list: Option<usize>, slack: Option<f32>) -> Option<Self> {
        (search_list.is_some() || slack.is_some()).then(|| Self::choose(search_list, slack, None))
    }

    /// The defaults, with what the user gave. A `search_list` without a `slack` is expanded to its end, so that
    /// raising it alone raises recall as far as the index can go.
    pub fn choose(search_list: Option<usize>, slack: Option<f32>, beam_width: Option<usize>) -> Self {
        let default = Self::default();
        let to_the_end = search_list.map(|_| f32::INFINITY);
        Self {
            search_list: search_list.unwrap_or(default.search_list),
            slack: slack.or(to_the_end).unwrap_or(default.slack),
            beam_width: beam_width.unwrap_or(default.beam_width),
        }
    }

    fn validate(&self, k: usize) -> Result<(), Error> {
        let range = |name: &str, value: usize, max: usize| {
            if (1..=max).contains(&value) {
                return Ok(());
            }
            Err(Error::argument(format!("{name} is {value}, it must be between 1 and {max}")))
        };
        range("k", k, SEARCH_LIST_MAX)?;
        range("search_list", self.search_list, SEARCH_LIST_MAX)?;
        range("beam_width", self.beam_width, BEAM_WIDTH_MAX)?;
        if self.slack >= 0.0 {
            return Ok(());
        }
        Err(Error::argument(format!("slack is {}, it must be 0 or more", self.slack)))
    }
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
    /// Dimensions that an edge code covers.
    pub edge_dims: usize,
    /// Bits per dimension of a node's own code.
    pub own_bits: usize,
    /// Seed of the build.
    pub seed: u64,
    /// Number of the last commit; 0 after a bulk build.
    pub commit: u64,
    /// Deleted and replaced rows that vacuum has not taken away yet.
    pub dead_rows: u64,
    /// Places of rows that the next rows added will take.
    pub free_slots: u64,
    /// Rows that the model (mean, centroids) was trained on; equal ones count once.
    pub trained_rows: u64,
    /// Rows added since then; a replaced row counts here and among the deleted.
    pub added_rows: u64,
    /// Rows deleted since then.
    pub deleted_rows: u64,
    /// The caller's mark, set with a commit; 0 if none was.
    pub mark: [u64; 2],
    /// What has become of the index since it was calibrated; `None` if it never was.
    pub calibration: Option<Measured>,
    /// What searches were found to find when that was measured and stored last.
    pub audit: Option<Audit>,
    /// What has become of the index since `audit`.
    pub audited: Option<Measured>,
}

/// The index when something was measured, and since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Rows (nodes, where equal vectors share one) that it had.
    pub rows: u64,
    /// Queries by which it was measured.
    pub samples: u32,
    /// Whether they were a user's, and not vectors of the data. Not known of an audit.
    pub by_queries: bool,
    /// Rows added and deleted since; a replaced row counts as both.
    pub changes: u64,
}

impl Measured {
    /// Whether so much has changed since, a fifth of the rows or more, that it is to be measured again.
    pub fn is_outdated(&self) -> bool {
        self.changes.saturating_mul(OUTDATED_SHARE) >= self.rows.max(1)
    }
}

/// What [`Index::check`] found in an index without contradictions.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Pages read.
    pub pages: u32,
    /// Living nodes found.
    pub nodes: u64,
    /// Nodes of deleted and replaced rows found.
    pub dead_nodes: u64,
    /// Slots without a node.
    pub free_slots: u64,
    /// Edges found.
    pub edges: u64,
    /// Those of `edges` whose target is gone; its slot may hold another row. They cost a search little.
    pub stale_edges: u64,
    /// Living nodes that a walk from the entry points reaches.
    pub reachable: u64,
    /// Those that it reaches over anchors alone, the edges that no choice gives up: all, but in an index of format 1.
    pub anchored: u64,
}

/// An open index.
pub struct Index<P: Pages> {
    pages: P,
    newest: Newest,
}

impl<P: Pages> Index<P> {
    /// Reads the meta page and the model.
    ///
    /// # Errors
    ///
    /// [`Error::Format`] if this is not an index, or one of another version; [`Error::Corrupt`] if the pages
    /// contradict each other; whatever the host reports.
    pub fn open(pages: P) -> Result<Self, Error> {
        let state = State::read(&mut pages.reader(), None)?;
        let (expected, exist) = (state.meta.page_count, pages.page_count());
        if expected > exist {
            let what = format!("the index has {expected} pages, {exist} exist: it is truncated");
            return Err(Error::corrupt(PageId(0), what));
        }
        Ok(Self { pages, newest: Newest::new(state) })
    }

    /// The host's pages.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// Gives the host's pages back, to be closed.
    pub fn into_pages(self) -> P {
        self.pages
    }

    /// What the index says of itself as of its newest commit.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the meta page contradicts the format; whatever the host reports.
    pub fn info(&self) -> Result<Info, Error> {
        let state = self.newest.renew(&mut self.pages.reader())?;
        let (meta, layout) = (&state.meta, &state.meta.layout);
        let counted = meta.change.added_rows.wrapping_add(meta.change.deleted_rows);
        let measured = |rows, samples, by_queries, changes| Measured {
            rows,
            samples,
            by_queries,
            changes: counted.wrapping_sub(changes),
        };
        Ok(Info {
            format_version: meta.version,
            metric: meta.metric,
            dim: meta.dim,
            rows: meta.rows,
            pages: meta.page_count,
            max_degree: layout.degree,
            nodes_per_page: layout.nodes_per_page,
            edge_bits: layout.edge.bits,
            edge_dims: layout.edge.dims,
            own_bits: 12,
            seed: meta.seed,
            commit: meta.change.commit,
            dead_rows: meta.change.dead_rows,
            free_slots: meta.change.free_slots.into(),
            trained_rows: meta.change.trained_rows,
            added_rows: meta.change.added_rows,
            deleted_rows: meta.change.deleted_rows,
            mark: meta.change.mark,
            calibration: meta.calibration.as_ref().map(|c| measured(c.rows, c.samples, c.by_queries, c.changes)),
            audit: meta.audit,
            audited: meta.audit.map(|audit| measured(audit.rows, audit.samples, false, audit.changes)),
        })
    }

    /// What was measured of the index last, if it was calibrated.
    ///
    /// # Errors
    ///
    /// As [`Index::info`].
    pub fn calibration(&self) -> Result<Option<Calibration>, Error> {
        Ok(self.newest.renew(&mut self.pages.reader())?.meta.calibration.as_deref().cloned())
    }

    /// A searcher for one thread, which keeps its buffers from one search to the next.
    pub fn searcher(&self) -> Searcher<'_, P> {
        Searcher::new(&self.pages, &self.newest)
    }

    /// Finds the `k` rows nearest to `query`. Fewer come back only if the index has fewer.
    ///
    /// # Errors
    ///
    /// [`Error::Dimension`] if `query` has another length than the index; [`Error::Argument`] if the metric
    /// cannot place it or an option is out of range; [`Error::Corrupt`] if a page contradicts the format.
    pub fn search(&self, query: &[f32], k: usize, options: &SearchOptions) -> Result<SearchResult, Error> {
        self.searcher().search(query, k, options)
    }

    /// A search that hands out rows one by one, for as long as the caller likes.
    ///
    /// # Errors
    ///
    /// As [`Index::search`].
    pub fn cursor(&self, query: &[f32], options: &SearchOptions) -> Result<Cursor<'_, P>, Error> {
        Cursor::new(&self.pages, &self.newest, query, options)
    }

    /// Begins to change the index within a transaction of its host. Nothing counts until [`Change::finish`] and
    /// the host's commit.
    ///
    /// An index of an older format is brought up to this one's first, in the same transaction.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the pages contradict each other; whatever the host reports.
    pub fn change<'w, W: PagesMut>(&self, pages: &'w mut W) -> Result<Change<'w, W>, Error> {
        Change::begin(pages, Some(&self.newest.known()))
    }

    /// Reads every page and proves the structure.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] at the first contradiction, [`Error::Interrupted`] if `progress` says so. Rows that no
    /// search can reach are no error here: compare `reachable` with `nodes`.
    pub fn check(&self, progress: OnProgress<'_>) -> Result<CheckReport, Error> {
        check::check(&self.pages, progress)
    }
}
