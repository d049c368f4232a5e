//! The second pass over the rows: the codes of every row.

use super::job::Job;
use super::survey::{Rescan, Survey};
use crate::columns::signatures::Signatures;
use crate::columns::{ColumnRows, RowValues};
use crate::graph::edge_table::EdgeTable;
use crate::page::PageId;
use crate::page::meta::ChangeState;
use crate::page::model_pages::Entry;
use crate::quantize::centroids::{self, Centroids, SAMPLE_ROWS};
use crate::quantize::codes::Codes;
use crate::quantize::edge;
use crate::quantize::landmarks::built_every;
use crate::quantize::prepare::Space;
use crate::{Error, VectorSource, threads};

/// What a build keeps in memory of every row, except own codes.
pub(super) struct Rows {
    pub(super) table: EdgeTable,
    pub(super) centroids: Centroids,
    /// For each row, the first row that equals it, or the row itself.
    pub(super) firsts: Vec<u32>,
    /// For each centroid, the row nearest to it as an entry point, and its distance.
    pub(super) entries: Vec<Entry>,
    /// For each centroid, the rows of it that are landmarks. Of equal rows only the first can be
    /// one.
    pub(super) landmarks: Vec<Vec<u32>>,
}

/// What is kept of the rows while they are encoded.
pub(super) struct EncodedRows {
    pub(super) table: EdgeTable,
    pub(super) centroids: Centroids,
    pub(super) entries: Vec<Entry>,
}

/// Encodes every row, in order. Passes own codes to `take`, and keeps the rest.
pub(super) fn encode(
    job: &mut Job<'_>,
    source: &mut dyn VectorSource,
    survey: &Survey,
    (space, centers): (&Space, &Codes),
    take: &mut dyn FnMut(Codes) -> Result<(), Error>,
) -> Result<EncodedRows, Error> {
    let total = survey.row_ids.len();
    let (dim, shape) = (source.dim(), job.layout.edge);
    let centroids = Centroids::from_codes(centers);
    let centers_decoded = centroids.decode();
    let mut table = EdgeTable::with_capacity(shape, total);
    let (mut spread, mut nearest) = (Spread::of(total), NearestRows::of(centers));
    let (workers, mut scan) = (job.threads, Rescan::of(survey));
    source.scan(&mut |ids, chunk| {
        scan.take(ids, chunk)?;
        let part = ids.len().div_ceil(workers * 4).max(1);
        let parts = threads::map(workers, ids.len().div_ceil(part), |i| {
            let rows = &chunk[i * part * dim..(((i + 1) * part).min(ids.len())) * dim];
            encode_part(rows, space, centers, &centers_decoded, shape)
        });
        for part in parts {
            let (codes, more) = part?;
            let of = more.all_centroids();
            spread.add(&codes, centers, &of);
            nearest.add(&codes, centers, &of);
            take(codes)?;
            table.append(&more);
        }
        job.step("encode", table.len() as u64, total as u64)
    })?;
    scan.end()?;
    table.query_digits = spread.query_digits();
    Ok(EncodedRows { table, centroids, entries: nearest.entries() })
}

impl Rows {
    /// Chooses landmarks. `firsts` has for each row the first row that equals it.
    pub(super) fn new(encoded: EncodedRows, inner_dim: usize, firsts: Vec<u32>) -> Self {
        let EncodedRows { table, centroids, entries } = encoded;
        let mut landmarks = vec![Vec::new(); centroids.len()];
        // In few dimensions entry points are enough, and recall was measured with entry points
        // alone.
        let marked = if inner_dim > 64 { firsts.len() } else { 0 };
        for row in (0..marked).step_by(built_every(marked)).filter(|row| firsts[*row] as usize == *row) {
            landmarks[usize::from(table.centroid(row))].push(row as u32);
        }
        Self { table, centroids, firsts, entries, landmarks }
    }

    /// A change state that counts all rows as trained on, duplicates once.
    pub(super) fn counted(&self, first: PageId) -> ChangeState {
        let trained_rows = (0..self.firsts.len()).filter(|row| self.is_first(*row)).count() as u64;
        let equal_rows = self.firsts.len() as u64 - trained_rows;
        ChangeState { model_start: first.0, trained_rows, equal_rows, ..ChangeState::default() }
    }

    /// Writes the signature of each row into its factors.
    pub(super) fn sign(&mut self, signatures: &Signatures, columns: &ColumnRows) {
        if signatures.is_empty() {
            return;
        }
        for row in 0..self.table.len() {
            self.table.sign(row, signatures.of(RowValues(columns.row(row))));
        }
    }

    /// Whether no earlier row equals this one.
    pub(super) fn is_first(&self, row: usize) -> bool {
        self.firsts[row] as usize == row
    }
}

fn encode_part(
    rows: &[f32],
    space: &Space,
    centers: &Codes,
    centers_decoded: &[f32],
    shape: edge::EdgeShape,
) -> Result<(Codes, EdgeTable), Error> {
    let inner = space.inner_dim();
    let count = rows.len() / space.dim;
    let mut codes = Codes::with_capacity(inner, count);
    let mut x = vec![0.0; inner];
    for row in rows.chunks_exact(space.dim) {
        space.row(row, &mut x)?;
        codes.push(&x);
    }
    let nearest = centroids::assign(&codes, centers, 1, 1);
    let mut table = EdgeTable::with_capacity(shape, count);
    for (row, centroid) in nearest.iter().enumerate() {
        // Encode from the stored code, not from the user's vector: any reader of the node then gets
        // the same edge code.
        codes.decode(row, &mut x);
        let center = &centers_decoded[*centroid as usize * inner..][..inner];
        table.push(*centroid as u8, |code| edge::encode(shape, &x, center, code));
    }
    Ok((codes, table))
}

/// How far rows are from their centroids, beside how long they are.
struct Spread {
    /// One row of this many is measured.
    every: usize,
    seen: usize,
    residuals: f64,
    lengths: f64,
}

impl Spread {
    /// The measurement of `total` rows.
    fn of(total: usize) -> Self {
        Self { every: (total / SAMPLE_ROWS).max(1), seen: 0, residuals: 0.0, lengths: 0.0 }
    }

    /// Adds rows that follow those before.
    fn add(&mut self, codes: &Codes, centers: &Codes, centroid: &[u8]) {
        for row in (0..codes.len()).filter(|row| (self.seen + row).is_multiple_of(self.every)) {
            self.residuals += f64::from(center_distance(codes, row, centers, centroid[row].into()).max(0.0));
            self.lengths += f64::from(codes.hi_norm_sq[row]);
        }
        self.seen += codes.len();
    }

    /// Digits that queries need: residuals that are much shorter than rows need a second.
    fn query_digits(&self) -> usize {
        const RATIO: f64 = 6.0;
        1 + usize::from(self.lengths > RATIO * self.residuals)
    }
}

fn center_distance(codes: &Codes, row: usize, centers: &Codes, center: usize) -> f32 {
    let dot = pagehop_kernels::dot_i8(codes.hi(row), centers.hi(center)) as f32;
    codes.hi_norm_sq[row] + centers.hi_norm_sq[center] - 2.0 * codes.hi_step(row) * centers.hi_step(center) * dot
}

/// The row nearest to each centroid, of those that have it.
pub(super) struct NearestRows {
    seen: usize,
    best: Vec<Option<Entry>>,
}

impl NearestRows {
    /// No rows yet.
    pub(super) fn of(centers: &Codes) -> Self {
        Self { seen: 0, best: vec![None; centers.len()] }
    }

    /// Adds rows that follow those before.
    pub(super) fn add(&mut self, codes: &Codes, centers: &Codes, centroid: &[u8]) {
        for (row, center) in centroid.iter().enumerate() {
            let center = usize::from(*center);
            let from_centroid_sq = center_distance(codes, row, centers, center).max(0.0);
            if self.best[center].is_none_or(|entry| from_centroid_sq < entry.from_centroid_sq) {
                self.best[center] = Some(Entry { node: (self.seen + row) as u32, from_centroid_sq });
            }
        }
        self.seen += codes.len();
    }

    /// One entry point for each centroid; a centroid without rows gets that of another.
    pub(super) fn entries(self) -> Vec<Entry> {
        let any = self.best.iter().flatten().next().copied().expect("every row has a center");
        self.best.into_iter().map(|entry| entry.unwrap_or(any)).collect()
    }
}
