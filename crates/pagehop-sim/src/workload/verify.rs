//! Compares an open index with a version of the model.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use pagehop_engine::{
    Cursor, Error, Filter, Index, Metric, Pages, SearchOptions, SearchPlan, SearchResult, Vectors,
};

use super::columns::passes;
use super::data::{self, Row, Rows};
use super::ids;
use super::model::Version;
use super::outcome::{Outcome, Trouble};

/// Options of a search that visits every node.
pub(super) const EVERYTHING: SearchOptions =
    SearchOptions { search_list: 100_000, slack: f32::INFINITY, beam_width: 4 };
const K: usize = 10;

/// The queries with which an index is compared with the model.
pub(super) struct Queries {
    pub(super) query: Arc<[f32]>,
    pub(super) filters: Vec<Filter>,
}

/// An open cursor, and the version whose rows it must return.
pub(super) struct OpenCursor<'i, P: Pages + 'i> {
    cursor: Cursor<'i, P>,
    query: Arc<[f32]>,
    metric: Metric,
    version: Version,
    found: BTreeSet<u64>,
    is_drained: bool,
    are_texts: bool,
}

/// Returns a violation unless `so` is true.
pub(super) fn ensure(so: bool, what: impl FnOnce() -> String) -> Result<(), Trouble> {
    if so { Ok(()) } else { Err(Trouble::Violation(what())) }
}

impl<'i, P: Pages> OpenCursor<'i, P> {
    pub(super) fn open(
        index: &'i Index<P>,
        metric: Metric,
        query: Arc<[f32]>,
        version: &Version,
    ) -> Result<Self, Error> {
        let cursor = index.cursor(&query, &EVERYTHING)?;
        let (version, are_texts) = (version.clone(), ids::are_texts(index)?);
        Ok(Self { cursor, query, metric, version, found: BTreeSet::new(), is_drained: false, are_texts })
    }

    /// Takes up to `most` rows from the cursor and checks them.
    pub(super) fn advance(&mut self, most: usize) -> Result<(), Trouble> {
        for _ in 0..most {
            let Some(hit) = self.cursor.next_hit()? else {
                self.is_drained = true;
                return Ok(());
            };
            let id = ids::of_cursor(&mut self.cursor, &hit, self.are_texts)?;
            check_hit(&self.version, self.metric, &self.query, id, hit.distance)?;
            ensure(self.found.insert(id), || format!("a cursor gave row {id} twice"))?;
        }
        Ok(())
    }

    /// Takes all remaining rows. The cursor must have returned every row of the version.
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
    let expected = data::distance(metric, query, &row.vector);
    let off = (expected - f64::from(distance)).abs();
    ensure(off <= data::tolerance(metric, query, &row.vector), || {
        format!("row {id}: distance {distance}, expected {expected} ({metric:?}, version {})", version.number)
    })
}

/// Compares one search with brute force.
pub(super) fn search<P: Pages>(
    index: &Index<P>,
    metric: Metric,
    query: &[f32],
    version: &Version,
    outcome: &mut Outcome,
) -> Result<(SearchResult, Vec<u64>), Trouble> {
    let options = SearchOptions { search_list: 200, slack: f32::INFINITY, beam_width: 4 };
    let (result, ids) = ids::search(index, || index.search_with(query, K, &options))?;
    let hits = &result.hits;
    let rows: &Rows = &version.rows;
    let kth = data::kth_distance(rows.values(), metric, query, K.min(rows.len()).max(1));
    let mut seen = BTreeSet::new();
    for (hit, id) in hits.iter().zip(&ids) {
        check_hit(version, metric, query, *id, hit.distance)?;
        ensure(seen.insert(*id), || format!("a search gave row {id} twice"))?;
        let row = &rows[id].vector;
        let is_near = data::distance(metric, query, row) <= kth + data::tolerance(metric, query, row) / 2.0;
        outcome.near_found += u64::from(is_near);
    }
    let ordered =
        hits.windows(2).all(|pair| (pair[0].distance, pair[0].row_id) <= (pair[1].distance, pair[1].row_id));
    ensure(ordered, || format!("hits are not sorted: {hits:?}"))?;
    let expected = rows.len().min(K);
    ensure(hits.len() == expected, || format!("a search for {K} of {} rows found {}", rows.len(), hits.len()))?;
    outcome.near_wanted += expected as u64;
    Ok((result, ids))
}

/// Compares searches with a filter with brute force: exact searches, and one with the default
/// options, which must find as many rows.
pub(super) fn filtered<P: Pages>(
    index: &Index<P>,
    metric: Metric,
    query: &[f32],
    filter: &Filter,
    version: &Version,
) -> Result<(), Trouble> {
    let mut searcher = index.searcher();
    let plan = searcher.plan_filter(filter)?;
    let passing: Vec<(&u64, &Row)> =
        version.rows.iter().filter(|(id, row)| passes(filter, **id, &row.values) == Some(true)).collect();
    let number = version.number;
    for (k, options) in [(K, None), (K, Some(SearchOptions::default())), (10 * K, None)] {
        let how = options.clone().map_or_else(SearchPlan::exact, SearchPlan::from);
        let (result, ids) = ids::search(index, || searcher.answer(query, k, &how, Some(&plan)))?;
        let hits = result.hits;
        let what = |text: String| {
            let way = if options.as_ref().is_some_and(|options| plan.reads_postings(k, options.slack)) {
                "postings"
            } else {
                "a walk"
            };
            let expected: Vec<u64> = passing.iter().map(|row| *row.0).collect();
            format!("{filter:?} by {way} with {options:?}, version {number}: {text}; {ids:?} of {expected:?}")
        };
        let expected = passing.len().min(k);
        ensure(hits.len() == expected, || what(format!("{} rows, expected {expected}", hits.len())))?;
        let kth = data::kth_distance(passing.iter().map(|row| row.1), metric, query, k);
        let mut seen = BTreeSet::new();
        for (hit, id) in hits.iter().zip(&ids) {
            check_hit(version, metric, query, *id, hit.distance)?;
            ensure(seen.insert(*id), || what(format!("row {id} twice")))?;
            let row = &version.rows[id];
            let is_passing = passes(filter, *id, &row.values) == Some(true);
            ensure(is_passing, || what(format!("row {id} does not pass: {:?}", row.values)))?;
            let near = kth + 2.0 * data::tolerance(metric, query, &row.vector);
            let is_near = data::distance(metric, query, &row.vector) <= near;
            ensure(options.is_some() || is_near, || what(format!("row {id} is not near")))?;
        }
        let ordered =
            hits.windows(2).all(|pair| (pair[0].distance, pair[0].row_id) <= (pair[1].distance, pair[1].row_id));
        ensure(ordered, || what(format!("hits are not sorted: {hits:?}")))?;
    }
    Ok(())
}

/// Compares the ids and the payloads of the rows that a search of `version` found. If the version
/// is not the newest, the index may return `None` for them.
pub(super) fn rows_of<P: Pages>(
    index: &Index<P>,
    (result, ids): (&SearchResult, &[u64]),
    version: &Version,
    is_newest: bool,
) -> Result<(), Trouble> {
    let found = ids::found(index, result)?;
    let is_right = found.as_ref().map_or(!is_newest, |found| found == ids);
    ensure(is_right, || format!("version {}: ids {ids:?} are {found:?} later", version.number))?;
    if !index.keeps_payloads() {
        return Ok(());
    }
    let found = index.payloads_of(result)?;
    let expected = ids.iter().map(|id| version.rows[id].payload.as_deref());
    let is_right = match &found {
        Some(found) => found.iter().map(Option::as_deref).eq(expected),
        None => !is_newest,
    };
    ensure(is_right, || format!("version {}: payloads of {:?} are {found:?}", version.number, result.hits))
}

/// Compares all payloads with those of `version`.
fn payloads<P: Pages>(index: &Index<P>, version: &Version) -> Result<(), Trouble> {
    let ids: Vec<u64> = version.rows.keys().copied().collect();
    for (id, found) in ids.iter().zip(ids::payloads(index, &ids)?) {
        let expected = version.rows[id].payload.as_deref();
        ensure(found.as_deref() == expected, || {
            let (found, expected) = (found.as_ref().map(Vec::len), expected.map(<[u8]>::len));
            format!("row {id} has a payload of {found:?} bytes, expected {expected:?}, version {}", version.number)
        })?;
    }
    Ok(())
}

/// The number of the version in the index, from its mark.
pub(super) fn number_of<P: Pages>(index: &Index<P>) -> Result<u64, Error> {
    Ok(index.info()?.mark[0])
}

/// Compares the kept vectors with those of `version`.
fn kept<P: Pages>(index: &Index<P>, vectors: Vectors, version: &Version) -> Result<(), Trouble> {
    // Whether a component differs by more than half precision allows.
    let differs = |given: &f32, kept: &f32| match vectors {
        Vectors::Codes => false,
        Vectors::Float16 => (given - kept).abs() > given.abs() / 2048.0 + f32::from(2u8).powi(-25),
        Vectors::Float32 => given.to_bits() != kept.to_bits(),
    };
    if vectors == Vectors::Codes {
        return Ok(());
    }
    for (id, row) in version.rows.iter() {
        let found = ids::vectors(index, &[*id])?;
        let same = found.len() == row.vector.len() && !row.vector.iter().zip(&found).any(|(a, b)| differs(a, b));
        ensure(same, || format!("row {id} has the vector {:?}, kept is {found:?}", row.vector))?;
    }
    Ok(())
}

/// Compares the counts of the index, all its rows, and searches with filters, with `version`.
pub(super) fn every_row<P: Pages>(
    index: &Index<P>,
    metric: Metric,
    queries: &Queries,
    version: &Version,
) -> Result<(), Trouble> {
    let query = &queries.query;
    let (info, rows) = (index.info()?, version.rows.len());
    ensure(info.mark[0] == version.number, || {
        format!("the index is of version {}, expected {}", info.mark[0], version.number)
    })?;
    ensure(info.rows == rows as u64 && info.dim == query.len() && info.metric == metric, || {
        format!("version {} has {rows} rows, the index says {info:?}", version.number)
    })?;
    kept(index, info.vectors, version)?;
    if info.payload {
        payloads(index, version)?;
    }
    OpenCursor::open(index, metric, Arc::clone(query), version)?.drain()?;
    queries.filters.iter().try_for_each(|filter| filtered(index, metric, query, filter, version))
}

/// Compares everything with `version`: the counts of the index, every row, and searches with
/// filters. Also runs the check of the index itself.
pub(super) fn everything<P: Pages>(
    index: &Index<P>,
    metric: Metric,
    queries: &Queries,
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
    let ids = ids::all(index)?;
    ensure(ids.iter().eq(version.rows.keys()), || format!("version {}: the ids are {ids:?}", version.number))?;
    every_row(index, metric, queries, version)?;
    outcome.checks += 1;
    Ok(())
}
