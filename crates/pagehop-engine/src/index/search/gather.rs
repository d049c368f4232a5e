//! The rows that may pass a filter, with estimates of their distances: from the postings of its
//! runs.

use crate::columns::ColumnKind;
use crate::graph::key;
use crate::index::search::filter_plan::{FilterPlan, Run, tree_of};
use crate::index::search::shortlist::Shortlist;
use crate::index::search::visit::Probe;
use crate::index::state::State;
use crate::page::postings::{PostingKey, PostingLeaf};
use crate::page::{PageId, Reader, id_map};
use crate::quantize::estimate::DEGREE_MAX;
use crate::{Error, RowIds, Stats};

/// Offers every row of the runs that may pass to `list`.
pub(crate) fn gather<R: Reader>(
    state: &State,
    reader: &mut R,
    probe: &mut Probe,
    filter: &FilterPlan,
    list: &mut Shortlist,
    stats: &mut Stats,
) -> Result<(), Error> {
    for run in filter.runs.iter().flat_map(|runs| runs.iter()) {
        match run {
            Run::Postings { column, low, high } => {
                postings(state, reader, probe, filter, (*column, *low, *high), list, stats)?;
            }
            Run::Ids(ids) => offer_ids(state, reader, ids, list)?,
        }
    }
    Ok(())
}

/// Offers the postings of a run that pass.
fn postings<R: Reader>(
    state: &State,
    reader: &mut R,
    probe: &mut Probe,
    filter: &FilterPlan,
    (column, low, high): (usize, PostingKey, PostingKey),
    list: &mut Shortlist,
    stats: &mut Stats,
) -> Result<(), Error> {
    let Some(tree) = tree_of(state, column) else { return Ok(()) };
    let test = Some(&*filter.test).filter(|test| !test.needs_id());
    let passes = |leaf: &PostingLeaf<'_>, at| test.is_none_or(|test| test.passes(0, leaf.values(at)));
    // Of other columns the test has the whole condition. A word of tags may pass without the tag.
    let is_of_tags = state.columns.columns[column].kind == ColumnKind::Tags;
    let in_run = |leaf: &PostingLeaf<'_>, at| !is_of_tags || (low..=high).contains(&leaf.key(at, column));
    let each = |page: PageId, leaf: &PostingLeaf<'_>| {
        stats.pages_read += 1;
        stats.estimates += leaf.count() as u64;
        offer_leaf(probe, state, (page, leaf), |at| in_run(leaf, at) && passes(leaf, at), list)
    };
    if state.meta.row_ids == RowIds::HostOwned {
        // Other backends add pages, and the meta page learns of them later.
        return tree.scan_shared(reader, u32::MAX, (low, high), each);
    }
    tree.scan(reader, state.meta.page_count, (low, high), each).map(|_| ())
}

/// Offers the nodes of rows by their ids, without estimates: all of them are visited.
fn offer_ids<R: Reader>(state: &State, reader: &mut R, ids: &[u64], list: &mut Shortlist) -> Result<(), Error> {
    let root = PageId(state.meta.change.id_root);
    if root.0 == 0 {
        return Ok(());
    }
    for id in ids {
        if let (_, Some(node)) = id_map::find(reader, root, *id)? {
            reader.start(state.meta.layout.place(node).0, 0..0);
            list.offer(key(0.0, node));
        }
        reader.release();
    }
    Ok(())
}

/// Offers the postings of a leaf that pass.
fn offer_leaf(
    probe: &mut Probe,
    state: &State,
    (page, leaf): (PageId, &PostingLeaf<'_>),
    passes: impl Fn(usize) -> bool,
    list: &mut Shortlist,
) -> Result<(), Error> {
    for (block, (count, edges)) in leaf.blocks().enumerate() {
        let mut estimates = [0.0; DEGREE_MAX];
        let estimates = &mut estimates[..count];
        if probe.estimate_edges(&state.model, edges, estimates).is_none() {
            return Err(Error::corrupt(page, "a posting names an unknown centroid"));
        }
        for (at, estimate) in estimates.iter().enumerate() {
            let at = block * DEGREE_MAX + at;
            let candidate = key(*estimate, leaf.node(at));
            if candidate >= list.bound() || passes(at) {
                list.offer(candidate);
            }
        }
    }
    Ok(())
}
