//! The pending list as a map: which row ids wait for a node.
//!
//! A search adds the row ids that wait for a node which it visits. Each process keeps the map and
//! brings it up to date together with what it knows of the meta page.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, PoisonError, RwLock};

use crate::Error;
use crate::ids::NodeId;
use crate::index::node_set::NodeHasher;
use crate::page::meta::Meta;
use crate::page::pending_list::{self, Pending};
use crate::page::{PageId, Reader};

/// The list as a map, as far as this process has read it. It only grows: once entries leave the
/// list, a new map replaces it.
#[derive(Debug)]
pub(crate) struct PendingMap {
    /// The meta page's `pending_since` when this map began: it changes when entries leave the list.
    since: u64,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The page that was read last, which was then the first of the list, and the number of its
    /// entries that were read.
    first: u32,
    count: usize,
    row_ids: HashMap<NodeId, Vec<u64>, BuildHasherDefault<NodeHasher>>,
}

impl PendingMap {
    /// The list that `meta` names: `known`, brought up to date, unless entries left it since.
    /// `None` if there is none.
    pub(crate) fn read(
        reader: &mut impl Reader,
        meta: &Meta,
        known: Option<&Arc<Self>>,
    ) -> Result<Option<Arc<Self>>, Error> {
        let (first, since) = (meta.change.pending_head, meta.change.pending_since);
        if first == 0 {
            return Ok(None);
        }
        let fresh = || Arc::new(Self { since, known: RwLock::default() });
        let pending = known.filter(|known| known.since == since).cloned().unwrap_or_else(fresh);
        pending.catch_up(reader, first)?;
        Ok(Some(pending))
    }

    /// Reads the entries that were added since, in the list that begins at page `first`.
    pub(crate) fn catch_up(&self, reader: &mut impl Reader, first: u32) -> Result<(), Error> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let known = &mut *known;
        if first == known.first && pending_list::head(reader, PageId(first))?.count == known.count {
            return Ok(());
        }
        let (mut came, mut count) = (Vec::new(), None);
        pending_list::scan(reader, first, &mut |page: PageId, all: &[Pending]| {
            let is_known = page.0 == known.first;
            let from = if is_known { known.count.min(all.len()) } else { 0 };
            came.extend_from_slice(&all[from..]);
            count = count.or(Some(all.len()));
            Ok(!is_known)
        })?;
        for Pending { node, row_id } in came {
            known.row_ids.entry(node).or_default().push(row_id);
        }
        known.first = first;
        known.count = count.unwrap_or(0);
        Ok(())
    }

    /// The row ids that wait for `node`, except those that it has.
    pub(crate) fn of(&self, node: NodeId, named: &[u64]) -> Vec<u64> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let row_ids = known.row_ids.get(&node).map_or(&[][..], Vec::as_slice);
        row_ids.iter().copied().filter(|row_id| !named.contains(row_id)).collect()
    }
}
