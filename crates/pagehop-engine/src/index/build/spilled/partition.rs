//! One partition in memory: its own rows and its guests, connected as a build in memory connects
//! all rows.
//!
//! Own rows are refined by a search each, guests are not: the partition that a guest belongs to
//! does that. So a build in partitions takes hardly more time for a row than one in memory.

use super::files::{LetterFile, RowFile};
use super::route::Partitions;
use crate::Error;
use crate::graph::refine::EdgeTable;
use crate::graph::{Graph, key};
use crate::index::build::connect::connect;
use crate::index::build::job::Job;
use crate::index::build::rows::{Encoded, NearestRows, Rows};
use crate::quantize::centroids::Centroids;
use crate::quantize::codes::Codes;

/// The rows of a partition: own rows, then guests, each in their order. Of equal rows only the
/// first is one of them.
pub(super) struct Partition {
    pub(super) rows: Vec<u32>,
    /// How many are own rows.
    pub(super) own_count: usize,
    /// Codes without low planes.
    pub(super) codes: Codes,
    /// Own rows that equal an earlier one.
    pub(super) duplicates: Vec<u32>,
}

impl Partition {
    /// Reads partition `number` from its file.
    pub(super) fn load(
        file: &mut RowFile,
        number: usize,
        partitions: &Partitions,
        firsts: &[u32],
        (inner_dim, filled_sq): (usize, Option<f32>),
    ) -> Result<Self, Error> {
        let empty = || Codes { filled_sq, ..Codes::new(inner_dim) };
        let (mut rows, mut codes, mut duplicates) = (Vec::new(), empty(), Vec::new());
        let (mut guest_rows, mut guests) = (Vec::new(), empty());
        file.scan(&mut |record| {
            let row = record.row as usize;
            if firsts[row] != record.row {
                duplicates.push(record.row);
            } else if usize::from(partitions.home[row]) == number {
                rows.push(record.row);
                codes.push_hi(record.own, record.hi);
            } else {
                guest_rows.push(record.row);
                guests.push_hi(record.own, record.hi);
            }
            Ok(())
        })?;
        let own_count = rows.len();
        rows.append(&mut guest_rows);
        codes.append(guests);
        Ok(Self { rows, own_count, codes, duplicates })
    }

    /// Connects the rows. Puts the edges of own rows into `graph`, and sends those of guests to the
    /// partitions that they belong to.
    pub(super) fn connect(
        &self,
        job: &mut Job<'_>,
        (table, centroids, centers): (&EdgeTable, &Centroids, &Codes),
        partitions: &Partitions,
        graph: &mut Graph,
        letters: &mut [LetterFile],
    ) -> Result<(), Error> {
        if self.own_count == 0 {
            return Ok(());
        }
        let table = table.gather(&self.rows);
        let mut nearest = NearestRows::of(centers);
        nearest.add(&self.codes, centers, &table.centroid);
        let encoded = Encoded { table, centroids: centroids.clone(), entries: nearest.entries() };
        let own = Rows::new(encoded, self.codes.dim, (0..self.rows.len() as u32).collect());
        let found = connect(job, &self.codes, &own, self.own_count)?;
        let mut edges = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            edges.clear();
            if at < self.own_count {
                edges.extend(found.neighbors(at).iter().map(|other| self.rows[*other as usize]));
                graph.set(*row as usize, &edges);
                continue;
            }
            let offers = found
                .neighbors(at)
                .iter()
                .map(|other| key(self.codes.hi_distance(at, *other as usize), self.rows[*other as usize]));
            let offers: Vec<u64> = offers.collect();
            letters[usize::from(partitions.home[*row as usize])].push(*row, &offers)?;
        }
        Ok(())
    }
}
