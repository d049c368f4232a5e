//! Finds the dimensions of an index that is rebuilt over an empty table, if its column does not
//! declare them. There are two sources, in this order:
//!
//! - What this session remembers of the file. A file loses its rows and stays at the commit of a
//!   temporary table with `ON COMMIT DELETE ROWS`, and at a TRUNCATE in the transaction that made
//!   the file.
//! - The old file. TRUNCATE and REINDEX otherwise give the index a new file, and the old one stays
//!   until the transaction commits.

use std::cell::RefCell;

use pagehop_engine::Index;
use pgrx::pg_sys;

use super::RelationPages;
use super::open_indexes::{self, File};

thread_local! {
    /// Files of the indexes that this session has built whose column declares no dimensions, and
    /// the dimensions of each.
    static BUILT: RefCell<Vec<(File, usize)>> = const { RefCell::new(Vec::new()) };
}

/// Remembers the dimensions of an index that this session builds and whose column declares none.
///
/// # Safety
///
/// `index` is open and of this access method.
pub(crate) unsafe fn remember(index: pg_sys::Relation, dim: usize) {
    // SAFETY: the caller keeps the index open.
    let file = unsafe { open_indexes::file(index) };
    BUILT.with_borrow_mut(|built| {
        built.retain(|(known, _)| *known != file);
        built.push((file, dim));
    });
}

/// Dimensions of the vectors that the index had before it became empty. `None` if this session
/// does not remember its file, and there is no old file that can be read.
///
/// # Safety
///
/// `index` is open and of this access method.
pub(crate) unsafe fn dimensions(index: pg_sys::Relation) -> Option<usize> {
    // SAFETY: the caller keeps the index open.
    let file = unsafe { open_indexes::file(index) };
    let built = BUILT.with_borrow(|built| built.iter().find(|(known, _)| *known == file).map(|(_, dim)| *dim));
    // SAFETY: the caller keeps the index open.
    built.or_else(|| unsafe { in_old_file(index) })
}

/// Dimensions of the vectors in the file that the index had before this statement.
///
/// # Safety
///
/// As [`dimensions`].
unsafe fn in_old_file(index: pg_sys::Relation) -> Option<usize> {
    // SAFETY: the caller keeps the index open. The entry that stands for the old file is made here,
    // says what kind of relation the index is, and is only used until it is freed.
    unsafe {
        let file = file_before(index).filter(|file| file.relNumber != (*index).rd_locator.relNumber)?;
        let old = pg_sys::CreateFakeRelcacheEntry(file);
        // A fake entry has the storage manager of a relation that is not temporary. This one may
        // be.
        (*old).rd_smgr = pg_sys::smgropen(file, (*index).rd_backend);
        (*old).rd_backend = (*index).rd_backend;
        (*old).rd_islocaltemp = (*index).rd_islocaltemp;
        (*(*old).rd_rel).relpersistence = (*(*index).rd_rel).relpersistence;
        (*(*old).rd_rel).relkind = (*(*index).rd_rel).relkind;
        let dim = Index::open(RelationPages::new(old)).and_then(|open| open.info()).map(|info| info.dim);
        pg_sys::FreeFakeRelcacheEntry(old);
        dim.ok()
    }
}

/// The file of the index by the statement's snapshot, which does not see what the statement
/// changed.
///
/// # Safety
///
/// `index` is open.
unsafe fn file_before(index: pg_sys::Relation) -> Option<pg_sys::RelFileLocator> {
    let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    let mut key = pg_sys::ScanKeyData::default();
    // SAFETY: the caller keeps the index open. The key is for the only column of the index of
    // pg_class by number, and a row is there until the scan has ended.
    unsafe {
        if !pg_sys::ActiveSnapshotSet() {
            return None;
        }
        let (column, equals) = (pg_sys::Anum_pg_class_oid as i16, pg_sys::BTEqualStrategyNumber as u16);
        let number = pg_sys::Datum::from((*index).rd_id);
        pg_sys::ScanKeyInit(&raw mut key, column, equals, pg_sys::F_OIDEQ.into(), number);
        let classes = pg_sys::table_open(pg_sys::RelationRelationId, lock);
        let by_number = pg_sys::Oid::from(pg_sys::ClassOidIndexId);
        let scan =
            pg_sys::systable_beginscan(classes, by_number, true, pg_sys::GetActiveSnapshot(), 1, &raw mut key);
        let row = pg_sys::systable_getnext(scan);
        let file = (!row.is_null()).then(|| {
            let class = &*pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_class>();
            let is_default = class.reltablespace == pg_sys::InvalidOid;
            let space = if is_default { pg_sys::MyDatabaseTableSpace } else { class.reltablespace };
            pg_sys::RelFileLocator { spcOid: space, dbOid: pg_sys::MyDatabaseId, relNumber: class.relfilenode }
        });
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(classes, lock);
        file
    }
}
