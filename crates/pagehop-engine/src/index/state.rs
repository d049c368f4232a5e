//! The state of the index as of one commit: the meta page and the model. Readers share it, and read
//! it again after a commit. A cursor keeps the state it started with.

use std::sync::{Arc, PoisonError, RwLock};

use crate::ids::NodeId;
use crate::index::model::Model;
use crate::index::pending::PendingMap;
use crate::page::columns_page::Columns;
use crate::page::meta::Meta;
use crate::page::model_pages::{self, Entry};
use crate::page::node::NodeHeader;
use crate::page::{Pages, Reader};
use crate::quantize::row_codes::RowCodes;
use crate::{Error, IdKind};

/// How often a reader tries again because the meta page is newer than its snapshot. Publishing a
/// commit takes microseconds. If a writer died in between, its commit is durable and may be seen.
const RENEWALS_MAX: usize = 1000;

/// The index as of one commit.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) meta: Meta,
    pub(crate) model: Arc<Model>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) columns: Arc<Columns>,
    /// The pending list: row ids that wait for their nodes. Another process may add to it at any
    /// time.
    pub(crate) pending: Option<Arc<PendingMap>>,
    /// Rows of commits up to this number are visible.
    pub(crate) snapshot: u64,
}

impl State {
    /// Reads the current state, for a reader that takes a new snapshot. Reuses the model of `known`
    /// if it is the same.
    pub(crate) fn read(reader: &mut impl Reader, known: Option<&Self>) -> Result<Self, Error> {
        let mut snapshot = reader.snapshot(true);
        let mut meta = Meta::read(reader)?;
        for _ in 0..RENEWALS_MAX {
            if meta.change.commit <= snapshot || meta.id_kind == IdKind::HostOwned {
                break;
            }
            std::thread::yield_now();
            snapshot = reader.snapshot(true);
            meta = Meta::read(reader)?;
        }
        let known_pending = known.and_then(|state| state.pending.as_ref());
        let mut pending = PendingMap::read(reader, &meta, known_pending);
        for _ in 0..RENEWALS_MAX {
            if pending.is_ok() || Meta::read_commit(reader)? == meta.change.commit {
                break;
            }
            // Pages that leave the list are reused at once, so the list is read again.
            meta = Meta::read(reader)?;
            pending = PendingMap::read(reader, &meta, known_pending);
        }
        let same = known.filter(|state| {
            state.meta.change.model_start == meta.change.model_start && state.meta.centroids == meta.centroids
        });
        let model = match same {
            Some(state) if state.model.lacks_landmarks(&meta) => {
                Arc::new(state.model.with_new_landmarks(&meta, reader)?)
            }
            Some(state) => state.model.clone(),
            None => Arc::new(Model::read(&meta, reader)?),
        };
        let columns = match same {
            Some(state) => state.columns.clone(),
            None => Arc::new(Columns::read(reader, &meta)?),
        };
        // With host-owned rows, each step takes effect at once. The commit number then shows
        // whether there was any change.
        let unchanged =
            |state: &&Self| meta.id_kind == IdKind::HostOwned && state.meta.change.commit == meta.change.commit;
        let entries = match same.filter(unchanged) {
            Some(state) => state.entries.clone(),
            None => model_pages::read_entries(&meta, reader)?,
        };
        let snapshot = snapshot.max(meta.change.commit);
        Ok(Self { meta, model, entries, columns, pending: pending?, snapshot })
    }

    /// The rows of a node that are visible in this state, or that the host may find visible.
    #[inline]
    pub(crate) fn rows(&self, node: NodeId, header: &NodeHeader) -> impl Iterator<Item = u64> + use<> {
        let waiting = self.pending.as_ref().map(|pending| pending.of(node, &header.host_rows()));
        header.rows(self.meta.id_kind, self.snapshot).chain(waiting.into_iter().flatten())
    }

    /// The range of `pages` that may hold nodes of the index: those that [`Meta::has_nodes`] says.
    ///
    /// Where the host owns the rows, page 0 may count pages that do not exist: a session makes a
    /// PostgreSQL relation longer before it logs the page. After a crash, or on a standby, such
    /// pages at the end are missing. No step named them, so nothing is on them.
    pub(crate) fn node_pages(&self, pages: &impl Pages) -> std::ops::Range<u32> {
        self.meta.graph_pages(self.meta.page_count.min(pages.page_count()))
    }
}

/// The state of the new graph that is made beside the graph of an index, as it was read last. It is
/// kept, since reading a model takes milliseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShadowState(Arc<RwLock<Option<Arc<State>>>>);

impl ShadowState {
    /// Reads the current state, with a reader that has the meta page of that graph for page 0.
    pub(crate) fn read(&self, reader: &mut impl Reader) -> Result<State, Error> {
        let known = self.known();
        let state = State::read(reader, known.as_deref())?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(state.clone()));
        Ok(state)
    }

    fn known(&self) -> Option<Arc<State>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The newest state that any reader has read.
#[derive(Debug)]
pub(crate) struct Newest {
    state: RwLock<Arc<State>>,
    shadow: ShadowState,
}

impl Newest {
    pub(crate) fn new(state: State) -> Self {
        Self { state: RwLock::new(Arc::new(state)), shadow: ShadowState::default() }
    }

    pub(crate) fn shadow(&self) -> ShadowState {
        self.shadow.clone()
    }

    /// The newest known state.
    pub(crate) fn known(&self) -> Arc<State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Searches use these row codes from now on, unless the index was trained again since `state`,
    /// of which they are.
    pub(crate) fn take_row_codes(&self, state: &State, codes: Arc<RowCodes>) {
        let mut newest = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if newest.model.encodes_as(&state.model) {
            let model = Arc::new(newest.model.with_row_codes(codes));
            *newest = Arc::new(State { model, ..(**newest).clone() });
        }
    }

    /// The state of a new snapshot of `reader`.
    pub(crate) fn renew(&self, reader: &mut impl Reader) -> Result<Arc<State>, Error> {
        let known = self.known();
        let same = match known.meta.id_kind {
            IdKind::HostOwned => known.meta.change.commit == Meta::read_commit(reader)?,
            _ => known.snapshot == reader.snapshot(true),
        };
        let is_caught_up = |pending: &Arc<PendingMap>, reader: &mut _| {
            // If the list cannot be read, it has changed since its number was read, or it is
            // damaged. Reading the new state tells which.
            pending.catch_up(reader, known.meta.change.pending_head).is_ok()
        };
        if same && known.pending.as_ref().is_none_or(|pending| is_caught_up(pending, reader)) {
            return Ok(known);
        }
        let mut state = Arc::new(State::read(reader, Some(&known))?);
        let mut newest = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(codes) = newest.model.row_codes_of(&state.model) {
            // They were loaded while the state was read.
            let model = Arc::new(state.model.with_row_codes(codes));
            state = Arc::new(State { model, ..(*state).clone() });
        }
        if (newest.snapshot, newest.meta.change.commit) < (state.snapshot, state.meta.change.commit) {
            *newest = state.clone();
        }
        Ok(state)
    }
}
