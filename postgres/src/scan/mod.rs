//! The callbacks of an ordered scan: the engine's cursor, one row at a time, for as long as the
//! executor asks.
//!
//! | file | job |
//! |---|---|
//! | `mod.rs` | PostgreSQL's callbacks, and the state between them |
//! | `search.rs` | one search: cursor, rows read ahead |
//! | `keys.rs` | the conditions on filter columns |
//! | `limit.rs`, `demand.rs` | how many rows are wanted, and the k that follows |
//! | `order.rs` | the distance and recheck flag that the executor gets with a row |
//! | `places.rs` | puts rows in order here, where their places in the table may be read |
//! | `stats.rs`, `explain.rs` | what scans cost |
//! | `unread.rs` | takes distances that are not read out of a plan |

mod demand;
#[cfg(feature = "pg18")]
pub(crate) mod explain;
mod keys;
pub(crate) mod limit;
mod order;
mod places;
mod search;
pub(crate) mod stats;
pub(crate) mod unread;

use std::borrow::Cow;
use std::ffi::c_void;

use pagehop_engine::{Error, PageId};
use pgrx::pg_sys;
use pgrx::prelude::*;

use self::keys::Conditions;
use self::order::Order;
use self::places::{InOrder, InTable};
use self::search::Search;
use self::stats::ScanStats;
use crate::options::{End, Limits};
use crate::pages::open_indexes;
use crate::rows::opclass::Kind;
use crate::rows::vector;
use crate::{errors, options, replay, whole_errors};

/// The hint of an error for memory that a scan does not get.
const MEMORY_HINT: &str =
    "Lower work_mem, of which a scan takes up to eight times, or look at the limits on the server's memory.";

/// The state of a scan between calls.
struct Scan {
    kind: Kind,
    query: Query,
    conditions: Conditions,
    /// None before the first row.
    search: Option<Box<Search>>,
    order: Order,
    /// The rows that wait here to be ordered, if the executor does not order them.
    in_order: InOrder,
    limits: Limits,
    done: bool,
    /// The statistics of searches that have ended.
    stats: ScanStats,
    /// How far a standby had replayed the log when the search began; `None` on a primary.
    replayed: Option<pg_sys::XLogRecPtr>,
}

/// The query of a scan.
enum Query {
    Vector(Vec<f32>),
    /// Every distance is NULL, or NaN: every order is right.
    AnyOrder,
}

/// `ambeginscan`.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn ambeginscan(
    index: pg_sys::Relation,
    keys: i32,
    order_bys: i32,
) -> pg_sys::IndexScanDesc {
    // SAFETY: PostgreSQL passes an open index.
    let (scan, kind, oid) =
        unsafe { (pg_sys::RelationGetIndexScan(index, keys, order_bys), Kind::of(index), (*index).rd_id) };
    let state = Box::into_raw(Box::new(Scan {
        kind,
        query: Query::AnyOrder,
        conditions: Conditions::default(),
        search: None,
        order: Order::new(true),
        in_order: InOrder::default(),
        limits: Limits::default(),
        done: true,
        stats: ScanStats { index: oid, ..ScanStats::default() },
        replayed: None,
    }));
    let count = order_bys.max(1) as usize;
    // SAFETY: the current memory context is the scan's, and so lives as long. It drops the Rust
    // part with itself, for there is no `amendscan` after an error. All zeros are a valid callback.
    unsafe {
        (*scan).xs_orderbyvals = pg_sys::palloc0(count * size_of::<pg_sys::Datum>()).cast();
        (*scan).xs_orderbynulls = pg_sys::palloc0(count * size_of::<bool>()).cast();
        (*scan).opaque = state.cast();
        let callback =
            pg_sys::palloc0(size_of::<pg_sys::MemoryContextCallback>()).cast::<pg_sys::MemoryContextCallback>();
        (*callback).func = Some(forget_scan);
        (*callback).arg = state.cast();
        pg_sys::MemoryContextRegisterResetCallback(pg_sys::CurrentMemoryContext, callback);
    }
    scan
}

/// Drops a [`Scan`]. It must not call into PostgreSQL: a search has unfinished reads of the table
/// only after an error, and then the end of the transaction releases them.
unsafe extern "C-unwind" fn forget_scan(state: *mut c_void) {
    // SAFETY: `ambeginscan` registered it for this box, once.
    drop(unsafe { Box::from_raw(state.cast::<Scan>()) });
}

/// The Rust part of a scan.
///
/// # Safety
///
/// `scan` came from [`ambeginscan`], and the reference is the only one.
unsafe fn state<'s>(scan: pg_sys::IndexScanDesc) -> &'s mut Scan {
    // SAFETY: `ambeginscan` put it there, and the memory context keeps it for as long as the scan.
    unsafe { &mut *(*scan).opaque.cast::<Scan>() }
}

/// `amrescan`: takes the query and the conditions of a new search, which begins when its first row
/// is fetched.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn amrescan(
    scan: pg_sys::IndexScanDesc,
    keys: pg_sys::ScanKey,
    key_count: i32,
    order_bys: pg_sys::ScanKey,
    order_by_count: i32,
) {
    // SAFETY: PostgreSQL passes a scan that `ambeginscan` made, whose rooms for keys have the sizes
    // that were announced.
    let (key, conditions) = unsafe {
        let conditions = usize::try_from((*scan).numberOfKeys).unwrap_or(0);
        if !keys.is_null() && key_count > 0 {
            std::ptr::copy(keys, (*scan).keyData, conditions);
        }
        let count = usize::try_from((*scan).numberOfOrderBys).unwrap_or(0);
        if !order_bys.is_null() && order_by_count > 0 {
            std::ptr::copy(order_bys, (*scan).orderByData, count);
        }
        if count != 1 {
            let what = "cannot scan pagehop index without order".into();
            errors::report(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, what, None);
        }
        let keys: &[pg_sys::ScanKeyData] = match conditions {
            0 => &[],
            _ => std::slice::from_raw_parts((*scan).keyData, conditions),
        };
        (&*(*scan).orderByData, Conditions::read((*scan).indexRelation, keys))
    };
    // SAFETY: `ambeginscan` made the scan, and no other callback runs.
    let state = unsafe { state(scan) };
    // SAFETY: the key is of the operator's type, which the operator class says.
    unsafe { state.take_query(key) };
    state.conditions = conditions;
    state.order = Order::new(options::is_order_strict());
    state.in_order.clear();
    state.limits = options::limits();
    state.done = false;
    state.replayed = replay::position();
    // A search from before is used again, for its buffers.
    if let Some(search) = &mut state.search {
        state.stats.add(&search.stats(), search.pages_ahead());
        state.stats.searches += 1;
        state.stats.end = End::default();
        // SAFETY: the scan keeps its index and table open, and the search began with that index.
        let begun = unsafe {
            search.end();
            let query = state.query.vector(scan);
            query.and_then(|query| search.begin(scan, &query, (&state.conditions, &state.limits)))
        };
        if let Err(error) = begun {
            // SAFETY: the scan keeps its index open.
            unsafe { state.raise(scan, error) };
        }
    }
}

/// `amgettuple`: the next row.
pub(crate) unsafe extern "C-unwind" fn amgettuple(
    scan: pg_sys::IndexScanDesc,
    direction: pg_sys::ScanDirection::Type,
) -> bool {
    // SAFETY: PostgreSQL calls this, for a scan that `ambeginscan` made and `amrescan` began.
    unsafe { whole_errors::guard(|| next_row(scan, direction)) }
}

/// Puts the next row into `scan`; `false` if there is none.
///
/// # Safety
///
/// `ambeginscan` made the scan, `amrescan` began it, and no other callback runs.
unsafe fn next_row(scan: pg_sys::IndexScanDesc, direction: pg_sys::ScanDirection::Type) -> bool {
    debug_assert_eq!(direction, pg_sys::ScanDirection::ForwardScanDirection, "`amcanbackward` is not set");
    // SAFETY: `ambeginscan` made the scan, and no other callback uses its state.
    let state = unsafe { state(scan) };
    if state.search.is_none() {
        // SAFETY: the scan is PostgreSQL's.
        unsafe { refuse_other_snapshots(scan) };
    }
    // SAFETY: the scan keeps its index and table open.
    match unsafe { state.next(scan) } {
        Ok(Some(Row { tid, distance, recheck })) => {
            state.stats.rows += 1;
            state.stats.rechecks += u64::from(recheck);
            // SAFETY: the scan is PostgreSQL's; `ambeginscan` made room for a value.
            unsafe {
                (*scan).xs_heaptid = tid;
                (*scan).xs_recheck = state.conditions.recheck;
                (*scan).xs_recheckorderby = recheck;
                *(*scan).xs_orderbyvals = pg_sys::Datum::from(distance.unwrap_or(0.0).to_bits());
                *(*scan).xs_orderbynulls = distance.is_none();
            }
            true
        }
        Ok(None) => {
            state.done = true;
            false
        }
        // SAFETY: the scan keeps its index open.
        Err(error) => unsafe { state.raise(scan, error) },
    }
}

/// Refuses snapshots that are not MVCC. The scan holds no pin, so a new row may take the place of
/// an old one, and only an MVCC snapshot does not see the new row.
///
/// # Safety
///
/// `scan` is a scan that PostgreSQL began.
unsafe fn refuse_other_snapshots(scan: pg_sys::IndexScanDesc) {
    // SAFETY: the caller says that PostgreSQL began the scan, whose snapshot is there until its
    // end, or null.
    let snapshot = unsafe { (*scan).xs_snapshot.as_ref() };
    let is_mvcc = |snapshot: &pg_sys::SnapshotData| {
        [pg_sys::SnapshotType::SNAPSHOT_MVCC, pg_sys::SnapshotType::SNAPSHOT_HISTORIC_MVCC]
            .contains(&snapshot.snapshot_type)
    };
    if !snapshot.is_some_and(is_mvcc) {
        let what = "non-MVCC snapshots are not supported with pagehop index".to_string();
        errors::report(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, what, None);
    }
}

/// `amendscan`: releases the search early; the memory context frees the rest.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn amendscan(scan: pg_sys::IndexScanDesc) {
    // SAFETY: PostgreSQL passes a scan that `ambeginscan` made, and no other callback runs.
    let state = unsafe { state(scan) };
    // SAFETY: the scan has not ended yet.
    unsafe { state.in_order.close() };
    if let Some(mut search) = state.search.take() {
        state.stats.add(&search.stats(), search.pages_ahead());
        state.stats.publish();
        // SAFETY: the table, if there is one, is open until the scan has ended.
        unsafe { search.end() };
        search.retire();
    }
}

/// The cost of a scan so far, if its index is of this access method.
///
/// # Safety
///
/// `scan` is null, or a scan of an open index.
#[cfg(feature = "pg18")]
unsafe fn stats_of(scan: pg_sys::IndexScanDesc) -> Option<ScanStats> {
    // SAFETY: the caller says that the scan is null or of an open index, which has its row of
    // pg_class.
    let is_ours = unsafe {
        let access_method = (*(*scan.as_ref()?.indexRelation).rd_rel).relam;
        access_method == pg_sys::get_index_am_oid(c"pagehop".as_ptr(), true)
    };
    // SAFETY: a scan of an index of ours came from `ambeginscan`, and no callback runs.
    let state = is_ours.then(|| unsafe { state(scan) })?;
    let mut stats = state.stats;
    state.search.iter().for_each(|search| stats.add(&search.stats(), search.pages_ahead()));
    Some(stats)
}

/// A row that is returned.
struct Row {
    tid: pg_sys::ItemPointerData,
    /// The distance that the executor gets: a lower bound, or `None` for NULL.
    distance: Option<f64>,
    /// Whether the executor must compute the distance.
    recheck: bool,
}

impl Scan {
    /// Raises an error of the scan.
    ///
    /// # Safety
    ///
    /// `scan` has its index open.
    unsafe fn raise(&self, scan: pg_sys::IndexScanDesc, error: Error) -> ! {
        // SAFETY: the caller says that the index is open.
        unsafe {
            if let Error::Memory { what, .. } = &error {
                errors::out_of_memory((*scan).indexRelation, what, MEMORY_HINT);
            }
            replay::raise((*scan).indexRelation, error, self.replayed)
        }
    }

    /// Takes the query from an ORDER BY key.
    ///
    /// # Safety
    ///
    /// The key's argument is NULL, or of the type of the scan's operator class.
    unsafe fn take_query(&mut self, key: &pg_sys::ScanKeyData) {
        let mut query = match std::mem::replace(&mut self.query, Query::AnyOrder) {
            Query::Vector(buffer) => buffer,
            Query::AnyOrder => Vec::new(),
        };
        query.clear();
        if key.sk_flags & pg_sys::SK_ISNULL as i32 == 0 {
            // SAFETY: the caller says that the argument is of this type.
            unsafe { vector::append(key.sk_argument, self.kind.element, &mut query) };
            if self.kind.has_place(&query) {
                self.query = Query::Vector(query);
            }
        }
    }

    /// The next row.
    ///
    /// # Safety
    ///
    /// `scan` is the one that this state belongs to, with its index and table open.
    unsafe fn next(&mut self, scan: pg_sys::IndexScanDesc) -> Result<Option<Row>, Error> {
        if self.done {
            return Ok(None);
        }
        if let Some(search) = self.search.as_mut().filter(|search| search.demand.returned > 0) {
            // SAFETY: the scan is PostgreSQL's. The executor says whether the row before was dead.
            search.demand.dead += usize::from(unsafe { (*scan).kill_prior_tuple });
        }
        // SAFETY: the scan is about to return a row, with its index and table open.
        unsafe {
            match self.order.is_strict() && self.in_order.is_wanted(scan) {
                true => self.next_in_order(scan),
                false => self.next_found(scan),
            }
        }
    }

    /// The next row in order.
    ///
    /// # Safety
    ///
    /// As [`Scan::next`].
    unsafe fn next_in_order(&mut self, scan: pg_sys::IndexScanDesc) -> Result<Option<Row>, Error> {
        loop {
            if let Some(row) = self.in_order.pop() {
                return Ok(Some(Row { tid: row.tid, distance: Some(row.distance), recheck: false }));
            }
            if self.in_order.has_all() {
                return Ok(None);
            }
            if let Some(search) = &mut self.search {
                search.demand.waiting = self.in_order.len();
            }
            // SAFETY: the caller says that index and table are open.
            let Some(found) = (unsafe { self.next_found(scan)? }) else {
                self.in_order.end();
                continue;
            };
            // Where all distances are NULL, any order is right.
            let Some(least) = found.distance else { return Ok(Some(found)) };
            self.in_order.pass(least);
            if !found.recheck {
                self.in_order.push(found.tid, least)?;
                continue;
            }
            self.stats.rechecks += 1;
            // SAFETY: the scan is about to return a row, and its order key is a vector.
            match unsafe { self.in_order.look(scan, found.tid) } {
                InTable::Seen(distance) if distance < least => {
                    let what = format!("a row has distance {distance}, below its lower bound {least}");
                    return Err(Error::corrupt(PageId(0), what));
                }
                InTable::Seen(distance) => self.in_order.push(found.tid, distance)?,
                InTable::Unseen { is_dead } => {
                    let search = self.search.as_mut().expect("it found the row");
                    search.demand.dead += usize::from(is_dead);
                }
            }
        }
    }

    /// The next row as the index finds it.
    ///
    /// # Safety
    ///
    /// As [`Scan::next`].
    unsafe fn next_found(&mut self, scan: pg_sys::IndexScanDesc) -> Result<Option<Row>, Error> {
        loop {
            let search = match &mut self.search {
                Some(search) => search,
                none => {
                    self.stats.searches += 1;
                    let keeps = (&self.conditions, &self.limits);
                    // SAFETY: the scan keeps its index and table open until `amendscan`, which ends
                    // the search.
                    none.insert(unsafe { Search::new(scan, &self.query.vector(scan)?, keeps)? })
                }
            };
            if let Some(end) = search.reached(&self.limits) {
                self.stats.end = end;
                return Ok(None);
            }
            // SAFETY: the scan keeps its index and table open, and the search began with that
            // index.
            let Some(found) = (unsafe { search.next(scan)? }) else {
                self.stats.end = search.end_of_rows();
                return Ok(None);
            };
            let Some(tid) = vector::tid(found.row_id) else {
                let what = format!("row id {:#x} is not a valid tid", found.row_id);
                return Err(Error::corrupt(PageId(0), what));
            };
            match self.query {
                Query::AnyOrder => return Ok(Some(Row { tid, distance: None, recheck: false })),
                Query::Vector(_) => {
                    if let Some(place) = self.order.place(&found, search.upcoming(), self.kind.metric) {
                        search.demand.returned += 1;
                        return Ok(Some(Row { tid, distance: Some(place.distance), recheck: place.recheck }));
                    }
                    search.demand.late += 1;
                    self.stats.late_rows += 1;
                }
            }
        }
    }
}

impl Query {
    /// The query vector for the engine.
    ///
    /// # Safety
    ///
    /// `scan` has its index open.
    unsafe fn vector(&self, scan: pg_sys::IndexScanDesc) -> Result<Cow<'_, [f32]>, Error> {
        match self {
            Self::Vector(vector) => Ok(Cow::Borrowed(vector)),
            Self::AnyOrder => {
                // SAFETY: the caller says that the scan has its index open.
                let mut some = vec![0.0; unsafe { open_indexes::dimensions((*scan).indexRelation)? }];
                some[0] = 1.0;
                Ok(Cow::Owned(some))
            }
        }
    }
}
