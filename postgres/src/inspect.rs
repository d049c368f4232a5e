//! What SQL may ask of an index: `pagehop_info`, what it says of itself, and `pagehop_check`, which reads every page and
//! proves that they agree.
//!
//! To ask takes the right to read the table. A check takes the right to maintain it, as VACUUM does: insertions wait until it
//! is over.

use std::ops::ControlFlow;

use pagehop_engine::{Audit, CheckReport, Error, Index, Metric, Pages};
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::pages::RelationPages;
use crate::recall::real;
use crate::writer::Writer;
use crate::{errors, models};

crate::sql_function!(pagehop_info, pg_finfo_pagehop_info, |call| {
    // SAFETY: PostgreSQL calls it as the extension's script declares it: a row from one argument, a strict `regclass`.
    unsafe { info(call) }
});
crate::sql_function!(pagehop_check, pg_finfo_pagehop_check, |call| {
    // SAFETY: as above.
    unsafe { check(call) }
});

/// Columns of `pagehop_info`.
const COLUMNS: usize = 22;
/// Lock under which an index is read, as by any query.
const LOCK: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;

/// `pagehop_info(regclass)`.
///
/// # Safety
///
/// `call` is of a function with one argument, a `regclass` that is not null, and a row as its result.
unsafe fn info(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the caller's promise. The index is open until it is closed.
    unsafe {
        let index = Inspected::open(call, pg_sys::ACL_SELECT);
        let values = index.describe().unwrap_or_else(|error| errors::raise(index.index, error));
        index.close();
        row(call, values)
    }
}

/// `pagehop_check(regclass)`.
///
/// # Safety
///
/// As [`info`].
unsafe fn check(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: as in `info`.
    unsafe {
        let index = Inspected::open(call, pg_sys::ACL_MAINTAIN);
        let report = index.check().unwrap_or_else(|error| errors::raise(index.index, error));
        index.close();
        let CheckReport { pages, nodes, dead_nodes, free_slots, edges, stale_edges, reachable, anchored } = report;
        let counts = [pages.into(), nodes, dead_nodes, free_slots, edges, stale_edges, reachable, anchored];
        row(call, counts.map(bigint))
    }
}

pub(crate) fn bigint(value: u64) -> pg_sys::Datum {
    pg_sys::Datum::from(value as i64)
}

pub(crate) fn integer(value: usize) -> pg_sys::Datum {
    pg_sys::Datum::from(value as i32)
}

/// An index that somebody asks about, and its table, open and locked.
pub(crate) struct Inspected {
    table: pg_sys::Relation,
    pub(crate) index: pg_sys::Relation,
}

impl Inspected {
    /// Opens the index that `call` names, if it is one that can be asked and the user has the right `needed` on its table.
    ///
    /// # Safety
    ///
    /// As [`info`].
    pub(crate) unsafe fn open(call: pg_sys::FunctionCallInfo, needed: u32) -> Self {
        // SAFETY: the caller's promise for the argument; the others are calls by value. The table is locked before the index,
        // as everywhere.
        unsafe {
            let oid = pgrx::fcinfo::pg_getarg::<pg_sys::Oid>(call, 0).expect("the function is strict");
            let table = pg_sys::IndexGetRelation(oid, true);
            if table == pg_sys::InvalidOid {
                refuse_kind(&relation_name(oid));
            }
            let allowed = pg_sys::pg_class_aclcheck(table, pg_sys::GetUserId(), needed.into());
            if allowed != pg_sys::AclResult::ACLCHECK_OK {
                pg_sys::aclcheck_error(allowed, pg_sys::ObjectType::OBJECT_TABLE, pg_sys::get_rel_name(table));
            }
            let table = pg_sys::relation_open(table, LOCK);
            let inspected = Self { table, index: pg_sys::relation_open(oid, LOCK) };
            inspected.refuse_others();
            inspected
        }
    }

    /// Refuses what has no pages of ours to read.
    ///
    /// # Safety
    ///
    /// The index is open.
    unsafe fn refuse_others(&self) {
        // SAFETY: an open relation has its row of pg_class, and an index that of pg_index.
        let (name, class, is_valid, is_local) = unsafe {
            let class = *(*self.index).rd_rel;
            (errors::name(self.index), class, (*(*self.index).rd_index).indisvalid, (*self.index).rd_islocaltemp)
        };
        // SAFETY: a look into the catalogs.
        if class.relam != unsafe { pg_sys::get_index_am_oid(c"pagehop".as_ptr(), false) } {
            refuse_kind(&name);
        }
        if class.relkind as u8 == pg_sys::RELKIND_PARTITIONED_INDEX {
            let what = format!("index \"{name}\" is partitioned: it has no pages of its own");
            let hint = format!("Ask about those of its partitions: SELECT relid FROM pg_partition_tree('{name}').");
            errors::report(PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE, what, Some(hint));
        }
        if class.relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP && !is_local {
            let what = format!("cannot read temporary index \"{name}\" of another session");
            errors::report(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, what, None);
        }
        if class.relpersistence as u8 == pg_sys::RELPERSISTENCE_UNLOGGED && in_recovery() {
            let what = format!("cannot read unlogged index \"{name}\" during recovery");
            errors::report(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, what, None);
        }
        if !is_valid {
            let what = format!("index \"{name}\" is not valid: its build has not ended, or failed");
            let hint = "If nobody builds it any more, REINDEX or drop it.".to_string();
            errors::report(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, what, Some(hint));
        }
    }

    /// The row of `pagehop_info`.
    ///
    /// # Safety
    ///
    /// The index is open.
    unsafe fn describe(&self) -> Result<[Option<pg_sys::Datum>; COLUMNS], Error> {
        // SAFETY: the caller's promise.
        let open = unsafe { models::open(self.index)? };
        let info = open.info()?;
        let pages = open.pages().page_count();
        let metric = match info.metric {
            Metric::L2 => "l2",
            Metric::InnerProduct => "ip",
            Metric::Cosine => "cosine",
        };
        let known = info.calibration;
        let stored = [
            integer(info.format_version as usize),
            metric.into_datum().expect("a text is no null"),
            integer(info.dim),
            bigint(info.rows),
            bigint(info.dead_rows),
            bigint(info.free_slots),
            bigint(pages.into()),
            bigint(u64::from(pages) * u64::from(pg_sys::BLCKSZ)),
            integer(info.max_degree),
            integer(info.nodes_per_page),
            integer(info.edge_bits),
            bigint(info.trained_rows),
            bigint(info.added_rows),
            bigint(info.deleted_rows),
        ];
        let mut values = [None; COLUMNS];
        values.iter_mut().zip(stored).for_each(|(value, stored)| *value = Some(stored));
        values[14] = known.map(|known| bigint(known.rows));
        values[15] = known.map(|known| bigint(known.changes));
        values[16] = known.and_then(|known| if known.by_queries { "queries" } else { "rows" }.into_datum());
        if let Some((audit, since)) = info.audit.zip(info.audited) {
            let Audit { k, recall, interval, target, .. } = audit;
            values[17] = Some(real(recall));
            values[18] = Some(real(interval));
            values[19] = Some(integer(k));
            values[20] = target.map(real);
            values[21] = Some(bigint(since.changes));
        }
        Ok(values)
    }

    /// Checks the index while nobody changes it.
    ///
    /// # Safety
    ///
    /// The index is open.
    unsafe fn check(&self) -> Result<CheckReport, Error> {
        // SAFETY: the caller's promise.
        let writer = unsafe { Writer::new(self.index)? };
        let replayed = replayed();
        let checked = check_pages(&writer.index());
        if matches!(checked, Err(Error::Corrupt { .. } | Error::Argument { .. })) && replayed != self::replayed() {
            // SAFETY: the caller's promise.
            let name = unsafe { errors::name(self.index) };
            let what = format!("could not check index \"{name}\": it was changed by recovery meanwhile");
            let hint =
                "Pause the replay with pg_wal_replay_pause(), or check the index on the primary.".to_string();
            errors::report(PgSqlErrorCode::ERRCODE_OBJECT_IN_USE, what, Some(hint));
        }
        checked
    }

    /// Whether what was measured of the index may be stored in it: by this user, in this transaction, on this server.
    ///
    /// # Safety
    ///
    /// The index is open.
    pub(crate) unsafe fn may_store(&self) -> bool {
        // SAFETY: the caller's promise; a look into the catalogs and reads of this backend's state.
        unsafe {
            let (table, user) = ((*self.table).rd_id, pg_sys::GetUserId());
            let allowed = pg_sys::pg_class_aclcheck(table, user, pg_sys::ACL_MAINTAIN.into());
            allowed == pg_sys::AclResult::ACLCHECK_OK && !in_recovery() && !pg_sys::XactReadOnly
        }
    }

    /// Raises an error of the index.
    ///
    /// # Safety
    ///
    /// The index is open.
    pub(crate) unsafe fn raise(&self, error: Error) -> ! {
        // SAFETY: the caller's promise.
        unsafe { errors::raise(self.index, error) }
    }

    /// Closes both and gives the locks back, as other functions that read an index do.
    ///
    /// # Safety
    ///
    /// Nothing that was begun on the index is used any more.
    pub(crate) unsafe fn close(self) {
        // SAFETY: opened by `open`, with these locks.
        unsafe {
            pg_sys::relation_close(self.index, LOCK);
            pg_sys::relation_close(self.table, LOCK);
        }
    }
}

fn check_pages(index: &Index<RelationPages>) -> Result<CheckReport, Error> {
    index.check(&mut |_| {
        pgrx::check_for_interrupts!();
        ControlFlow::Continue(())
    })
}

fn refuse_kind(name: &str) -> ! {
    let hint = "SELECT indexrelid::regclass FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam \
                WHERE amname = 'pagehop'; lists those that are.";
    let what = format!("\"{name}\" is not a pagehop index");
    errors::report(PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE, what, Some(hint.into()))
}

/// Name of a relation, or its number if there is none.
fn relation_name(oid: pg_sys::Oid) -> String {
    // SAFETY: a look into the catalogs; what comes back is a string, or null.
    unsafe {
        let name = pg_sys::get_rel_name(oid);
        if name.is_null() {
            return oid.to_u32().to_string();
        }
        std::ffi::CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}

/// Whether this server replays the log of another, or its own.
fn in_recovery() -> bool {
    // SAFETY: a read of shared memory.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// How far the log has been replayed; `None` where changes come from backends, which the writer's lock keeps out.
fn replayed() -> Option<pg_sys::XLogRecPtr> {
    // SAFETY: a read of shared memory; null stands for a timeline that is not asked for.
    in_recovery().then(|| unsafe { pg_sys::GetXLogReplayRecPtr(std::ptr::null_mut()) })
}

/// A row of the result type that `call` expects.
///
/// # Safety
///
/// `call` is of a function whose result is a row, and `values` are of its columns' types.
pub(crate) unsafe fn row<const N: usize>(
    call: pg_sys::FunctionCallInfo,
    values: [impl Into<Option<pg_sys::Datum>>; N],
) -> pg_sys::Datum {
    // SAFETY: the caller's promise; PostgreSQL copies the values, of which there are as many as columns.
    unsafe {
        let mut columns = std::ptr::null_mut();
        let class = pg_sys::get_call_result_type(call, std::ptr::null_mut(), &raw mut columns);
        if class != pg_sys::TypeFuncClass::TYPEFUNC_COMPOSITE || (*columns).natts as usize != N {
            let what = format!("the function should have {N} columns of output");
            let hint = "ALTER EXTENSION pagehop UPDATE; makes the functions those of the library.".to_string();
            errors::report(PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH, what, Some(hint));
        }
        let values = values.map(Into::into);
        let mut nulls = values.map(|value| value.is_none());
        let mut values = values.map(|value| value.unwrap_or(pg_sys::Datum::from(0)));
        let columns = pg_sys::BlessTupleDesc(columns);
        let tuple = pg_sys::heap_form_tuple(columns, values.as_mut_ptr(), nulls.as_mut_ptr());
        pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data)
    }
}
