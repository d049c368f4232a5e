//! The pages of one graph of an index, as a writer changes them.
//!
//! An index may have another index beside it: a new graph has a page of its own in the place of the
//! meta page, its *root*, until that is copied to page 0. Here the root stands for page 0, so the
//! same code changes either graph.
//!
//! Each page that a step writes gets the number of the graph, and a page with another number is
//! refused: graphs share a file, but no page.

use std::ops::Range;

use crate::Error;
use crate::page::kind::{self, PageKind, kind};
use crate::page::{ChangeStep, PageId, PagesMut, Reader};

/// The pages of a writer, with `root` for page 0.
pub(super) struct GraphPages<'w, W> {
    pub(super) host: &'w mut W,
    pub(super) root: PageId,
    /// The number of the graph.
    pub(super) number: u8,
    /// Whether a step may take a page of another graph; it gives the page its number itself.
    pub(super) takes_over: bool,
}

impl<'w, W: PagesMut> GraphPages<'w, W> {
    pub(super) fn new(host: &'w mut W, root: PageId, number: u8) -> Self {
        Self { host, root, number, takes_over: false }
    }
}

impl<W: PagesMut> PagesMut for GraphPages<'_, W> {
    type Reader<'r>
        = GraphReader<W::Reader<'r>>
    where
        Self: 'r;

    fn reader(&self) -> Self::Reader<'_> {
        GraphReader::new(self.host.reader(), self.root)
    }

    fn page_count(&self) -> u32 {
        self.host.page_count()
    }

    fn commit_number(&self) -> u64 {
        self.host.commit_number()
    }

    fn oldest_snapshot(&self) -> u64 {
        self.host.oldest_snapshot()
    }

    fn allocate(&mut self, count: u32) -> Result<PageId, Error> {
        self.host.allocate(count)
    }

    fn is_allocated(&self, page: PageId) -> Result<bool, Error> {
        self.host.is_allocated(page)
    }

    fn step(&mut self, pages: &[PageId], change: ChangeStep<'_>) -> Result<(), Error> {
        let there: Vec<PageId> = pages.iter().map(|page| place(*page, self.root)).collect();
        let (number, takes_over) = (self.number, self.takes_over);
        self.host.step(&there, &mut |bodies| {
            for (page, body) in pages.iter().zip(&*bodies).filter(|(page, _)| page.0 != 0) {
                let is_taken = kind(body) != Some(PageKind::Empty) && kind::graph(body) != number;
                if is_taken && !takes_over {
                    let what = format!("it is of graph {}, and graph {number} needs it", kind::graph(body));
                    return Err(Error::corrupt(*page, what));
                }
            }
            change(bodies)?;
            let others = pages.iter().zip(&mut *bodies).filter(|(page, _)| page.0 != 0 && !takes_over);
            others.for_each(|(_, body)| kind::set_graph(body, number));
            Ok(())
        })
    }

    fn reuse(&mut self, commit: u64) -> Result<(), Error> {
        self.host.reuse(commit)
    }

    fn is_shared(&self) -> bool {
        self.host.is_shared()
    }

    fn begin_section(&mut self) -> Result<(), Error> {
        self.host.begin_section()
    }

    fn end_section(&mut self) {
        self.host.end_section();
    }
}

/// See [`GraphPages`].
pub(in crate::index::change) struct GraphReader<R> {
    reader: R,
    root: PageId,
}

impl<R: Reader> GraphReader<R> {
    pub(in crate::index::change) fn new(reader: R, root: PageId) -> Self {
        Self { reader, root }
    }
}

impl<R: Reader> Reader for GraphReader<R> {
    type Guard<'g>
        = R::Guard<'g>
    where
        Self: 'g;

    fn start(&self, page: PageId, bytes: Range<usize>) {
        self.reader.start(place(page, self.root), bytes);
    }

    fn finish(&self, page: PageId) -> Result<Self::Guard<'_>, Error> {
        self.reader.finish(place(page, self.root))
    }

    fn is_ready(&self, page: PageId) -> bool {
        self.reader.is_ready(place(page, self.root))
    }

    fn snapshot(&mut self, renew: bool) -> u64 {
        self.reader.snapshot(renew)
    }

    fn release(&mut self) {
        self.reader.release();
    }

    fn pause(&mut self) {
        self.reader.pause();
    }

    fn pages_missed(&self) -> u64 {
        self.reader.pages_missed()
    }
}

fn place(page: PageId, root: PageId) -> PageId {
    if page.0 == 0 { root } else { page }
}
