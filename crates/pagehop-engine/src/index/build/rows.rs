//! The second pass over the rows: the codes of every row, which are the working set of a build.

use super::job::Job;
use super::survey::Survey;
use crate::graph::equal;
use crate::graph::refine::EdgeTable;
use crate::page::PageId;
use crate::page::meta::ChangeState;
use crate::page::model_pages::Entry;
use crate::quantize::centroids::{self, Centroids, SAMPLE_ROWS};
use crate::quantize::codes::Codes;
use crate::quantize::edge;
use crate::quantize::landmarks::landmark_every;
use crate::quantize::prepare::Space;
use crate::{Error, Metric, VectorSource, threads};

/// The working set: everything about every row.
pub(super) struct Rows {
    pub(super) codes: Codes,
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

impl Rows {
    /// Encodes every row.
    pub(super) fn encode(
        job: &mut Job<'_>,
        source: &mut dyn VectorSource,
        survey: &Survey,
        space: &Space,
        centers: &Codes,
    ) -> Result<Self, Error> {
        let total = survey.row_ids.len();
        let (dim, shape) = (source.dim(), job.layout.edge);
        let centroids = Centroids::from_codes(centers);
        let centers_decoded = centroids.decode();
        let filled_sq = (space.metric == Metric::InnerProduct).then_some(survey.norm_sq_max);
        let mut codes = Codes { filled_sq, ..Codes::with_capacity(job.layout.inner_dim, total) };
        let words = Vec::with_capacity(total * shape.words());
        let mut table = EdgeTable {
            shape,
            words,
            factors: Vec::with_capacity(total),
            centroid: Vec::with_capacity(total),
            query_digits: 1,
        };
        let workers = job.threads;
        source.scan(&mut |ids, chunk| {
            if codes.len() + ids.len() > total || ids != &survey.row_ids[codes.len()..codes.len() + ids.len()] {
                return Err(Error::argument("the second scan of the source gave other rows than the first"));
            }
            let part = ids.len().div_ceil(workers * 4).max(1);
            let parts = threads::map(workers, ids.len().div_ceil(part), |i| {
                let rows = &chunk[i * part * dim..(((i + 1) * part).min(ids.len())) * dim];
                encode_part(rows, space, centers, &centers_decoded, shape)
            });
            for part in parts {
                let (more_codes, mut more) = part?;
                codes.append(more_codes);
                table.words.append(&mut more.words);
                table.factors.append(&mut more.factors);
                table.centroid.append(&mut more.centroid);
            }
            job.step("encode", codes.len() as u64, total as u64)
        })?;
        if codes.len() != total {
            return Err(Error::argument("the second scan of the source gave fewer rows than the first"));
        }
        table.query_digits = query_digits(&codes, centers, &table.centroid);
        let entries = nearest_rows(&codes, centers, &table.centroid);
        let firsts = equal::firsts(&codes);
        let mut landmarks = vec![Vec::new(); centroids.len()];
        // In few dimensions entry points are enough, and are what searches were measured with.
        let marked = if codes.dim > 64 { total } else { 0 };
        for row in (0..marked).step_by(landmark_every(total)).filter(|row| firsts[*row] as usize == *row) {
            landmarks[usize::from(table.centroid[row])].push(row as u32);
        }
        Ok(Self { codes, table, centroids, firsts, entries, landmarks })
    }

    /// A change state that counts all rows as trained on, duplicates once.
    pub(super) fn counted(&self, first: PageId) -> ChangeState {
        let trained_rows = (0..self.firsts.len()).filter(|row| self.is_first(*row)).count() as u64;
        let equal_rows = self.firsts.len() as u64 - trained_rows;
        ChangeState { model_start: first.0, trained_rows, equal_rows, ..ChangeState::default() }
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
    let centroid: Vec<u8> = nearest.iter().map(|c| *c as u8).collect();
    let mut words = vec![0; count * shape.words()];
    let mut factors = Vec::with_capacity(count);
    for (row, code) in words.chunks_exact_mut(shape.words()).enumerate() {
        // Encode from the stored code, not from the user's vector: any reader of the node then gets
        // the same edge code.
        codes.decode(row, &mut x);
        factors.push(edge::encode(
            shape,
            &x,
            &centers_decoded[usize::from(centroid[row]) * inner..][..inner],
            code,
        ));
    }
    Ok((codes, EdgeTable { shape, words, factors, centroid, query_digits: 1 }))
}

pub(crate) fn query_digits(codes: &Codes, centers: &Codes, centroid: &[u8]) -> usize {
    const RATIO: f64 = 6.0;
    let (mut residuals, mut lengths) = (0.0f64, 0.0f64);
    for row in (0..codes.len()).step_by((codes.len() / SAMPLE_ROWS).max(1)) {
        residuals += f64::from(center_distance(codes, row, centers, centroid[row].into()).max(0.0));
        lengths += f64::from(codes.hi_norm_sq[row]);
    }
    1 + usize::from(lengths > RATIO * residuals)
}

fn center_distance(codes: &Codes, row: usize, centers: &Codes, center: usize) -> f32 {
    let dot = pagehop_kernels::dot_i8(codes.hi(row), centers.hi(center)) as f32;
    codes.hi_norm_sq[row] + centers.hi_norm_sq[center] - 2.0 * codes.hi_step(row) * centers.hi_step(center) * dot
}

pub(crate) fn nearest_rows(codes: &Codes, centers: &Codes, centroid: &[u8]) -> Vec<Entry> {
    let mut best: Vec<Option<Entry>> = vec![None; centers.len()];
    for (row, center) in centroid.iter().enumerate() {
        let center = usize::from(*center);
        let from_centroid_sq = center_distance(codes, row, centers, center).max(0.0);
        if best[center].is_none_or(|entry| from_centroid_sq < entry.from_centroid_sq) {
            best[center] = Some(Entry { node: row as u32, from_centroid_sq });
        }
    }
    let any = best.iter().flatten().next().copied().expect("every row has a center");
    best.into_iter().map(|entry| entry.unwrap_or(any)).collect()
}
