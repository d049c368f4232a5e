//! An open index: the host's pages, and the newest state that was read of them.
//!
//! Its operations are with what they do: in the files of `search/`, `change/`, `recall/` and
//! `check/`, and in `info.rs`.

use crate::columns::Column;
use crate::index::state::{Newest, State};
use crate::page::{PageId, Pages};
use crate::{Error, IdKind};

/// An open index.
pub struct Index<P: Pages> {
    pages: P,
    newest: Newest,
}

impl<P: Pages> Index<P> {
    /// Reads the meta page and the model.
    ///
    /// # Errors
    ///
    /// [`Error::Format`] if this is not an index, or one of another version; [`Error::Corrupt`] if
    /// pages contradict each other; any error of the host.
    pub fn open(pages: P) -> Result<Self, Error> {
        let state = State::read(&mut pages.reader(), None)?;
        let (expected, exist) = (state.meta.page_count, pages.page_count());
        // Where the host owns the rows, the last pages may have been lost before a step named them
        // (`State::node_pages`). A page that a step named and that is lost is an error of its
        // reader.
        if expected > exist && state.meta.id_kind != IdKind::HostOwned {
            let what = format!("the index has {expected} pages, {exist} exist: it is truncated");
            return Err(Error::corrupt(PageId(0), what));
        }
        Ok(Self { pages, newest: Newest::new(state) })
    }

    /// The host's pages.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// Returns the host's pages, so that the host can close them.
    pub fn into_pages(self) -> P {
        self.pages
    }

    /// Bytes of memory that the open index takes, about: its model, its landmarks and its row
    /// codes.
    pub fn memory_bytes(&self) -> usize {
        let state = self.newest.known();
        let layout = &state.meta.layout;
        let of_centroid = size_of::<f32>() * layout.inner_dim + size_of::<u64>() * layout.edge.words();
        let of_rows = state.model.row_codes.as_ref().map_or(0, |codes| codes.bytes());
        state.meta.centroids * of_centroid + state.model.landmarks.memory_bytes() + of_rows
    }

    /// The columns whose values searches can filter by, in order.
    pub fn columns(&self) -> Vec<Column> {
        self.newest.known().columns.columns.clone()
    }

    /// The newest state that was read.
    pub(crate) fn newest(&self) -> &Newest {
        &self.newest
    }
}
