//! One partition in memory: its own rows and its guests, connected as a build in memory connects
//! all rows.
//!
//! Own rows are refined by a search each, guests are not: the partition that a guest belongs to
//! does that. So a build in partitions takes hardly more time for a row than one in memory.

use super::files::RowFile;
use super::finished::Finished;
use super::route::Partitions;
use crate::Error;
use crate::graph::edge_table::EdgeTable;
use crate::graph::key;
use crate::index::build::connect::connect;
use crate::index::build::job::Job;
use crate::index::build::rows::{EncodedRows, NearestRows, Rows};
use crate::quantize::centroids::Centroids;
use crate::quantize::codes::Codes;

/// The rows of a partition: own rows, then guests, each in their order. Of equal rows only the
/// first is one of them.
pub(super) struct Partition {
    pub(super) rows: Vec<u32>,
    /// Number of own rows, which come first.
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

    /// Connects the rows.
    pub(super) fn connect(
        &self,
        job: &mut Job<'_>,
        number: usize,
        (table, centroids, centers): (&EdgeTable, &Centroids, &Codes),
    ) -> Result<Finished, Error> {
        let guests = self.rows.len() - self.own_count;
        if self.own_count == 0 {
            return Ok(Finished::new(number, 0, 0));
        }
        let mut finished = Finished::new(number, self.own_count, guests);
        let table = table.gather(&self.rows);
        let mut nearest = NearestRows::of(centers);
        nearest.add(&self.codes, centers, &table.all_centroids());
        let encoded = EncodedRows { table, centroids: centroids.clone(), entries: nearest.entries() };
        let own = Rows::new(encoded, self.codes.dim, (0..self.rows.len() as u32).collect());
        let found = connect(job, &self.codes, &own, self.own_count)?;
        for (at, row) in self.rows.iter().enumerate() {
            let edges = found.neighbors(at).iter();
            if at < self.own_count {
                finished.push_own(*row, edges.map(|other| self.rows[*other as usize]));
            } else {
                let offer =
                    |other: &u32| key(self.codes.hi_distance(at, *other as usize), self.rows[*other as usize]);
                finished.push_guest(*row, edges.map(offer));
            }
        }
        Ok(finished)
    }
}
