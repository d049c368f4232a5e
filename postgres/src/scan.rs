//! An ordered scan: the engine's cursor, one row at a time, for as long as the executor asks.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::c_void;
use std::rc::Rc;

use pagehop_engine::{Cursor, Error, Found, Index, PageId, SearchOptions};
use pgrx::prelude::*;
use pgrx::{PgRelation, pg_sys};

use crate::demand::Demand;
use crate::heap::LookAhead;
use crate::limit;
use crate::models::{self, OpenIndex};
use crate::opclass::{self, Kind};
use crate::options::Limits;
use crate::order::Order;
use crate::pages::RelationPages;
use crate::scan_stats::{End, ScanStats};
use crate::{errors, options, vector};

/// What a scan keeps between calls.
struct Scan {
    kind: Kind,
    query: Query,
    /// None before the first row is asked for.
    search: Option<Search>,
    order: Order,
    limits: Limits,
    done: bool,
    /// Of the searches that have ended.
    stats: ScanStats,
}

/// What to search for.
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
    // SAFETY: PostgreSQL passes an open index. What is made here lives in the current memory context, which is the
    // scan's; the context drops the Rust part with itself, for there is no `amendscan` after an error.
    unsafe {
        let scan = pg_sys::RelationGetIndexScan(index, keys, order_bys);
        let count = order_bys.max(0) as usize;
        (*scan).xs_orderbyvals = pg_sys::palloc0(count.max(1) * size_of::<pg_sys::Datum>()).cast();
        (*scan).xs_orderbynulls = pg_sys::palloc0(count.max(1) * size_of::<bool>()).cast();
        let state = Scan {
            kind: Kind::of(index),
            query: Query::AnyOrder,
            search: None,
            order: Order::new(true),
            limits: Limits::default(),
            done: true,
            stats: ScanStats { index: (*index).rd_id, ..ScanStats::default() },
        };
        let callback =
            pg_sys::palloc0(size_of::<pg_sys::MemoryContextCallback>()).cast::<pg_sys::MemoryContextCallback>();
        let state = Box::into_raw(Box::new(state));
        (*scan).opaque = state.cast();
        (*callback).func = Some(forget_scan);
        (*callback).arg = state.cast();
        pg_sys::MemoryContextRegisterResetCallback(pg_sys::CurrentMemoryContext, callback);
        scan
    }
}

/// Drops a [`Scan`]. No call into PostgreSQL: what a search at rest still holds of it are reads of the table, after an error alone, and
/// the end of the transaction gives those back.
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

/// `amrescan`: begins a search, which finds nothing before it is asked to.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn amrescan(
    scan: pg_sys::IndexScanDesc,
    _keys: pg_sys::ScanKey,
    _key_count: i32,
    order_bys: pg_sys::ScanKey,
    order_by_count: i32,
) {
    // SAFETY: PostgreSQL passes a scan that `ambeginscan` made, and as many order keys as were announced.
    unsafe {
        let count = usize::try_from((*scan).numberOfOrderBys).unwrap_or(0);
        if !order_bys.is_null() && order_by_count > 0 {
            std::ptr::copy(order_bys, (*scan).orderByData, count);
        }
        if count != 1 {
            errors::report(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cannot scan pagehop index without order".into(),
                None,
            );
        }
        let state = state(scan);
        let key = (*scan).orderByData;
        let mut query = match std::mem::replace(&mut state.query, Query::AnyOrder) {
            Query::Vector(buffer) => buffer,
            Query::AnyOrder => Vec::new(),
        };
        query.clear();
        if (*key).sk_flags & pg_sys::SK_ISNULL as i32 == 0 {
            vector::append((*key).sk_argument, state.kind.element, &mut query);
            if state.kind.has_place(&query) {
                state.query = Query::Vector(query);
            }
        }
        state.order = Order::new(options::is_order_strict());
        state.limits = options::limits();
        state.done = false;
        // A search that was begun is used again: its buffers are.
        if let Some(search) = &mut state.search {
            state.stats.add(&search.cursor.stats());
            state.stats.searches += 1;
            state.stats.end = End::default();
            search.end();
            if let Err(error) = search.begin(scan, &state.query) {
                errors::raise((*scan).indexRelation, error);
            }
        }
    }
}

/// `amgettuple`: the next row.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn amgettuple(
    scan: pg_sys::IndexScanDesc,
    direction: pg_sys::ScanDirection::Type,
) -> bool {
    debug_assert_eq!(direction, pg_sys::ScanDirection::ForwardScanDirection, "`amcanbackward` is not set");
    // SAFETY: PostgreSQL passes a scan that `ambeginscan` made and `amrescan` began.
    unsafe {
        let state = state(scan);
        match state.next(scan) {
            Ok(Some(Row { tid, distance, recheck })) => {
                state.stats.rows += 1;
                state.stats.rechecks += u64::from(recheck);
                (*scan).xs_heaptid = tid;
                (*scan).xs_recheck = false;
                (*scan).xs_recheckorderby = recheck;
                *(*scan).xs_orderbyvals = pg_sys::Datum::from(distance.unwrap_or(0.0).to_bits());
                *(*scan).xs_orderbynulls = distance.is_none();
                true
            }
            Ok(None) => {
                state.done = true;
                false
            }
            Err(error) => errors::raise((*scan).indexRelation, error),
        }
    }
}

/// `amendscan`: gives the search back early; the rest goes with the memory context.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn amendscan(scan: pg_sys::IndexScanDesc) {
    // SAFETY: PostgreSQL passes a scan that `ambeginscan` made.
    let state = unsafe { state(scan) };
    if let Some(mut search) = state.search.take() {
        state.stats.add(&search.cursor.stats());
        state.stats.publish();
        // SAFETY: the table, if there is one, is open until the scan has ended.
        unsafe { search.end() };
        search.retire();
    }
}

/// What a scan has cost so far, if it is one of an index of ours.
///
/// # Safety
///
/// `scan` is null, or a scan of an open index.
#[cfg(feature = "pg18")]
pub(crate) unsafe fn stats(scan: pg_sys::IndexScanDesc) -> Option<ScanStats> {
    // SAFETY: the caller's promise; a scan of an index of ours came from `ambeginscan`.
    unsafe {
        let access_method = (*(*scan.as_ref()?.indexRelation).rd_rel).relam;
        let ours = access_method == pg_sys::get_index_am_oid(c"pagehop".as_ptr(), true);
        let state = ours.then(|| state(scan))?;
        let mut stats = state.stats;
        state.search.iter().for_each(|search| stats.add(&search.cursor.stats()));
        Some(stats)
    }
}

/// A row that is returned.
struct Row {
    tid: pg_sys::ItemPointerData,
    /// What the executor is told of its distance: the least that it may be, or `None` for NULL.
    distance: Option<f64>,
    /// Whether the executor is to look.
    recheck: bool,
}

impl Scan {
    /// The next row.
    ///
    /// # Safety
    ///
    /// As [`amgettuple`].
    unsafe fn next(&mut self, scan: pg_sys::IndexScanDesc) -> Result<Option<Row>, Error> {
        if self.done {
            return Ok(None);
        }
        if let Some(Search { demand, .. }) = self.search.as_mut().filter(|search| search.demand.returned > 0) {
            // SAFETY: the executor says what became of the row before.
            demand.dead += usize::from(unsafe { (*scan).kill_prior_tuple });
        }
        loop {
            let search = match &mut self.search {
                Some(search) => search,
                none => {
                    self.stats.searches += 1;
                    // SAFETY: the scan keeps its index open.
                    none.insert(unsafe { Search::new(scan, &self.query)? })
                }
            };
            if let Some(end) = self.limits.reached(&search.cursor) {
                self.stats.end = end;
                return Ok(None);
            }
            // SAFETY: as above.
            let Some(found) = (unsafe { search.next(scan)? }) else {
                self.stats.end = End::Exhausted;
                return Ok(None);
            };
            let Some(tid) = vector::tid(found.row_id) else {
                let what = format!("it knows a row {:#x}, which can be in no table", found.row_id);
                return Err(Error::corrupt(PageId(0), what));
            };
            match self.query {
                Query::AnyOrder => return Ok(Some(Row { tid, distance: None, recheck: false })),
                Query::Vector(_) => {
                    if let Some(place) = self.order.place(&found, search.cursor.upcoming(), self.kind.metric) {
                        search.demand.returned += 1;
                        return Ok(Some(Row { tid, distance: Some(place.distance), recheck: place.recheck }));
                    }
                    search.demand.late += 1;
                }
            }
        }
    }
}

/// A search in progress. It borrows from the index that it keeps alive: fields go in the order in which they stand.
struct Search {
    cursor: Cursor<'static, RelationPages>,
    index: OpenIndex,
    look_ahead: LookAhead,
    demand: Demand,
}

/// Searches kept for their buffers when their scans have ended.
const IDLE_MAX: usize = 4;

thread_local! {
    static IDLE: RefCell<Vec<Search>> = const { RefCell::new(Vec::new()) };
}

impl Search {
    /// Begins to search for `query`.
    ///
    /// # Safety
    ///
    /// `scan` keeps its index open for as long as this is used.
    unsafe fn new(scan: pg_sys::IndexScanDesc, query: &Query) -> Result<Self, Error> {
        // SAFETY: the caller's promise.
        unsafe {
            let index = models::open((*scan).indexRelation)?;
            let idle = IDLE.with_borrow_mut(|idle| {
                let at = idle.iter().position(|search| Rc::ptr_eq(&search.index, &index))?;
                Some(idle.swap_remove(at))
            });
            if let Some(mut search) = idle {
                search.begin(scan, query)?;
                return Ok(search);
            }
            count_scan(scan);
            let (demand, k, options) = asked(scan, &index)?;
            let mut cursor = cursor(&index, &query.vector(scan), &options)?;
            cursor.expect(k);
            Ok(Self { cursor, index, look_ahead: LookAhead::default(), demand })
        }
    }

    /// The scan has all it wanted of this search.
    ///
    /// # Safety
    ///
    /// The table, if there is one, is open.
    unsafe fn end(&mut self) {
        self.index.pages().nodes_per_row.learn(&self.demand, self.cursor.taken());
        self.demand = Demand::default();
        // SAFETY: the caller's promise.
        unsafe { self.look_ahead.end() };
    }

    /// Keeps the search for the next scan, unless it has grown large.
    fn retire(self) {
        if self.cursor.is_small() {
            IDLE.with_borrow_mut(|idle| {
                idle.truncate(IDLE_MAX - 1);
                idle.insert(0, self);
            });
        }
    }

    /// Starts over.
    ///
    /// # Safety
    ///
    /// As [`Search::new`], of the same scan.
    unsafe fn begin(&mut self, scan: pg_sys::IndexScanDesc, query: &Query) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe {
            self.index.pages().attach((*scan).indexRelation);
            count_scan(scan);
            let (demand, k, options) = asked(scan, &self.index)?;
            self.demand = demand;
            self.cursor.rescan(&query.vector(scan), &options)?;
            self.cursor.expect(k);
            Ok(())
        }
    }

    /// The next row.
    ///
    /// # Safety
    ///
    /// As [`Search::new`], of the same scan.
    unsafe fn next(&mut self, scan: pg_sys::IndexScanDesc) -> Result<Option<Found>, Error> {
        // SAFETY: the caller's promise.
        unsafe { self.index.pages().attach((*scan).indexRelation) };
        let Some(found) = self.cursor.next_hit()? else { return Ok(None) };
        // SAFETY: the caller's promise.
        unsafe { self.look_ahead.advance(scan, &self.index.pages().heap, found.row_id, self.cursor.ahead()) };
        Ok(Some(found))
    }
}

/// What a scan is asked for, for how many rows to search together, and how.
///
/// # Safety
///
/// `scan` keeps its index open, which is `index`.
unsafe fn asked(scan: pg_sys::IndexScanDesc, index: &OpenIndex) -> Result<(Demand, usize, SearchOptions), Error> {
    // SAFETY: the caller's promise.
    unsafe {
        let wanted = limit::rows(scan);
        let k = options::neighbors(wanted, index.pages().nodes_per_row.get());
        let options = options::search(index, (*scan).indexRelation, k)?;
        Ok((Demand { wanted, ..Demand::default() }, k, options))
    }
}

/// A cursor that does not say what it borrows from.
///
/// # Safety
///
/// It is dropped before `index` is.
unsafe fn cursor(
    index: &OpenIndex,
    query: &[f32],
    options: &SearchOptions,
) -> Result<Cursor<'static, RelationPages>, Error> {
    // SAFETY: the index stays where it is while a reference to it is counted, which the caller promises.
    let index: &'static Index<RelationPages> = unsafe { &*Rc::as_ptr(index) };
    index.cursor(query, options)
}

impl Query {
    /// What to give the engine.
    ///
    /// # Safety
    ///
    /// `scan` has its index open.
    unsafe fn vector(&self, scan: pg_sys::IndexScanDesc) -> Cow<'_, [f32]> {
        match self {
            Self::Vector(vector) => Cow::Borrowed(vector),
            Self::AnyOrder => {
                // SAFETY: the caller's promise.
                let mut some = vec![0.0; unsafe { opclass::dimensions((*scan).indexRelation) }];
                some[0] = 1.0;
                Cow::Owned(some)
            }
        }
    }
}

/// Counts a search for `pg_stat_user_indexes` and `EXPLAIN`.
///
/// # Safety
///
/// `scan` has its index open.
unsafe fn count_scan(scan: pg_sys::IndexScanDesc) {
    // SAFETY: the caller's promise; PostgreSQL closes the relation, and the instrumentation is the scan's if there
    // is one.
    unsafe {
        PgRelation::from_pg((*scan).indexRelation).count_index_scan();
        #[cfg(feature = "pg18")]
        if let Some(instrument) = (*scan).instrument.as_mut() {
            instrument.nsearches += 1;
        }
    }
}
