//! The first pass over the rows: it measures what must be known before a row is encoded.

use super::job::Job;
use super::sample::TrainingSample;
use crate::graph::equal;
use crate::quantize::centroids;
use crate::quantize::codes::Codes;
use crate::quantize::estimate::CENTROIDS_MAX;
use crate::quantize::prepare::{self, Space};
use crate::quantize::rotation::Rotation;
use crate::quantize::tour;
use crate::{BuildOptions, Error, IdKind, Metric, VectorSource, row_ids};

/// Sampled rows per centroid.
const SAMPLE_PER_CENTROID: usize = 24;
const TRAIN_ROUNDS: usize = 6;

/// The results of the first pass.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) row_ids: Vec<u64>,
    /// A checksum of all vectors, in their order.
    pub(super) checksum: u32,
    pub(super) norm_sq_max: f32,
    sums: Vec<f64>,
    sample: TrainingSample,
    /// Memory of the build while kept vectors are written, without that of the vectors.
    pub(super) needed_bytes: u64,
}

impl Survey {
    /// Scans the source.
    pub(super) fn read(job: &mut Job<'_>, source: &mut dyn VectorSource) -> Result<Self, Error> {
        let dim = source.dim();
        let mut survey = Self { sums: vec![0.0; dim], ..Self::default() };
        source.scan(&mut |ids, chunk| {
            assert_eq!(ids.len() * dim, chunk.len(), "a chunk has one row for each id");
            survey.checksum = pagehop_kernels::crc32c(bytemuck::cast_slice(chunk), survey.checksum);
            for (id, row) in ids.iter().zip(chunk.chunks_exact(dim)) {
                survey.add(job.options, *id, row)?;
            }
            job.step("read", survey.row_ids.len() as u64, 0)
        })?;
        let count = survey.row_ids.len();
        if count == 0 {
            return Err(Error::argument("there are no rows to build an index over"));
        }
        refuse_repeated_ids(&survey.row_ids)?;
        if job.options.id_kind == IdKind::HostOwned {
            survey.row_ids.iter().try_for_each(|row_id| row_ids::check_hosted(*row_id))?;
        }
        Ok(survey)
    }

    /// The space of the rows.
    pub(super) fn space(&self, job: &Job<'_>) -> Space {
        let (metric, inner) = (job.options.metric, job.layout.inner_dim);
        let count = self.row_ids.len();
        let mut mean: Vec<f32> = self.sums.iter().map(|s| (s / count as f64) as f32).collect();
        mean.resize(inner, 0.0);
        if metric == Metric::InnerProduct {
            // Inner products are measured from the origin, so no mean is subtracted.
            mean.fill(0.0);
        }
        let rotation = Rotation::new(inner, job.options.seed);
        Space { metric, dim: self.sums.len(), mean, rotation }
    }

    /// Encodes the sample, and drops it. Duplicates count once: if most rows are duplicates,
    /// centroids must still separate the others.
    pub(super) fn take_sample(&mut self, space: &Space) -> Result<Codes, Error> {
        let mut codes = std::mem::take(&mut self.sample).into_codes(space)?;
        let firsts = equal::firsts(&codes);
        codes.retain(|row| firsts[row] as usize == row);
        Ok(codes)
    }

    /// Under the inner product, the squared norm to which rows are filled up (`prepare.rs`).
    pub(super) fn filled_sq(&self, metric: Metric) -> Option<f32> {
        (metric == Metric::InnerProduct).then_some(self.norm_sq_max)
    }

    fn add(&mut self, options: &BuildOptions, id: u64, row: &[f32]) -> Result<(), Error> {
        let (metric, ids, position) = (options.metric, options.id_kind, self.row_ids.len());
        let norm_sq = prepare::validate(metric, row)
            .map_err(|error| error.of_row(position, row_ids::known_number(ids, id)))?;
        self.norm_sq_max = self.norm_sq_max.max(norm_sq);
        let scale = if metric == Metric::Cosine { 1.0 / norm_sq.sqrt() } else { 1.0 };
        for (sum, x) in self.sums.iter_mut().zip(row) {
            *sum += f64::from(x * scale);
        }
        self.sample.offer(position, row, options.memory_bytes);
        self.row_ids.push(id);
        Ok(())
    }
}

/// The coarse centroids. Centroids with close numbers are near each other.
pub(super) fn train(job: &mut Job<'_>, sample: &Codes) -> Result<Codes, Error> {
    job.step("train", 0, 1)?;
    let clusters = (sample.len() / SAMPLE_PER_CENTROID).clamp(1, CENTROIDS_MAX);
    let centers = centroids::train(sample, clusters, TRAIN_ROUNDS, job.options.seed, job.threads);
    let centers = tour::in_order(&centers);
    job.step("train", 1, 1)?;
    Ok(centers)
}

fn refuse_repeated_ids(ids: &[u64]) -> Result<(), Error> {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) else { return Ok(()) };
    let id = pair[0];
    let mut rows = (0..ids.len()).filter(|row| ids[*row] == id);
    let [first, next] = [rows.next(), rows.next()].map(|row| row.expect("two rows have it"));
    Err(Error::argument(format!("id {id} is given to rows {first} and {next}; each row needs an id of its own")))
}

/// A later scan of the source, which must give the rows of the first.
pub(super) struct Rescan<'s> {
    survey: &'s Survey,
    done: usize,
    checksum: u32,
}

impl<'s> Rescan<'s> {
    /// A later scan of the source that was surveyed.
    pub(super) fn of(survey: &'s Survey) -> Self {
        Self { survey, done: 0, checksum: 0 }
    }

    /// Takes the next rows; returns the position of the first.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if they have other ids.
    pub(super) fn take(&mut self, ids: &[u64], chunk: &[f32]) -> Result<usize, Error> {
        let first = self.done;
        if self.survey.row_ids.get(first..first + ids.len()) != Some(ids) {
            return Err(changed("other rows"));
        }
        self.done += ids.len();
        self.checksum = pagehop_kernels::crc32c(bytemuck::cast_slice(chunk), self.checksum);
        Ok(first)
    }

    /// Ends the scan.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if it gave fewer rows than the first, or other vectors.
    pub(super) fn end(self) -> Result<(), Error> {
        if self.done != self.survey.row_ids.len() {
            return Err(changed("fewer rows"));
        }
        if self.checksum != self.survey.checksum {
            return Err(changed("other vectors"));
        }
        Ok(())
    }
}

/// The error for a source that did not give the same twice.
fn changed(what: &str) -> Error {
    let next = "build again while nothing changes the source";
    Error::argument(format!("a later scan of the source gave {what} than the first; {next}"))
}
