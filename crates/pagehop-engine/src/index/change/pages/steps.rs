//! The pages of a transaction, changed one step at a time.
//!
//! A step changes at most four pages as one, and leaves an index that `check` accepts. The meta
//! page is kept decoded here, as of the last step that changed it.
//!
//! A decision about a node may be based on an earlier read of it, and another writer may change the
//! node first. So the decision comes with what was [`Seen`]. The step compares the node with that,
//! and reports a node that has changed instead of writing it.

use super::graph_pages::{GraphPages, GraphReader};
use crate::ids::NodeId;
use crate::page::layout::NodeLayout;
use crate::page::meta::Meta;
use crate::page::node::{FLAGS_DEAD, FLAGS_LIVE, Link, NodeHeader, NodeMut, NodeRef, with_node};
use crate::page::{self, ChangeStep, PageId, PagesMut, STEP_PAGES};
use crate::{Error, IdKind};

/// The state of a node that a decision about its edges was based on.
#[derive(Clone, Debug, Default)]
pub(in crate::index::change) struct Seen {
    generation: u8,
    flags: u8,
    links: Vec<Link>,
}

impl Seen {
    pub(in crate::index::change) fn of(node: &NodeRef<'_>, header: &NodeHeader) -> Self {
        Self { generation: header.generation, flags: header.flags, links: node.links().collect() }
    }

    /// Whether the node still has the same edges.
    pub(super) fn is_still(&self, node: &NodeRef<'_>) -> bool {
        let header = node.header();
        header.generation == self.generation
            && header.flags == self.flags
            && node.links().eq(self.links.iter().copied())
    }

    pub(in crate::index::change) fn links(&self) -> &[Link] {
        &self.links
    }

    /// Whether the node may be an anchor parent.
    pub(in crate::index::change) fn can_be_parent(&self) -> bool {
        can_be_parent(self.flags)
    }
}

/// Whether nodes may be anchored to a node with these flags: for that it must itself have an
/// anchor. A dead node has one until it is unlinked.
pub(in crate::index::change) fn can_be_parent(flags: u8) -> bool {
    matches!(flags, FLAGS_LIVE | FLAGS_DEAD)
}

/// A change of one node that waits for a step.
struct Waiting {
    node: NodeId,
    seen: Seen,
    leads: bool,
    change: Box<dyn FnMut(&mut NodeMut<'_>)>,
}

/// Changes the decoded meta page and the bodies of the step's other pages.
pub(super) type ChangeWithMeta<'a> = &'a mut dyn FnMut(&mut Meta, &mut [&mut [u8]]) -> Result<(), Error>;

/// The pages of a transaction and its meta page.
pub(in crate::index::change) struct Steps<'w, W: PagesMut> {
    pages: GraphPages<'w, W>,
    meta: Meta,
    /// Changes of different nodes that wait for a step, and their pages.
    waiting: Vec<Waiting>,
    waiting_on: Vec<PageId>,
    /// Nodes that another writer changed before their step, or before that of the change that led.
    missed: Vec<NodeId>,
    /// Whether the change that led was not made.
    is_leader_missed: bool,
}

impl<'w, W: PagesMut> Steps<'w, W> {
    pub(in crate::index::change) fn new(pages: &'w mut W, meta: Meta) -> Self {
        Self::at(pages, PageId(0), meta)
    }

    /// The pages of the graph whose meta page is `root`.
    pub(in crate::index::change) fn at(pages: &'w mut W, root: PageId, meta: Meta) -> Self {
        let pages = GraphPages::new(pages, root, meta.change.numbers.current);
        let (waiting, waiting_on, missed) = (Vec::new(), Vec::new(), Vec::new());
        Self { pages, meta, waiting, waiting_on, missed, is_leader_missed: false }
    }

    /// Whether other writers insert rows at the same time.
    pub(in crate::index::change) fn is_shared(&self) -> bool {
        self.pages.is_shared()
    }

    /// Begins a section ([`PagesMut::begin_section`]) with the newest meta page.
    pub(in crate::index::change) fn begin_section(&mut self) -> Result<(), Error> {
        self.pages.begin_section()?;
        if !self.pages.is_shared() {
            return Ok(());
        }
        self.reload().inspect_err(|_| self.pages.end_section())
    }

    /// Reads the newest meta page, which other writers may have changed.
    pub(in crate::index::change) fn reload(&mut self) -> Result<(), Error> {
        let meta = Meta::read(&mut self.pages.reader())?;
        self.know(meta);
        Ok(())
    }

    fn know(&mut self, meta: Meta) {
        self.pages.number = meta.change.numbers.current;
        self.meta = meta;
    }

    /// Ends the section.
    pub(in crate::index::change) fn end_section(&mut self) {
        self.pages.end_section();
    }

    /// The meta page as of the last step.
    pub(in crate::index::change) fn meta(&self) -> &Meta {
        &self.meta
    }

    pub(in crate::index::change) fn layout(&self) -> NodeLayout {
        self.meta.layout
    }

    /// Whether the host decides which rows are visible.
    pub(in crate::index::change) fn is_hosted(&self) -> bool {
        self.meta.id_kind == IdKind::HostOwned
    }

    pub(in crate::index::change) fn reader(&self) -> GraphReader<W::Reader<'_>> {
        self.pages.reader()
    }

    /// The pages, for a structure that makes steps of its own without the meta page.
    pub(super) fn pages_mut(&mut self) -> &mut GraphPages<'w, W> {
        &mut self.pages
    }

    /// Whether this graph is made beside the graph of the index.
    pub(in crate::index::change) fn is_shadow(&self) -> bool {
        self.pages.root.0 != 0
    }

    /// The host's pages, for all graphs.
    pub(in crate::index::change) fn host_mut(&mut self) -> &mut W {
        self.pages.host
    }

    /// As [`Steps::step_meta`] with one page, which may be of another graph. `change` gives it the
    /// number of this one if it takes it.
    pub(super) fn take_over(&mut self, page: PageId, change: ChangeWithMeta<'_>) -> Result<(), Error> {
        self.pages.takes_over = true;
        let taken = self.step_meta(&[page], change);
        self.pages.takes_over = false;
        taken
    }

    pub(in crate::index::change) fn page_count(&self) -> u32 {
        self.pages.page_count()
    }

    pub(in crate::index::change) fn bytes_left(&self) -> u64 {
        self.pages.host.bytes_left()
    }

    pub(in crate::index::change) fn commit_number(&self) -> u64 {
        self.pages.commit_number()
    }

    pub(in crate::index::change) fn oldest_snapshot(&self) -> u64 {
        self.pages.oldest_snapshot()
    }

    /// Adds pages of zeros at the end; returns the first of them.
    pub(in crate::index::change) fn allocate(&mut self, count: u32) -> Result<PageId, Error> {
        self.pages.allocate(count)
    }

    /// Passes one node to `look`.
    pub(in crate::index::change) fn look<T>(
        &self,
        node: NodeId,
        look: impl FnOnce(&NodeRef<'_>, &NodeHeader) -> T,
    ) -> Result<T, Error> {
        with_node(&self.meta.layout, &self.pages.reader(), node, look)
    }

    /// A step over `pages`, which must not include the meta page.
    pub(in crate::index::change) fn step(&mut self, pages: &[PageId], change: ChangeStep<'_>) -> Result<(), Error> {
        page::step(&mut self.pages, pages, change)
    }

    /// A step over the page of one node.
    pub(in crate::index::change) fn change_node(
        &mut self,
        node: NodeId,
        mut change: impl FnMut(&mut NodeMut<'_>),
    ) -> Result<(), Error> {
        let layout = self.meta.layout;
        let (page, slot) = layout.place(node);
        self.pages.step(&[page], &mut |bodies| {
            change(&mut NodeMut::new(&layout, bodies[0], slot));
            Ok(())
        })
    }

    /// Changes a node later, if it still is as it was `seen`. Changes on up to four pages wait for
    /// one step, which is made before a fifth page, or by [`Steps::make_waiting`]. Until then the
    /// node is unchanged, so two changes of one node must not wait together, and no decision may
    /// depend on a change that waits. Where a change `leads`, those after it are made only if it
    /// is.
    pub(in crate::index::change) fn change_node_later(
        &mut self,
        node: NodeId,
        seen: Seen,
        leads: bool,
        change: impl FnMut(&mut NodeMut<'_>) + 'static,
    ) -> Result<(), Error> {
        let page = self.meta.layout.place(node).0;
        if !self.waiting_on.contains(&page) {
            if self.waiting_on.len() == STEP_PAGES {
                self.step_waiting()?;
            }
            self.waiting_on.push(page);
        }
        self.waiting.push(Waiting { node, seen, leads, change: Box::new(change) });
        Ok(())
    }

    /// Makes the changes that wait, as one step. Returns the nodes of all changes since the last
    /// call that were not made, because another writer had changed the node, or the one of the
    /// change that led: these must be decided again.
    pub(in crate::index::change) fn make_waiting(&mut self) -> Result<Vec<NodeId>, Error> {
        self.step_waiting()?;
        self.is_leader_missed = false;
        Ok(std::mem::take(&mut self.missed))
    }

    fn step_waiting(&mut self) -> Result<(), Error> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let pages = std::mem::take(&mut self.waiting_on);
        let (layout, missed, is_leader_missed) = (self.meta.layout, &mut self.missed, &mut self.is_leader_missed);
        if *is_leader_missed {
            missed.extend(waiting.iter().map(|change| change.node));
            return Ok(());
        }
        self.pages.step(&pages, &mut |bodies| {
            for Waiting { node, seen, leads, change } in &mut waiting {
                let (page, slot) = layout.place(*node);
                let at = pages.iter().position(|other| *other == page).expect("its page is noted with it");
                let mut found = NodeMut::new(&layout, bodies[at], slot);
                if !*is_leader_missed && seen.is_still(&found.as_ref()) {
                    change(&mut found);
                } else {
                    missed.push(*node);
                    *is_leader_missed |= *leads;
                }
            }
            Ok(())
        })
    }

    /// A step over `pages` and the meta page, which `change` gets decoded.
    pub(in crate::index::change) fn step_meta(
        &mut self,
        pages: &[PageId],
        change: ChangeWithMeta<'_>,
    ) -> Result<(), Error> {
        let mut all = pages.to_vec();
        all.push(PageId(0));
        let page_count = self.pages.page_count();
        let mut newest = None;
        page::step(&mut self.pages, &all, &mut |bodies| {
            let (meta_body, others) = bodies.split_last_mut().expect("the meta page is in the step");
            newest = Some(change_meta(meta_body, page_count, |meta| change(meta, others))?);
            Ok(())
        })?;
        self.know(newest.expect("the step ran"));
        Ok(())
    }

    /// A step over the meta page alone, which `change` gets decoded, with the commit number of the
    /// step ([`PagesMut::step_numbered`]).
    pub(in crate::index::change) fn step_meta_numbered(
        &mut self,
        mut change: impl FnMut(&mut Meta, u64),
    ) -> Result<(), Error> {
        let (root, page_count) = (self.pages.root, self.pages.page_count());
        let mut newest = None;
        self.pages.host.step_numbered(&[root], &mut |bodies, commit| {
            let changed = |meta: &mut Meta| {
                change(meta, commit);
                Ok(())
            };
            newest = Some(change_meta(bodies[0], page_count, changed)?);
            Ok(())
        })?;
        self.know(newest.expect("the step ran"));
        Ok(())
    }
}

/// Changes a meta page, and returns it decoded.
fn change_meta(
    body: &mut [u8],
    page_count: u32,
    change: impl FnOnce(&mut Meta) -> Result<(), Error>,
) -> Result<Meta, Error> {
    let mut meta = Meta::decode(body)?;
    meta.page_count = meta.page_count.max(page_count);
    change(&mut meta)?;
    // Readers compare this number to learn whether the meta page that they know is current.
    meta.change.commit += u64::from(meta.id_kind == IdKind::HostOwned);
    meta.write(body);
    Ok(meta)
}
