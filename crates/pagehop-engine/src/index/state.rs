//! What a search knows of the index as of one commit: the meta page and the model. Readers share it and renew
//! it when a commit came; a cursor keeps what it began with.

use std::sync::{Arc, PoisonError, RwLock};

use super::meta::Meta;
use super::model::{self, Entry, Model};
use super::pending::Pending;
use crate::page::Reader;
use crate::page::layout::{NodeHeader, NodeId};
use crate::{Error, RowIds};

/// Times that a reader looks again because the meta page was newer than its snapshot. Publishing takes
/// microseconds; a writer that died in between leaves a commit that is durable and may be seen.
const RENEWALS_MAX: usize = 1000;

/// The index as of a commit.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) meta: Meta,
    pub(crate) model: Arc<Model>,
    pub(crate) entries: Vec<Entry>,
    /// Tids that wait for their nodes; another process may add to them at any time.
    pub(crate) pending: Option<Arc<Pending>>,
    /// Commit number up to which rows are seen.
    pub(crate) snapshot: u64,
}

impl State {
    /// Reads what is, for a reader that takes a new snapshot. The model is taken from `known` if it is the same.
    pub(crate) fn read(reader: &mut impl Reader, known: Option<&Self>) -> Result<Self, Error> {
        let mut snapshot = reader.snapshot(true);
        let mut meta = Meta::read(reader)?;
        for _ in 0..RENEWALS_MAX {
            if meta.change.commit <= snapshot || meta.row_ids == RowIds::Tids {
                break;
            }
            std::thread::yield_now();
            snapshot = reader.snapshot(true);
            meta = Meta::read(reader)?;
        }
        let known_pending = known.and_then(|state| state.pending.as_ref());
        let mut pending = Pending::read(reader, &meta, known_pending);
        for _ in 0..RENEWALS_MAX {
            if pending.is_ok() || Meta::read_commit(reader)? == meta.change.commit {
                break;
            }
            // Pages that leave the list serve another purpose at once.
            meta = Meta::read(reader)?;
            pending = Pending::read(reader, &meta, known_pending);
        }
        let same = known.filter(|state| {
            state.meta.change.model_start == meta.change.model_start && state.meta.centroids == meta.centroids
        });
        let model = match same {
            Some(state) => state.model.clone(),
            None => Arc::new(model::read_model(&meta, reader)?),
        };
        // Where each step counts by itself, the number says of every change whether there was one.
        let unchanged =
            |state: &&Self| meta.row_ids == RowIds::Tids && state.meta.change.commit == meta.change.commit;
        let entries = match same.filter(unchanged) {
            Some(state) => state.entries.clone(),
            None => model::read_entries(&meta, reader)?,
        };
        let snapshot = snapshot.max(meta.change.commit);
        Ok(Self { meta, model, entries, pending: pending?, snapshot })
    }

    /// The rows of a node that this state sees, or that the host may see.
    #[inline]
    pub(crate) fn rows(&self, node: NodeId, header: &NodeHeader) -> impl Iterator<Item = u64> + use<> {
        let waiting = self.pending.as_ref().map(|pending| pending.of(node, &header.tids()));
        header.rows(self.meta.row_ids, self.snapshot).chain(waiting.into_iter().flatten())
    }

    /// Numbers of the pages that may hold nodes of the index as it is.
    pub(crate) fn node_pages(&self) -> std::ops::Range<u32> {
        let change = &self.meta.change;
        let end = if change.unfinished > 0 { change.unfinished } else { self.meta.page_count };
        change.retired_end.max(1)..end
    }
}

/// The newest state that anybody needed.
#[derive(Debug)]
pub(crate) struct Newest {
    state: RwLock<Arc<State>>,
}

impl Newest {
    pub(crate) fn new(state: State) -> Self {
        Self { state: RwLock::new(Arc::new(state)) }
    }

    /// The newest state known.
    pub(crate) fn known(&self) -> Arc<State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The state of a snapshot that `reader` takes now.
    pub(crate) fn renew(&self, reader: &mut impl Reader) -> Result<Arc<State>, Error> {
        let known = self.known();
        let same = match known.meta.row_ids {
            RowIds::Mapped => known.snapshot == reader.snapshot(true),
            RowIds::Tids => known.meta.change.commit == Meta::read_commit(reader)?,
        };
        let is_caught_up = |pending: &Arc<Pending>, reader: &mut _| {
            // What cannot be read is not what it was when the number was looked at, or damaged: the new state tells.
            pending.catch_up(reader, known.meta.change.pending_head).is_ok()
        };
        if same && known.pending.as_ref().is_none_or(|pending| is_caught_up(pending, reader)) {
            return Ok(known);
        }
        let state = Arc::new(State::read(reader, Some(&known))?);
        let mut newest = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if (newest.snapshot, newest.meta.change.commit) < (state.snapshot, state.meta.change.commit) {
            *newest = state.clone();
        }
        Ok(state)
    }
}
