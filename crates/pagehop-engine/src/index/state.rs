//! What a search knows of the index as of one commit: the meta page and the model. Readers share it and renew
//! it when a commit came; a cursor keeps what it began with.

use std::sync::{Arc, PoisonError, RwLock};

use super::meta::Meta;
use super::model::{self, Entry, Model};
use crate::page::Reader;
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
        Ok(Self { meta, model, entries, snapshot })
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
        if same {
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
