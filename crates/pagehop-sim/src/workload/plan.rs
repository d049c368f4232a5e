//! The plan of a seed: what it chooses before anything runs. That is the shape of the index, how it
//! is opened, and how often each operation runs. A plan leaves out some operations entirely, so
//! that rare combinations of the others are frequent in some plans.

use std::sync::Arc;

use pagehop_engine::{Metric, Vectors};
use pagehop_store::{Durability, Io, OpenOptions};

use super::columns::{self, COLUMNS_MAX, Given};
use super::data::Cloud;
use crate::Rng;

/// An operation on an open index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Adds, deletes and vacuums in one transaction.
    Change,
    /// Adds a few rows in one transaction.
    Add,
    /// Deletes some rows in one transaction.
    Delete,
    /// Changes the values of some rows in some columns in one transaction.
    Update,
    /// Removes dead rows.
    Vacuum,
    /// Adds or deletes many rows by one call, which vacuums by itself.
    Call,
    /// Deletes every row.
    Clear,
    Checkpoint,
    /// Starts transactions that are dropped, interrupted or refused.
    Abandon,
    Search,
    /// Opens a cursor, which later operations must not disturb.
    OpenCursor,
    /// Drains the oldest cursor.
    DrainCursor,
    Check,
    /// Makes one of the next calls fail.
    Fault,
    /// Limits the free space.
    Fill,
    /// Removes all faults and limits.
    Heal,
    /// Makes all calls fail after some more calls.
    Stop,
    /// Closes the index.
    Close,
    /// Drops the index without closing it.
    Exit,
    Kill,
    Crash,
}

const OPERATIONS: [(Operation, usize); 19] = [
    (Operation::Change, 6),
    (Operation::Add, 10),
    (Operation::Delete, 4),
    (Operation::Vacuum, 3),
    (Operation::Clear, 1),
    (Operation::Checkpoint, 2),
    (Operation::Abandon, 2),
    (Operation::Search, 3),
    (Operation::OpenCursor, 2),
    (Operation::DrainCursor, 1),
    (Operation::Check, 1),
    (Operation::Fault, 2),
    (Operation::Fill, 1),
    (Operation::Heal, 3),
    (Operation::Stop, 2),
    (Operation::Close, 2),
    (Operation::Exit, 1),
    (Operation::Kill, 2),
    (Operation::Crash, 3),
];

/// Decides which seeds have columns. The seeds in `tests/crash.rs` that once found a page 0 in
/// memory only have none.
const COLUMNS_SEED: u64 = 28;

/// Decides which seeds keep vectors.
const VECTORS_SEED: u64 = 0x5EC7_0125;

/// Decides which seeds have calls that vacuum by themselves, and which compact. The seeds that once
/// found a page 0 in memory only do neither.
const CALLS_SEED: u64 = 16;

/// Decides which seeds keep payloads. The seeds that once found a page 0 in memory only keep none.
const PAYLOADS_SEED: u64 = 40;

/// Decides which seeds have texts as ids. The seeds that once found a page 0 in memory only have
/// numbers.
const TEXTS_SEED: u64 = 13;

/// The choices of one seed.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) dim: usize,
    pub(super) metric: Metric,
    /// What the index keeps of vectors.
    pub(super) vectors: Vectors,
    /// Number of columns of the index.
    pub(super) columns: usize,
    /// Whether the index keeps payloads.
    pub(super) payloads: bool,
    /// Whether ids are texts.
    pub(super) texts: bool,
    /// Number of rows of the bulk build; `None` for an index that starts empty.
    pub(super) built: Option<usize>,
    pub(super) operations: usize,
    /// Largest number of rows in a batch.
    pub(super) batch: usize,
    /// Number of ids that rows are drawn from.
    pub(super) ids: u64,
    pub(super) cloud: Cloud,
    pub(super) cache_bytes: u64,
    pub(super) log_bytes: u64,
    pub(super) transaction_bytes: u64,
    /// The share of dead rows from which on calls vacuum by themselves.
    auto_vacuum: Option<f32>,
    /// Whether some processes compact the index.
    pub(super) compacts: bool,
    /// `None` if the durability is chosen whenever the index is opened.
    durability: Option<Durability>,
    weights: Vec<(Operation, usize)>,
    total: usize,
}

impl Plan {
    pub(super) fn draw(seed: u64, rng: &mut Rng) -> Self {
        let dim = match rng.below(4) {
            0 => 3 + rng.below(8),
            1 => 8 * (1 + rng.below(8)),
            2 => 3 + rng.below(62),
            _ => 60 + rng.below(141),
        };
        let built = (!rng.one_in(3)).then(|| if rng.one_in(3) { 1 + rng.below(300) } else { 1 + rng.below(60) });
        let mut weights = Vec::new();
        for (operation, usual) in OPERATIONS {
            let weight = match rng.below(5) {
                0 => 0,
                1 => usual * 4,
                _ => usual,
            };
            weights.push((operation, weight));
        }
        if weights[..4].iter().all(|weight| weight.1 == 0) {
            weights[1].1 = 10;
        }
        // The choices about columns come from a generator of their own, so that the other choices
        // of a seed are the same with and without columns.
        let mut more = Rng::new(seed ^ COLUMNS_SEED);
        let columns = if more.one_in(2) { 1 + more.below(COLUMNS_MAX) } else { 0 };
        if columns > 0 || Rng::new(seed ^ PAYLOADS_SEED).one_in(4) {
            weights.push((Operation::Update, [0, 5, 5, 20][more.below(4)]));
        }
        let vectors = match Rng::new(seed ^ VECTORS_SEED).below(4) {
            0 => Vectors::Float16,
            1 => Vectors::Float32,
            _ => Vectors::Codes,
        };
        let mut calls = Rng::new(seed ^ CALLS_SEED);
        let compacts = calls.one_in(5);
        let mut auto_vacuum = None;
        if calls.one_in(6) {
            weights.push((Operation::Call, [5, 30][calls.below(2)]));
            auto_vacuum = [None, Some(0.0), Some(0.05), Some(0.2)][calls.below(4)];
        }
        let total = weights.iter().map(|weight| weight.1).sum();
        let kib = 1 << 10;
        Self {
            dim,
            metric: [Metric::L2, Metric::InnerProduct, Metric::Cosine][rng.below(3)],
            vectors,
            columns,
            payloads: Rng::new(seed ^ PAYLOADS_SEED).one_in(4),
            texts: Rng::new(seed ^ TEXTS_SEED).one_in(4),
            built,
            operations: 5 + rng.below(40),
            batch: [1, 4, 12, 40][rng.below(4)],
            ids: [20, 100, 400, 100_000][rng.below(4)],
            cloud: Cloud::draw(dim, rng),
            cache_bytes: [64 * 8 * kib, 1 << 22][rng.below(2)],
            log_bytes: [0, 20 * kib, 200 * kib, 256 << 20][rng.below(4)],
            transaction_bytes: if rng.one_in(6) { (100 + rng.below(1000) as u64) * kib } else { 1 << 30 },
            durability: [Some(Durability::Commit), Some(Durability::Commit), Some(Durability::Checkpoint), None]
                [rng.below(4)],
            auto_vacuum,
            compacts,
            weights,
            total,
        }
    }

    /// All columns, and payloads if the index keeps them.
    pub(super) fn all(&self) -> Given {
        Given { columns: (0..self.columns).collect(), payloads: self.payloads }
    }

    /// A random payload, if the index keeps payloads.
    pub(super) fn payload(&self, rng: &mut Rng) -> Option<Arc<[u8]>> {
        if self.payloads { columns::payload(rng) } else { None }
    }

    pub(super) fn operation(&self, rng: &mut Rng) -> Operation {
        let mut at = rng.below(self.total);
        for (operation, weight) in &self.weights {
            if at < *weight {
                return *operation;
            }
            at -= weight;
        }
        unreachable!("the weights add up to the total")
    }

    pub(super) fn open_options(&self, write: bool, rng: &mut Rng) -> OpenOptions {
        let either = [Durability::Commit, Durability::Checkpoint][rng.below(2)];
        OpenOptions {
            cache_bytes: self.cache_bytes,
            direct: Some(false),
            io: Io::Pread,
            write,
            durability: self.durability.unwrap_or(either),
            log_bytes: self.log_bytes,
            transaction_bytes: self.transaction_bytes,
            auto_vacuum: self.auto_vacuum,
        }
    }
}

/// A random id; sometimes 0 or the largest id.
pub(super) fn id(plan: &Plan, rng: &mut Rng) -> u64 {
    match rng.below(plan.ids as usize) as u64 {
        0 => u64::MAX,
        1 => 0,
        n => n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (n % 3 * 20),
    }
}
