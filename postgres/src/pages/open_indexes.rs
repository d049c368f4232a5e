//! Indexes that this session has open, with their models.
//!
//! The model of an index is some thirty pages and takes milliseconds to read, which a scan should
//! not do each time. An index is identified by its file: REINDEX, TRUNCATE and similar statements
//! give it a new one. The relation cache is not used: it drops its data about an index whenever
//! VACUUM writes new statistics. The engine detects other changes, from the meta page.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use pagehop_engine::{Error, Index};
use pgrx::pg_sys;

use super::RelationPages;
use super::recent_buffers::RecentBuffers;
use super::waits::Waits;
use crate::rows::opclass;

/// Bytes that a session keeps of open indexes: enough for fifty with a model of 256 centroids of
/// 1,536 dimensions, or for two with ten million rows. The index used last is always kept.
const BYTES_MAX: usize = 64 << 20;

/// Change of [`NodesPerRow`] per scan: up if the scan took more nodes than that, down if not.
const STEP: f32 = 0.02;
/// Most nodes per row that are learned.
const NODES_PER_ROW_MAX: f32 = 3.0;

/// An open index, with statistics of its scans.
pub(crate) struct Opened {
    index: Index<RelationPages>,
    /// Buffers of the table's blocks.
    pub(crate) table_buffers: RecentBuffers,
    /// How long reads of the table take.
    pub(crate) table_waits: Waits,
    pub(crate) nodes_per_row: NodesPerRow,
}

impl Opened {
    /// Approximate bytes of memory of the index.
    fn bytes(&self) -> usize {
        self.index.memory_bytes() + self.index.pages().memory_bytes() + self.table_buffers.memory_bytes()
    }
}

/// An open index, shared by all its users.
pub(crate) type OpenIndex = Rc<Opened>;

impl Deref for Opened {
    type Target = Index<RelationPages>;

    #[inline]
    fn deref(&self) -> &Index<RelationPages> {
        &self.index
    }
}

/// Running median, over the scans of an index, of the nodes taken for each row that was wanted.
pub(crate) struct NodesPerRow(Cell<f32>);

impl Default for NodesPerRow {
    fn default() -> Self {
        Self(Cell::new(1.0))
    }
}

impl NodesPerRow {
    pub(crate) fn get(&self) -> f32 {
        self.0.get()
    }

    /// Learns from a scan that returned `wanted` rows and took `taken` nodes for them.
    pub(crate) fn learn(&self, wanted: usize, taken: usize) {
        let is_more = taken as f32 > wanted as f32 * self.get();
        self.0.set((self.get() + if is_more { STEP } else { -STEP }).clamp(1.0, NODES_PER_ROW_MAX));
    }
}

/// An index, and its file by tablespace, database and number. While the index has the file, every
/// other index is built in another file or after [`forget`].
pub(super) type File = [u32; 4];

thread_local! {
    /// Open indexes, the last used first.
    static OPEN: RefCell<Vec<(File, OpenIndex)>> = const { RefCell::new(Vec::new()) };
}

/// The open index of `relation`, with the relation attached.
///
/// # Safety
///
/// `relation` is open, of this access method, and stays open while anything begun on the index is
/// used.
pub(crate) unsafe fn open(relation: pg_sys::Relation) -> Result<OpenIndex, Error> {
    // SAFETY: the caller keeps the relation open.
    let file = unsafe { file(relation) };
    if let Some(index) = find(file) {
        // SAFETY: the file says that this is the same index; the caller keeps the relation open.
        unsafe { index.pages().attach(relation) };
        return Ok(index);
    }
    // SAFETY: the caller keeps the relation open.
    let index = Index::open(unsafe { RelationPages::new(relation) })?;
    let opened = Rc::new(Opened {
        index,
        table_buffers: RecentBuffers::default(),
        table_waits: Waits::default(),
        nodes_per_row: NodesPerRow::default(),
    });
    OPEN.with_borrow_mut(|open| {
        open.insert(0, (file, opened.clone()));
        let mut bytes = 0;
        let is_kept = |(_, opened): &(File, OpenIndex)| {
            bytes += opened.bytes();
            bytes <= BYTES_MAX
        };
        let kept = open.iter().map(is_kept).take_while(|is_kept| *is_kept).count();
        open.truncate(kept.max(1));
    });
    Ok(opened)
}

/// Dimensions of the vectors that the index has.
///
/// # Safety
///
/// As [`open`].
pub(crate) unsafe fn dimensions(relation: pg_sys::Relation) -> Result<usize, Error> {
    // SAFETY: the caller keeps the relation open.
    unsafe {
        match opclass::declared_dimensions(relation) {
            Some(dim) => Ok(dim),
            None => Ok(open(relation)?.info()?.dim),
        }
    }
}

fn find(file: File) -> Option<OpenIndex> {
    OPEN.with_borrow_mut(|open| {
        let at = open.iter().position(|(known, _)| *known == file)?;
        open[..=at].rotate_right(1);
        Some(open[0].1.clone())
    })
}

/// Forgets an index that is about to be built again: in the transaction that made it, it may keep
/// the same file.
///
/// # Safety
///
/// `relation` is open and of this access method.
pub(crate) unsafe fn forget(relation: pg_sys::Relation) {
    // SAFETY: the caller keeps the relation open.
    let file = unsafe { file(relation) };
    OPEN.with_borrow_mut(|open| open.retain(|(known, _)| *known != file));
}

/// # Safety
///
/// `relation` is open.
pub(super) unsafe fn file(relation: pg_sys::Relation) -> File {
    // SAFETY: the caller keeps the relation open.
    let (index, file) = unsafe { ((*relation).rd_id, (*relation).rd_locator) };
    [index.to_u32(), file.spcOid.to_u32(), file.dbOid.to_u32(), file.relNumber.to_u32()]
}
