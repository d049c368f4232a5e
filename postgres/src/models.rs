//! Open indexes of this backend: the model of an index is some thirty pages and takes milliseconds to prepare, which a scan should not
//! do each time.
//!
//! They are told apart by their files: REINDEX, TRUNCATE and the like give an index a new one. The relation cache, which drops what it
//! knows of an index whenever VACUUM brings new statistics, is not asked. Lesser changes are the engine's to notice, from the meta page.

use std::cell::RefCell;
use std::rc::Rc;

use pagehop_engine::{Error, Index};
use pgrx::pg_sys;

use crate::pages::RelationPages;

/// Models kept: at 256 centroids of 1,536 dimensions one takes about a megabyte.
const MODELS_MAX: usize = 16;

/// An open index.
pub(crate) type OpenIndex = Rc<Index<RelationPages>>;

/// An index, and its file by tablespace, database and number. While it is the index's, nobody builds another in it without [`forget`].
type File = [u32; 4];

thread_local! {
    /// Lately used first.
    static MODELS: RefCell<Vec<(File, OpenIndex)>> = const { RefCell::new(Vec::new()) };
}

/// The index that `relation` is, with the relation attached.
///
/// # Safety
///
/// `relation` is open, of this access method, and stays open while what is begun on the index is used.
pub(crate) unsafe fn open(relation: pg_sys::Relation) -> Result<OpenIndex, Error> {
    // SAFETY: the relation is open.
    let file = unsafe { file(relation) };
    if let Some(index) = find(file) {
        // SAFETY: the file says that this is the same index; the caller keeps the relation open.
        unsafe { index.pages().attach(relation) };
        return Ok(index);
    }
    // SAFETY: the caller keeps the relation open.
    let index = Rc::new(Index::open(unsafe { RelationPages::new(relation) })?);
    MODELS.with_borrow_mut(|models| {
        models.truncate(MODELS_MAX - 1);
        models.insert(0, (file, index.clone()));
    });
    Ok(index)
}

fn find(file: File) -> Option<OpenIndex> {
    MODELS.with_borrow_mut(|models| {
        let at = models.iter().position(|(known, _)| *known == file)?;
        models[..=at].rotate_right(1);
        Some(models[0].1.clone())
    })
}

/// Forgets what is known of an index that is about to be built anew: in the transaction that made it, it may be in the same file.
///
/// # Safety
///
/// `relation` is open and of this access method.
pub(crate) unsafe fn forget(relation: pg_sys::Relation) {
    // SAFETY: the caller's promise.
    let file = unsafe { file(relation) };
    MODELS.with_borrow_mut(|models| models.retain(|(known, _)| *known != file));
}

/// # Safety
///
/// `relation` is open.
unsafe fn file(relation: pg_sys::Relation) -> File {
    // SAFETY: the caller's promise.
    let (index, file) = unsafe { ((*relation).rd_id, (*relation).rd_locator) };
    [index.to_u32(), file.spcOid.to_u32(), file.dbOid.to_u32(), file.relNumber.to_u32()]
}
