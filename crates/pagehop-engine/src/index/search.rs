//! Best-first search, one page per hop.
//!
//! ```text
//! offer the entry point nearest to the query
//! while the nearest unexpanded candidate may still lead to one of the k nearest:
//!     expand it: its edges give estimates, its own code gives its distance
//!     offer every neighbor; begin to read the pages of the nearest unexpanded candidates
//! answer with the nearest of the expanded nodes
//! ```
//!
//! "May still" is evidence, not only the length of the list: the search ends when the best estimate left is
//! beyond `1 + slack` times the k-th distance found. Nodes are expanded in order of estimate, never of arrival,
//! so the answer does not depend on the storage.

use super::meta::{Meta, Model};
use super::visit::{Probe, Visited};
use crate::graph::list::CandidateList;
use crate::page::layout::NodeId;
use crate::page::{PageId, Pages, Reader};
use crate::quantize::prepare::ToDistance;
use crate::{Error, Hit, SearchOptions, SearchResult, Stats};

/// Searches one after the other on one thread, keeping its buffers between them.
pub struct Searcher<'i, P: Pages + 'i> {
    meta: &'i Meta,
    model: &'i Model,
    reader: P::Reader<'i>,
    probe: Probe,
    list: CandidateList,
    nearest: Nearest,
    pages: Vec<PageId>,
}

impl<'i, P: Pages> Searcher<'i, P> {
    pub(crate) fn new(pages: &'i P, meta: &'i Meta, model: &'i Model) -> Self {
        Self {
            meta,
            model,
            reader: pages.reader(),
            probe: Probe::default(),
            list: CandidateList::default(),
            nearest: Nearest::default(),
            pages: Vec::new(),
        }
    }

    /// Finds the `k` rows nearest to `query`; see [`Index::search`](crate::Index::search).
    pub fn search(&mut self, query: &[f32], k: usize, options: &SearchOptions) -> Result<SearchResult, Error> {
        options.validate(k)?;
        let (meta, model) = (self.meta, self.model);
        let to_distance = self.probe.prepare(meta, model, query)?;
        let missed_before = self.reader.pages_missed();
        let mut stats = Stats::default();
        self.pages.clear();
        self.nearest.reset(k);
        self.list.reset(k.max(options.search_list));
        let entry = self.probe.entry(model);
        self.list.insert(0.0, entry);
        while let Some((estimate, node)) = self.list.expand() {
            if self.nearest.is_beyond(estimate, options.slack) {
                break;
            }
            // The best of the others is likely the next: its bytes travel while this node is scored.
            let likely = look_ahead(&self.list, meta, &self.reader, None, 1);
            let list = std::cell::RefCell::new(&mut self.list);
            let offer = |estimate: f32, neighbor: NodeId| {
                let mut list = list.borrow_mut();
                // The entry point stands in the list under an estimate of its own and must not enter twice.
                if estimate < list.bound() && neighbor != entry {
                    list.insert(estimate, neighbor);
                }
            };
            let finished = || {
                look_ahead(&list.borrow(), meta, &self.reader, likely, options.beam_width);
            };
            let visited = self.probe.visit(meta, model, &self.reader, node, offer, finished)?;
            self.nearest.keep(visited);
            self.pages.push(meta.layout.place(node).0);
            stats.hops += 1;
            stats.estimates += visited.degree as u64;
            stats.distances += 1;
            self.reader.release();
        }
        self.pages.sort_unstable();
        self.pages.dedup();
        stats.pages_read = self.pages.len() as u64;
        stats.pages_missed = self.reader.pages_missed() - missed_before;
        Ok(SearchResult { hits: self.nearest.hits(to_distance), stats })
    }
}

/// Begins to read the pages of the nearest unexpanded candidates, and to bring the bytes of the first of them
/// into the CPU's cache unless it is `near` already. Returns the first.
fn look_ahead(
    list: &CandidateList,
    meta: &Meta,
    reader: &impl Reader,
    near: Option<NodeId>,
    width: usize,
) -> Option<NodeId> {
    let mut first = None;
    for (_, node) in list.open().take(width) {
        let (page, slot) = meta.layout.place(node);
        let fetch = first.is_none() && near != Some(node);
        reader.start(page, if fetch { meta.layout.slot_bytes(slot) } else { 0..0 });
        first = first.or(Some(node));
    }
    first
}

/// The `k` nearest of the nodes visited, nearest first, equal distances in order of row id.
#[derive(Debug, Default)]
struct Nearest {
    k: usize,
    found: Vec<(f32, u64)>,
}

impl Nearest {
    fn reset(&mut self, k: usize) {
        self.k = k;
        self.found.clear();
    }

    /// Whether a candidate with this estimate is too far to matter any more.
    #[inline]
    fn is_beyond(&self, estimate: f32, slack: f32) -> bool {
        self.found.len() == self.k && estimate > self.found[self.k - 1].0 * (1.0 + slack)
    }

    fn keep(&mut self, visited: Visited) {
        let entry = (visited.distance, visited.row_id);
        let nearer = |other: &(f32, u64)| other.0 < entry.0 || other.0 == entry.0 && other.1 < entry.1;
        if self.found.len() == self.k {
            if nearer(&self.found[self.k - 1]) {
                return;
            }
            self.found.pop();
        }
        let at = self.found.partition_point(nearer);
        self.found.insert(at, entry);
    }

    fn hits(&self, to_distance: ToDistance) -> Vec<Hit> {
        self.found.iter().map(|(d, row_id)| Hit { row_id: *row_id, distance: to_distance.apply(*d) }).collect()
    }
}
