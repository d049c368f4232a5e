//! The rows that may pass a filter, with estimates of their distances: from the postings of its
//! runs. The leaves that may have the nearest are read first.

use crate::columns::ColumnKind;
use crate::graph::{key, key_distance};
use crate::index::search::filter::plan::{FilterPlan, LEAVES_WHOLE, Run};
use crate::index::search::filter::shares::tree_of;
use crate::index::search::filter::walls::{self, Walls};
use crate::index::search::shortlist::Shortlist;
use crate::index::search::visit::Probe;
use crate::index::state::State;
use crate::memory::MakeRoom;
use crate::page::column_inner::{SeenInner, have_shape};
use crate::page::column_tree::Tree;
use crate::page::leaf_ranges::{LeafRange, leaf_ranges};
use crate::page::postings::{PostingKey, PostingLeaf};
use crate::page::{PageId, Reader, id_map};
use crate::quantize::estimate::DEGREE_MAX;
use crate::{Error, IdKind, Stats};

/// How often leaves are read again because pages were split or merged in between.
const TRIES_MAX: usize = 1000;
/// Leaves that are prefetched.
const LEAVES_AHEAD: usize = 16;

/// The extent to which runs are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GatherExtent {
    /// The number of rows to find.
    pub(crate) k: usize,
    /// How far walls may be: see [`Walls::limit`]. Infinite: all leaves are read.
    pub(crate) width: f32,
    /// A lower bound that is assumed for the squared distance of the farthest of these rows.
    pub(crate) reach_min: f32,
    /// No leaf is read once the search has read this many nodes and pages.
    pub(crate) reads_max: u64,
}

/// The part of the runs that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered {
    /// Leaves that were not read have rows of cells whose walls are beyond the reach of this
    /// squared distance. `None`: every leaf was read.
    pub(crate) reach: Option<f32>,
}

/// The runs in the tree of a column, ascending and apart.
struct Part {
    column: usize,
    tree: Tree,
    runs: Vec<(PostingKey, PostingKey)>,
}

impl Part {
    fn has(&self, key: PostingKey) -> bool {
        let after = self.runs.partition_point(|run| run.0 <= key);
        after > 0 && key <= self.runs[after - 1].1
    }
}

/// A leaf before it is read.
struct Leaf {
    /// The distance of its nearest wall.
    wall: f32,
    /// The index of its [`Part`].
    part: usize,
    range: LeafRange,
    /// Whether all its postings are in one run.
    is_inside: bool,
}

/// The leaves of all runs, each once, before they are read.
struct Leaves {
    parts: Vec<Part>,
    leaves: Vec<Leaf>,
    /// Whether all leaves are read.
    is_whole: bool,
}

/// Offers rows of the runs that may pass to `list`, which is empty.
pub(crate) struct Gather<'a, R: Reader> {
    pub(crate) state: &'a State,
    pub(crate) reader: &'a mut R,
    pub(crate) probe: &'a mut Probe,
    pub(crate) walls: &'a mut Walls,
    pub(crate) filter: &'a FilterPlan,
    pub(crate) stats: &'a mut Stats,
    /// In a file: refuses pages that a later commit than this has moved postings to or from.
    pub(crate) newest: u64,
}

impl<R: Reader> Gather<'_, R> {
    /// Reads the leaves in the order of their walls until no unread leaf can be near enough. Reads
    /// every leaf if fewer than `extent.k` rows pass. `keep` is for [`Shortlist::reset`].
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if pages contradict each other; [`Error::Busy`] if pages keep being
    /// split or merged; any error of the reader.
    pub(crate) fn run(
        &mut self,
        keep: usize,
        extent: GatherExtent,
        list: &mut Shortlist,
    ) -> Result<Gathered, Error> {
        let is_hosted = self.state.meta.id_kind == IdKind::HostOwned;
        for _ in 0..TRIES_MAX {
            list.reset(keep, if extent.width.is_finite() { extent.k } else { 0 });
            // Other writers split and merge pages of a host that owns the rows.
            if let Some(gathered) = self.pass(extent, list, is_hosted)? {
                return Ok(gathered);
            }
        }
        Err(Error::busy("postings changed too often while they were read; try again"))
    }

    /// One pass over the runs. `None` if postings moved at the same time. In a file the pages tell
    /// that themselves, which is an error of this pass.
    fn pass(
        &mut self,
        extent: GatherExtent,
        list: &mut Shortlist,
        is_shared: bool,
    ) -> Result<Option<Gathered>, Error> {
        // Few leaves are read whole, and their walls are not measured.
        let is_whole = |leaves: usize| extent.width.is_infinite() || leaves < LEAVES_WHOLE;
        let mut seen = Vec::new();
        let leaves = self.leaves(is_whole, list, is_shared, &mut seen);
        let found = leaves.and_then(|leaves| self.read_in_order(&leaves, extent, list));
        match found {
            // A page that was taken out may be used for something else by now.
            Ok(_) | Err(Error::Corrupt { .. }) if is_shared => {
                seen.sort_unstable();
                seen.dedup();
                match have_shape(self.reader, &seen) {
                    Ok(false) => return Ok(None),
                    Err(error) if found.is_ok() => return Err(error),
                    _ => {}
                }
            }
            _ => {}
        }
        found.map(Some)
    }

    /// The leaves of all runs, in the order in which to read them. Offers the rows of ids. Pages
    /// above the leaves are added to `seen`.
    fn leaves(
        &mut self,
        is_whole: impl Fn(usize) -> bool,
        list: &mut Shortlist,
        is_shared: bool,
        seen: &mut Vec<SeenInner>,
    ) -> Result<Leaves, Error> {
        let filter = self.filter;
        // Other writers add pages, and the meta page learns of them later.
        let page_count = if is_shared { u32::MAX } else { self.state.meta.page_count };
        let (mut parts, mut leaves) = (Vec::new(), Vec::new());
        let mut is_measured = false;
        for run in filter.runs.iter().flat_map(|runs| runs.iter()) {
            let (column, low, high) = match run {
                Run::Ids(ids) => {
                    offer_ids(self.state, self.reader, ids, list)?;
                    continue;
                }
                Run::Postings { column, low, high } => (*column, *low, *high),
            };
            let Some(tree) = tree_of(self.state, column) else { continue };
            let tree = Tree { newest: self.newest, ..tree };
            let Self { walls, probe, state, .. } = self;
            let above = seen.len();
            let found = leaf_ranges(&tree, self.reader, page_count, (low, high), seen, |level| {
                if is_whole(level.len()) || !walls::separate(level.iter()) {
                    return 0;
                }
                if !std::mem::replace(&mut is_measured, true) {
                    walls.measure(probe, state);
                }
                walls.nearest(level)
            })?;
            self.stats.pages_read += seen[above..].iter().filter(|(_, number)| number.is_some()).count() as u64;
            // Runs are in order of their columns.
            if parts.last().is_none_or(|part: &Part| part.column != column) {
                parts.push(Part { column, tree, runs: Vec::new() });
            }
            let part = parts.len() - 1;
            parts[part].runs.push((low, high));
            leaves.make_room(found.len())?;
            leaves.extend(found.into_iter().map(|range| {
                let is_inside = low < range.low && range.high < high;
                Leaf { wall: 0.0, part, range, is_inside }
            }));
        }
        // Several runs may have rows on one leaf.
        leaves.sort_by_key(|leaf: &Leaf| (leaf.part, leaf.range.page));
        leaves.dedup_by(|next, leaf| {
            let is_same = (next.part, next.range.page) == (leaf.part, leaf.range.page);
            if is_same {
                let (low, high) = (leaf.range.low.min(next.range.low), leaf.range.high.max(next.range.high));
                (leaf.range.low, leaf.range.high, leaf.is_inside) = (low, high, false);
            }
            is_same
        });
        let is_whole = is_whole(leaves.len()) || !walls::separate(leaves.iter().map(|leaf| &leaf.range));
        if !is_whole {
            if !is_measured {
                self.walls.measure(self.probe, self.state);
            }
            leaves.iter_mut().for_each(|leaf| leaf.wall = self.walls.of(&leaf.range));
            leaves.sort_by(|a, b| a.wall.total_cmp(&b.wall));
        }
        Ok(Leaves { parts, leaves, is_whole })
    }

    /// Reads leaves in their order.
    fn read_in_order(
        &mut self,
        Leaves { parts, leaves, is_whole }: &Leaves,
        extent: GatherExtent,
        list: &mut Shortlist,
    ) -> Result<Gathered, Error> {
        let mut limit = f32::INFINITY;
        for (at, leaf) in leaves.iter().enumerate() {
            if !is_whole && let Some(kth) = list.kth() {
                let reach = key_distance(kth).max(extent.reach_min);
                limit = self.walls.limit(reach, extent.width);
                if leaf.wall > limit {
                    return Ok(Gathered { reach: Some(reach) });
                }
            }
            if self.stats.hops + self.stats.pages_read >= extent.reads_max {
                return Ok(Gathered { reach: Some(0.0) });
            }
            let ahead = if at == 0 { 0..LEAVES_AHEAD } else { LEAVES_AHEAD - 1..LEAVES_AHEAD };
            for next in ahead.filter_map(|more| leaves.get(at + more)) {
                if next.wall <= limit {
                    self.reader.start(next.range.page, 0..0);
                }
            }
            self.read(&parts[leaf.part], leaf, list)?;
        }
        Ok(Gathered { reach: None })
    }

    /// Offers the postings of a leaf that pass.
    fn read(&mut self, part: &Part, leaf: &Leaf, list: &mut Shortlist) -> Result<(), Error> {
        let (Part { column, tree, .. }, page) = (part, leaf.range.page);
        let test = &self.filter.test;
        // The test has the whole condition on other columns. A word of tags may pass without the
        // tag.
        let is_of_tags = self.state.columns.columns[*column].kind == ColumnKind::Tags;
        let is_sure = leaf.is_inside && self.filter.runs_pass;
        let in_run = |leaf: &PostingLeaf<'_>, at| !is_of_tags || part.has(leaf.key(at, *column));
        {
            let body = self.reader.finish(page)?;
            let leaf = tree.leaf_page(page, &body)?;
            self.stats.pages_read += 1;
            self.stats.estimates += leaf.count() as u64;
            let may_pass = |at| is_sure || in_run(&leaf, at) && test.may_pass(leaf.values(at));
            offer_leaf(self.probe, self.state, (page, &leaf), may_pass, list)?;
        }
        self.reader.release();
        Ok(())
    }
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
            list.make_room(1)?;
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
    list.make_room(leaf.count())?;
    for (block, (count, edges)) in leaf.blocks().enumerate() {
        let mut estimates = [0.0; DEGREE_MAX];
        let estimates = &mut estimates[..count];
        if probe.estimate_edges(&state.model, edges, estimates).is_none() {
            return Err(Error::corrupt(page, "a posting names an unknown centroid"));
        }
        // Most postings are too far, and those that pass are in no order that a CPU could predict.
        let mut near = list.near(estimates);
        while near != 0 {
            let of_block = near.trailing_zeros() as usize;
            near &= near - 1;
            let at = block * DEGREE_MAX + of_block;
            let candidate = key(estimates[of_block], leaf.node(at));
            if !list.refuses(candidate) && passes(at) {
                list.offer(candidate);
            }
        }
    }
    Ok(())
}
