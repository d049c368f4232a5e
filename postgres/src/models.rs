//! Open indexes of this backend: the model of an index is some thirty pages, which a scan should not read each
//! time.
//!
//! The relation cache keeps a token for us (`rd_amcache`), which it drops whenever the index may have become
//! another one: after REINDEX, TRUNCATE, or anything else that invalidates it. The token leads to the open index
//! here. Lesser changes are the engine's to notice, from the meta page.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pagehop_engine::{Error, Index};
use pgrx::pg_sys;

use crate::pages::RelationPages;

/// Models kept: at 256 centroids of 1,536 dimensions one takes about a megabyte.
const MODELS_MAX: usize = 16;

/// An open index.
pub(crate) type OpenIndex = Rc<Index<RelationPages>>;

thread_local! {
    /// Lately used first.
    static MODELS: RefCell<Vec<(u64, OpenIndex)>> = const { RefCell::new(Vec::new()) };
    static NEXT_TOKEN: Cell<u64> = const { Cell::new(1) };
}

/// The index that `relation` is, with the relation attached.
///
/// # Safety
///
/// `relation` is open, of this access method, and stays open while what is begun on the index is used.
pub(crate) unsafe fn open(relation: pg_sys::Relation) -> Result<OpenIndex, Error> {
    // SAFETY: the relation is open; what lies in `rd_amcache` was put there below.
    let token = unsafe { (*relation).rd_amcache.cast::<u64>().as_ref() };
    if let Some(index) = token.and_then(|token| find(*token)) {
        // SAFETY: the token says that this is the same index; the caller keeps the relation open.
        unsafe { index.pages().attach(relation) };
        return Ok(index);
    }
    // SAFETY: the caller keeps the relation open.
    let index = Rc::new(Index::open(unsafe { RelationPages::new(relation) })?);
    let token = NEXT_TOKEN.replace(NEXT_TOKEN.get() + 1);
    MODELS.with_borrow_mut(|models| {
        models.truncate(MODELS_MAX - 1);
        models.insert(0, (token, index.clone()));
    });
    // SAFETY: `rd_amcache` belongs to the access method: one chunk in `rd_indexcxt`, which the relation cache frees
    // by itself. To read the pages may have made it drop the old token, so it is looked at anew.
    unsafe {
        if (*relation).rd_amcache.is_null() {
            (*relation).rd_amcache = pg_sys::MemoryContextAlloc((*relation).rd_indexcxt, size_of::<u64>());
        }
        (*relation).rd_amcache.cast::<u64>().write(token);
    }
    Ok(index)
}

fn find(token: u64) -> Option<OpenIndex> {
    MODELS.with_borrow_mut(|models| {
        let at = models.iter().position(|(known, _)| *known == token)?;
        models[..=at].rotate_right(1);
        Some(models[0].1.clone())
    })
}

/// Forgets what is known of an index that is about to be built anew.
///
/// # Safety
///
/// `relation` is open and of this access method.
pub(crate) unsafe fn forget(relation: pg_sys::Relation) {
    // SAFETY: as in `open`: the chunk is ours to free.
    unsafe {
        let token = std::mem::replace(&mut (*relation).rd_amcache, std::ptr::null_mut());
        if !token.is_null() {
            pg_sys::pfree(token);
        }
    }
}
