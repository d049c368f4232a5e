//! Rows by their id: which there are, and their vectors.
//!
//! Pages of the map may be newer than a reader's snapshot, and those of one commit become visible
//! one after the other. Only a split moves ids between pages of the map, and every split adds a
//! page, which is counted before the pages that lost ids are visible. So what one way through the
//! map found counts if the number of pages is that of the newest commit, before and after.

use std::sync::Arc;

use crate::ids::NodeId;
use crate::index::open::Index;
use crate::index::state::State;
use crate::page::id_map::{self, Leaf};
use crate::page::node::with_node;
use crate::page::{PageId, Pages, Reader};
use crate::row_ids::{self, RowIds};
use crate::{BODY_BYTES, Error};

/// How often rows are looked up again because a commit became visible in between. That takes
/// microseconds.
const TRIES_MAX: usize = 10_000;

/// Nodes whose pages are being read while those before them are decoded.
pub(super) const AHEAD: usize = 16;

impl<P: Pages> Index<P> {
    /// Up to `count` ids from `first` on, in ascending order; fewer only at the end. Rows that are
    /// in the index all the time are found, each once, by calls that go on after the last id.
    /// Reads one page of the map for about 600 ids.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the host owns the row ids; [`Error::Corrupt`] if pages contradict
    /// each other; [`Error::Busy`] if commits become visible all the time; any error of the host.
    pub fn ids(&self, first: u64, count: usize) -> Result<Vec<u64>, Error> {
        let mut ids = Vec::new();
        let mut next = Some(first);
        while let Some(from) = next.filter(|_| ids.len() < count) {
            let leaf = self.settled(|state, reader| match root(state)? {
                Some(root) => id_map::leaf_from(reader, root, from).map(Some),
                None => Ok(Some(Leaf { ids: Vec::new(), most: u64::MAX })),
            })?;
            ids.extend(leaf.ids);
            next = leaf.most.checked_add(1);
        }
        ids.truncate(count);
        Ok(ids)
    }

    /// Whether there is a row with `id`, as of the newest commit.
    ///
    /// # Errors
    ///
    /// Those of [`Index::ids`].
    pub fn contains(&self, id: u64) -> Result<bool, Error> {
        self.settled(|state, reader| find(state, reader, id).map(|node| Some(node.is_some())))
    }

    /// The vectors of rows, one after the other, in the order of `ids`, which may repeat. Each is
    /// as of its newest commit.
    ///
    /// An index that keeps vectors gives them as they were added, with components rounded to half
    /// precision under [`Vectors::Float16`](crate::Vectors). Otherwise
    /// they are decoded from codes of 12 bits per dimension: the distance to the vector that was
    /// added is about 1/2000 of its distance from the mean of the rows. Under cosine they have
    /// length 1. Reads about two pages a row.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if an id is not in the index, which names it; those of [`Index::ids`].
    pub fn vectors(&self, ids: &[u64]) -> Result<Vec<f32>, Error> {
        let (mut vectors, mut unknown) = (Vec::new(), Vec::new());
        for part in ids.chunks(AHEAD) {
            let found = self.settled(|state, reader| self.part(state, reader, part))?;
            vectors.extend(found.vectors);
            unknown.extend(found.unknown);
        }
        if unknown.is_empty() { Ok(vectors) } else { Err(row_ids::unknown(&unknown)) }
    }

    /// The rows of some ids; `None` if one of them is of a commit that is not visible yet.
    fn part(&self, state: &State, reader: &mut P::Reader<'_>, ids: &[u64]) -> Result<Option<Part>, Error> {
        let layout = &state.meta.layout;
        let mut nodes = Vec::with_capacity(ids.len());
        for id in ids {
            let node = find(state, reader, *id)?;
            if let Some(node) = node {
                reader.start(layout.place(node).0, 0..BODY_BYTES);
            }
            nodes.push(node);
        }
        let mut part = Part::default();
        let kept = state.meta.kept();
        let (mut point, mut bytes) = (Vec::new(), Vec::new());
        for (&id, node) in ids.iter().zip(nodes) {
            let Some(node) = node else {
                part.unknown.push(id);
                continue;
            };
            let is_its_row = with_node(layout, reader, node, |node, header| {
                node.decode(header, &mut point);
                header.row_id == id && header.is_visible(state.snapshot)
            })?;
            if !is_its_row {
                return Ok(None);
            }
            match kept {
                Some(shape) => {
                    reader.release();
                    shape.read(reader, shape.place_of(layout, reader, node)?, &mut bytes)?;
                    shape.decode(&bytes, &mut point);
                    part.vectors.extend_from_slice(&point);
                }
                None => part.vectors.extend_from_slice(state.model.space.restore(&mut point)),
            }
            reader.release();
        }
        Ok(Some(part))
    }

    /// What `look` finds in the newest state, when no commit became visible in the time and it
    /// finds something.
    pub(super) fn settled<T>(
        &self,
        mut look: impl FnMut(&State, &mut P::Reader<'_>) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let mut reader = self.pages().reader();
        let mut last = None;
        for _ in 0..TRIES_MAX {
            let state: Arc<State> = self.newest().renew(&mut reader)?;
            let before = self.pages().page_count();
            let found = look(&state, &mut reader);
            reader.release();
            let is_settled = self.pages().page_count() == before && state.meta.page_count == before;
            match found {
                Ok(Some(found)) if is_settled => return Ok(found),
                // Pages of two commits may contradict each other. Pages of one may not.
                Err(error) if is_settled && last == Some(state.meta.change.commit) => return Err(error),
                Err(Error::Corrupt { .. }) | Ok(_) => {}
                Err(error) => return Err(error),
            }
            last = Some(state.meta.change.commit);
            std::thread::yield_now();
        }
        Err(Error::busy("commits became visible all the time while rows were looked up; try again"))
    }
}

/// Rows that were found.
#[derive(Default)]
struct Part {
    vectors: Vec<f32>,
    unknown: Vec<u64>,
}

fn root(state: &State) -> Result<Option<PageId>, Error> {
    match (state.meta.row_ids, state.meta.change.id_root) {
        (RowIds::HostOwned, _) => Err(Error::argument("the host of this index owns its row ids")),
        (RowIds::Mapped, 0) => Ok(None),
        (RowIds::Mapped, root) => Ok(Some(PageId(root))),
    }
}

pub(super) fn find(state: &State, reader: &mut impl Reader, id: u64) -> Result<Option<NodeId>, Error> {
    let found = match root(state)? {
        Some(root) => id_map::find(reader, root, id)?.1,
        None => None,
    };
    reader.release();
    Ok(found)
}
