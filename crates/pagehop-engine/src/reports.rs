//! Results of operations: answers, costs and counts.

use crate::ids::NodeId;
use crate::{Column, IdKind, Metric, Vectors};

/// A measurement is outdated once this fraction (1/n) of the rows was added or deleted since.
const OUTDATED_SHARE: u64 = 5;
/// Tolerance of a target recall. Calibrations are not more precise than this.
const TOLERANCE: f32 = 0.005;

/// One row found.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    /// The user's id of the row; under [`IdKind::Text`] its number, and
    /// [`Index::text_ids_of`](crate::Index::text_ids_of) has the ids of all hits.
    pub row_id: u64,
    /// Distance under the index's metric.
    pub distance: f32,
    /// The row's node, from which more of the row can be read later.
    pub(crate) node: NodeId,
}

/// The node of a row does not count.
impl PartialEq for Hit {
    fn eq(&self, other: &Self) -> bool {
        (self.row_id, self.distance) == (other.row_id, other.distance)
    }
}

/// The cost of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Nodes expanded.
    pub hops: u64,
    /// Distinct pages read, from memory or storage.
    pub pages_read: u64,
    /// Pages that were not in memory and came from storage.
    pub pages_missed: u64,
    /// Distances estimated from edge codes.
    pub estimates: u64,
    /// Distances computed from a node's own code.
    pub distances: u64,
}

/// The rows found, nearest first, and the cost. Equal distances are in order of row id, where ids
/// are texts in order of their numbers.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// The rows.
    pub hits: Vec<Hit>,
    /// The cost.
    pub stats: Stats,
    /// The commit number up to which the search saw rows; `u64::MAX` if the host has no commits.
    pub snapshot: u64,
}

/// Facts and counts of an index.
#[derive(Clone, Debug)]
pub struct Info {
    /// Format version of the meta page.
    pub format_version: u32,
    /// The distance function.
    pub metric: Metric,
    /// Dimensions of each vector.
    pub dim: usize,
    /// The form in which each vector is kept.
    pub vectors: Vectors,
    /// The kind of row ids.
    pub id_kind: IdKind,
    /// Whether rows may have payloads.
    pub payload: bool,
    /// The columns whose values searches can filter by.
    pub columns: Vec<Column>,
    /// Rows in the index.
    pub rows: u64,
    /// Pages, all kinds.
    pub pages: u32,
    /// Largest number of neighbors of a node.
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
    /// Deleted and replaced rows that vacuum has not removed yet.
    pub dead_rows: u64,
    /// Free slots, which the next rows will take.
    pub free_slots: u64,
    /// Rows that trained the model (mean, centroids); duplicates count once.
    pub trained_rows: u64,
    /// Rows added since then. A replaced row counts as added and as deleted.
    pub added_rows: u64,
    /// Rows deleted since then.
    pub deleted_rows: u64,
    /// The mark that the caller set with a commit; 0 if none was set.
    pub mark: [u64; 2],
    /// Recall of searches for 10 rows for which no effort is given; `None` if the index was never
    /// calibrated, or the calibration reached no recall.
    pub default_recall: Option<f32>,
    /// The state of the calibration; `None` if the index was never calibrated.
    pub calibrated: Option<Measured>,
    /// The last stored audit.
    pub audit: Option<Audit>,
    /// The state of the audit.
    pub audited: Option<Measured>,
}

/// The index at the time of a measurement, and the changes since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Rows at that time; nodes, where rows with equal vectors share one.
    pub rows: u64,
    /// Queries of the measurement that had exact answers.
    pub samples: u32,
    /// Whether the queries were a user's, not vectors of the data. Unknown for an audit.
    pub by_queries: bool,
    /// Rows added and deleted since. A replaced row counts twice.
    pub changes: u64,
    /// Under the inner product: whether longer rows were added since, by a twentieth. Searches by
    /// recall then take more hops than they need. `false` for an audit.
    pub longer_rows: bool,
}

impl Measured {
    /// Whether the measurement should be repeated: a fifth of the rows or more have changed, or
    /// there are longer rows.
    pub fn is_outdated(&self) -> bool {
        self.longer_rows || self.changes.saturating_mul(OUTDATED_SHARE) >= self.rows.max(1)
    }
}

/// The result of [`Index::check`](crate::Index::check) for a sound index.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Pages read.
    pub pages: u32,
    /// Live nodes.
    pub nodes: u64,
    /// Nodes of deleted and replaced rows.
    pub dead_nodes: u64,
    /// Free slots.
    pub free_slots: u64,
    /// Edges.
    pub edges: u64,
    /// Edges whose target is gone; its slot may hold another row. They cost searches little.
    pub stale_edges: u64,
    /// Live nodes that can be reached from the entry points.
    pub reachable: u64,
    /// Live nodes that can be reached along anchors alone, the edges that pruning never drops. In a
    /// sound index these are all live nodes.
    pub anchored: u64,
}

/// The result of a build.
#[derive(Clone, Debug, Default)]
pub struct BuildReport {
    /// Rows in the index.
    pub rows: u64,
    /// Pages written.
    pub pages: u32,
}

/// The result of an addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddReport {
    /// Rows whose ids were new.
    pub added: u64,
    /// Rows that replaced a row with the same id.
    pub replaced: u64,
    /// Rows that were in the index already with the same vector, values and payload. Nothing was
    /// done for them.
    pub unchanged: u64,
}

/// The result of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteReport<I = u64> {
    /// Rows deleted.
    pub deleted: u64,
    /// Ids that the index did not have.
    pub unknown: Vec<I>,
}

/// The result of a vacuum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumReport {
    /// Dead nodes whose slots became free.
    pub freed: u64,
    /// Dead nodes that were removed from the edges of their in-neighbors.
    pub unlinked: u64,
    /// Dead nodes that were kept because a reader may still see their rows or visit them.
    pub waiting: u64,
    /// Nodes whose edges were chosen again.
    pub repaired: u64,
}

impl VacuumReport {
    /// The number of steps: nodes unlinked plus nodes freed.
    pub fn steps(&self) -> u64 {
        self.unlinked + self.freed
    }

    /// Adds the result of another part of the same vacuum. `waiting` is taken from the last part.
    pub fn add(&mut self, part: &Self) {
        self.freed += part.freed;
        self.unlinked += part.unlinked;
        self.waiting = part.waiting;
        self.repaired += part.repaired;
    }
}

/// The result of a removal of row ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoveReport {
    /// Row ids that are left.
    pub left: u64,
    /// Row ids removed.
    pub removed: u64,
}

/// The result of an audit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecallReport {
    /// Mean recall: the share of the `k` nearest rows that searches found.
    pub recall: f32,
    /// Half the width of the interval in which the recall lies with 95% probability.
    pub half_interval: f32,
    /// Queries that were answered exactly.
    pub samples: usize,
    /// Mean hops of a search.
    pub hops: f32,
    /// The share of queries that are farther from their tenth nearest row than 99 of 100
    /// calibration queries were. If it is much more than 0.01, the queries are unlike the
    /// calibration's. `None` if the index was not calibrated, and under the inner product, where
    /// distances do not show it.
    pub far: Option<f32>,
}

impl RecallReport {
    /// Whether the recall is below `target` by more than the confidence interval and the tolerance
    /// of calibrations.
    pub fn misses(&self, target: f32) -> bool {
        self.recall + self.half_interval < target - TOLERANCE
    }
}

/// A stored audit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Audit {
    /// The k of the searches.
    pub k: usize,
    /// Mean recall.
    pub recall: f32,
    /// Half the width of the interval in which the recall lies with 95% probability.
    pub half_interval: f32,
    /// The target recall; `None` if settings were given instead.
    pub target: Option<f32>,
    /// Queries that were answered exactly.
    pub samples: u32,
    /// Rows of the index at that time.
    pub rows: u64,
    /// The count of changes at that time, as in
    /// [`Calibration::changes`](crate::Calibration::changes).
    pub changes: u64,
}

impl Audit {
    /// The audit with the result `report`, of the index described by `info`.
    pub fn of(info: &Info, k: usize, target: Option<f32>, report: &RecallReport) -> Self {
        let RecallReport { recall, half_interval, samples, .. } = *report;
        let changes = info.added_rows.wrapping_add(info.deleted_rows);
        Self { k, recall, half_interval, target, samples: samples as u32, rows: info.rows, changes }
    }
}
