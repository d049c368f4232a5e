//! A build of more rows than memory has room for.
//!
//! The edge code and the edges of every row are small and stay in memory. Own codes, four fifths of
//! what a build in memory needs, go to scratch files:
//!
//! ```text
//! encode   own codes to a file, in the order of rows; the nearest cells of each row
//! spread   that file to a file for each partition, guests included
//! connect  for each partition: leaves, prune, reverse edges and refinement, as in memory;
//!          the edges of guests as letters to their own partitions
//! merge    for each partition: choose among own edges and offered ones, link duplicates, put
//!          neighbors on pages
//! reach    attach what no search would find, choose anchors, over all edges
//! write    for each partition: read codes again, write its pages
//! ```
//!
//! Every file is written and read from its beginning to its end, and goes when it was read for the
//! last time.
//!
//! | file | subject |
//! |---|---|
//! | `plan.rs` | the sizes that fit in memory: of a partition, of buffers, of caches |
//! | `files.rs` | files of rows and of letters |
//! | `route.rs` | the partition of a row, and the other partition in which it is a guest |
//! | `partition.rs`, `finished.rs` | connects one partition; its edges and letters, which a host may keep |
//! | `merge.rs` | chooses among own and offered edges; the pages of a partition |
//! | `own.rs` | own codes, read again when nodes are written |

pub(super) mod files;
mod finished;
mod merge;
mod own;
mod partition;
pub(super) mod plan;
mod route;

use super::anchors::anchors;
use super::job::Job;
use super::order::PageOrder;
use super::rows::{self, EncodedRows, Rows};
use super::survey::Survey;
use super::write::{Connected, OwnCodes};
use crate::graph::{Adjacency, equal, reach};
use crate::page::Scratch;
use crate::quantize::codes::Codes;
use crate::quantize::prepare::Space;
use crate::{Error, Metric, VectorSource};
use files::{BUFFER_BYTES, FiledRow, LetterFile, RowFile};
use finished::{Finished, Key};
use own::SpilledCodes;
use partition::Partition;
use plan::Plan;
use route::{Partitions, Routing};

/// Rows between two calls of the progress callback.
const LOOK_ROWS: usize = 1 << 14;

/// The state of a spilled build, which its partitions share.
struct Spilled<'a> {
    plan: &'a Plan,
    scratch: &'a dyn Scratch,
    centers: &'a Codes,
    /// The codes' dimensions, and the squared norm to which they are filled up.
    shape: (usize, Option<f32>),
    firsts: Vec<u32>,
    partitions: Partitions,
    files: Vec<RowFile>,
    /// Identifies the build to a host that keeps finished partitions of a killed one.
    key: u64,
}

/// Connects rows whose own codes are put aside.
pub(super) fn connect(
    job: &mut Job<'_>,
    source: &mut dyn VectorSource,
    survey: &Survey,
    (space, centers, sample): (&Space, &Codes, Codes),
    plan: &Plan,
    scratch: &dyn Scratch,
) -> Result<(Connected, Box<dyn OwnCodes>), Error> {
    let (total, inner_dim) = (survey.row_ids.len(), job.layout.inner_dim);
    let by_angle = space.metric == Metric::InnerProduct;
    let mut routing = Routing::train(job, &sample, total, by_angle);
    drop(sample);
    let (mut all, mut places) = (RowFile::new(scratch, inner_dim, BUFFER_BYTES)?, equal::Places::default());
    let filled_sq = survey.filled_sq(space.metric);
    let (mut row, workers, mut key) = (0, job.threads, Key::of(job, centers, filled_sq));
    let encoded = rows::encode(job, source, survey, (space, centers), &mut |codes| {
        routing.add(&codes, workers);
        places.add(&codes);
        key.add(&codes);
        for at in 0..codes.len() {
            all.push(&FiledRow { row, own: codes.own[at], hi: codes.hi(at), lo: codes.lo(at) })?;
            row += 1;
        }
        Ok(())
    })?;
    job.step("spread", 0, total as u64)?;
    let firsts = places.firsts();
    let partitions = routing.partitions(&firsts, plan.capacity, || job.step("spread", 0, total as u64))?;
    let partitions = partitions.map_err(|together| plan.too_dense(job, total, together))?;
    let file = |_| RowFile::new(scratch, inner_dim, plan.spread_bytes(partitions.count));
    let files = (0..partitions.count).map(file).collect::<Result<_, _>>()?;
    let (shape, key) = ((inner_dim, filled_sq), key.finish(&firsts, &partitions));
    let mut spilled = Spilled { plan, scratch, centers, shape, firsts, partitions, files, key };
    spilled.spread(job, all)?;
    spilled.finish(job, encoded)
}

impl Spilled<'_> {
    /// Copies each row to the files of its partitions.
    fn spread(&mut self, job: &mut Job<'_>, mut all: RowFile) -> Result<(), Error> {
        let Self { firsts, partitions, files, .. } = self;
        let total = firsts.len() as u64;
        all.scan(&mut |record| {
            let row = record.row as usize;
            let [home, visited] = [&partitions.home, &partitions.visited].map(|of| usize::from(of[row]));
            files[home].push(record)?;
            if visited != home && firsts[row] == record.row {
                files[visited].push(record)?;
            }
            if row.is_multiple_of(LOOK_ROWS) { job.step("spread", row as u64, total) } else { Ok(()) }
        })?;
        files.iter_mut().try_for_each(RowFile::flush)
    }

    fn load(&mut self, number: usize) -> Result<Partition, Error> {
        Partition::load(&mut self.files[number], number, &self.partitions, &self.firsts, self.shape)
    }

    /// Connects partition after partition, after those that a killed build has finished. Returns
    /// all edges and the letters to each partition.
    fn connect(&mut self, job: &mut Job<'_>, encoded: &EncodedRows) -> Result<(Adjacency, Vec<LetterFile>), Error> {
        let (total, count, degree) = (self.firsts.len(), self.partitions.count, job.layout.degree);
        let mut graph = Adjacency::new(total, degree);
        let letters = (0..count).map(|_| LetterFile::new(self.scratch));
        let mut letters = letters.collect::<Result<Vec<_>, _>>()?;
        (job.before, job.total) = (0, total as u64);
        let mut own = vec![0; count];
        self.partitions.home.iter().for_each(|home| own[usize::from(*home)] += 1);
        let (mut done, partitions) = (0, &self.partitions);
        self.scratch.resume(self.key, &mut |bytes| {
            let Some(finished) = Finished::read(bytes, done, partitions, degree) else { return Ok(false) };
            finished.apply(partitions, &mut graph, &mut letters)?;
            job.before += own[done];
            done += 1;
            job.step_rows("resume", 0)?;
            Ok(true)
        })?;
        for (number, own) in own.iter().enumerate().skip(done) {
            let partition = self.load(number)?;
            let known = (&encoded.table, &encoded.centroids, self.centers);
            let finished = partition.connect(job, number, known)?;
            finished.apply(&self.partitions, &mut graph, &mut letters)?;
            self.scratch.keep(finished.bytes())?;
            job.before += own;
        }
        Ok((graph, letters))
    }

    /// Connects each partition, merges the letters between them, and attaches rows that no search
    /// would find.
    fn finish(mut self, job: &mut Job<'_>, encoded: EncodedRows) -> Result<(Connected, Box<dyn OwnCodes>), Error> {
        let (mut graph, letters) = self.connect(job, &encoded)?;
        let (total, count) = (self.firsts.len(), self.partitions.count);
        let (mut order, mut pages) = (PageOrder::default(), Vec::with_capacity(count));
        let mut places = vec![merge::ABSENT; total];
        for (number, mut letters) in letters.into_iter().enumerate() {
            job.step("merge", number as u64, count as u64)?;
            let partition = self.load(number)?;
            merge::read_letters(&mut graph, &partition, &letters.read()?, &mut places, job.threads);
            let first = order.len();
            let per_page = job.layout.nodes_per_page;
            merge::add_pages(
                &mut graph,
                &partition,
                (&self.firsts, &mut places),
                (per_page, job.threads),
                &mut order,
                || job.step("merge", number as u64, count as u64),
            )?;
            pages.push(first..order.len());
        }
        job.step("merge", count as u64, count as u64)?;
        let Self { plan, shape: (inner_dim, _), firsts, files, .. } = self;
        let rows = Rows::new(encoded, inner_dim, firsts);
        let entries: Vec<u32> = rows.entries.iter().map(|entry| entry.node).collect();
        job.before = 0;
        reach::attach_unreachable(&mut graph, &entries, |done| job.step_rows("reach", done))?;
        // Edges are sorted by usefulness, which is nearly the order of their lengths.
        let distance = |_: usize, _: usize, slot: usize| slot as f32;
        let anchors = anchors(&graph, &rows.entries, distance, |done| job.step_rows("anchor", done))?;
        let window_rows = plan.partition_bytes() as usize / Codes::row_bytes(inner_dim);
        let (files, codes) = (files.into_iter().map(Some).collect(), Codes::new(inner_dim));
        let own = SpilledCodes { files, pages, window_rows, codes, places, rows: Vec::new() };
        Ok((Connected { rows, graph, order, anchors }, Box::new(own)))
    }
}
