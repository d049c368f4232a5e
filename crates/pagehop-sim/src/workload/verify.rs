//! Compares an open index with a version of the model.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use pagehop_engine::{Cursor, Error, Index, Metric, SearchOptions};
use pagehop_store::IndexFile;

use super::data::{self, Rows};
use super::model::Version;
use super::outcome::{Outcome, Trouble};

/// Options of a search that visits every node.
pub(super) const EVERYTHING: SearchOptions =
    SearchOptions { search_list: 100_000, slack: f32::INFINITY, beam_width: 4 };
const K: usize = 10;

type Pages<'p> = &'p IndexFile;

/// An open cursor, and the version whose rows it must return.
pub(super) struct OpenCursor<'i, 'p> {
    cursor: Cursor<'i, Pages<'p>>,
    query: Arc<[f32]>,
    metric: Metric,
    version: Version,
    found: BTreeSet<u64>,
    is_drained: bool,
}

/// Fails unless `so`.
pub(super) fn ensure(so: bool, what: impl FnOnce() -> String) -> Result<(), Trouble> {
    if so { Ok(()) } else { Err(Trouble::Violation(what())) }
}

impl<'i, 'p> OpenCursor<'i, 'p> {
    pub(super) fn open(
        index: &'i Index<Pages<'p>>,
        metric: Metric,
        query: Arc<[f32]>,
        version: &Version,
    ) -> Result<Self, Error> {
        let cursor = index.cursor(&query, &EVERYTHING)?;
        Ok(Self { cursor, query, metric, version: version.clone(), found: BTreeSet::new(), is_drained: false })
    }

    /// Takes up to `most` rows and checks them.
    pub(super) fn advance(&mut self, most: usize) -> Result<(), Trouble> {
        for _ in 0..most {
            let Some(hit) = self.cursor.next_hit()? else {
                self.is_drained = true;
                return Ok(());
            };
            check_hit(&self.version, self.metric, &self.query, hit.row_id, hit.distance)?;
            ensure(self.found.insert(hit.row_id), || format!("a cursor gave row {} twice", hit.row_id))?;
        }
        Ok(())
    }

    /// Takes all remaining rows. Every row of the version must have come.
    pub(super) fn drain(mut self) -> Result<(), Trouble> {
        self.advance(usize::MAX)?;
        let rows = &self.version.rows;
        let missing: Vec<u64> = rows.keys().filter(|id| !self.found.contains(id)).copied().collect();
        ensure(missing.is_empty(), || {
            let number = self.version.number;
            format!("a cursor of version {number} missed {} of {} rows: {missing:?}", missing.len(), rows.len())
        })
    }
}

fn check_hit(version: &Version, metric: Metric, query: &[f32], id: u64, distance: f32) -> Result<(), Trouble> {
    let Some(row) = version.rows.get(&id) else {
        let number = version.number;
        return Err(Trouble::Violation(format!("found row {id}, which is not in version {number}")));
    };
    let expected = data::distance(metric, query, row);
    let off = (expected - f64::from(distance)).abs();
    ensure(off <= data::tolerance(metric, query, row), || {
        format!("row {id}: distance {distance}, expected {expected} ({metric:?}, version {})", version.number)
    })
}

/// Compares one search with brute force.
pub(super) fn search(
    index: &Index<Pages<'_>>,
    metric: Metric,
    query: &[f32],
    version: &Version,
    outcome: &mut Outcome,
) -> Result<(), Trouble> {
    let options = SearchOptions { search_list: 200, slack: f32::INFINITY, beam_width: 4 };
    let hits = index.search(query, K, &options)?.hits;
    let rows: &Rows = &version.rows;
    let kth = data::kth_distance(rows, metric, query, K.min(rows.len()).max(1));
    let mut seen = BTreeSet::new();
    for hit in &hits {
        check_hit(version, metric, query, hit.row_id, hit.distance)?;
        ensure(seen.insert(hit.row_id), || format!("a search gave row {} twice", hit.row_id))?;
        let row = &rows[&hit.row_id];
        let is_near = data::distance(metric, query, row) <= kth + data::tolerance(metric, query, row) / 2.0;
        outcome.near_found += u64::from(is_near);
    }
    let ordered =
        hits.windows(2).all(|pair| (pair[0].distance, pair[0].row_id) <= (pair[1].distance, pair[1].row_id));
    ensure(ordered, || format!("hits are not sorted: {hits:?}"))?;
    let expected = rows.len().min(K);
    ensure(hits.len() == expected, || format!("a search for {K} of {} rows found {}", rows.len(), hits.len()))?;
    outcome.near_wanted += expected as u64;
    Ok(())
}

/// The number of the version that the index has in its mark.
pub(super) fn number_of(index: &Index<Pages<'_>>) -> Result<u64, Error> {
    Ok(index.info()?.mark[0])
}

/// Compares the counts of the index and all of its rows with `version`.
pub(super) fn every_row(
    index: &Index<Pages<'_>>,
    metric: Metric,
    query: &Arc<[f32]>,
    version: &Version,
) -> Result<(), Trouble> {
    let (info, rows) = (index.info()?, version.rows.len());
    ensure(info.mark[0] == version.number, || {
        format!("the index is of version {}, expected {}", info.mark[0], version.number)
    })?;
    ensure(info.rows == rows as u64 && info.dim == query.len() && info.metric == metric, || {
        format!("version {} has {rows} rows, the index says {info:?}", version.number)
    })?;
    OpenCursor::open(index, metric, Arc::clone(query), version)?.drain()
}

/// Compares everything about the index with `version`: the index's own check, its counts, and every
/// row.
pub(super) fn everything(
    index: &Index<Pages<'_>>,
    metric: Metric,
    query: &Arc<[f32]>,
    version: &Version,
    outcome: &mut Outcome,
) -> Result<(), Trouble> {
    let info = index.info()?;
    let report = index.check(&mut |_| ControlFlow::Continue(())).map_err(|error| match error {
        Error::Io { .. } | Error::Full { .. } => Trouble::Error(error),
        error => Trouble::Violation(format!("check of version {}: {error}", version.number)),
    })?;
    let counts = (report.nodes, report.dead_nodes, report.free_slots);
    ensure(counts == (info.rows, info.dead_rows, info.free_slots), || format!("{report:?} but {info:?}"))?;
    ensure(report.nodes == report.anchored && report.nodes == report.reachable, || {
        format!("some rows cannot be reached: {report:?}")
    })?;
    every_row(index, metric, query, version)?;
    outcome.checks += 1;
    Ok(())
}
