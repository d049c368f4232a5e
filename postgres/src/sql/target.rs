//! The index that a function works on: finds it, checks the user's rights, opens and locks it.

use pagehop_engine::Error;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::{errors, replay};

/// Lock under which an index is read, as by any query.
const LOCK: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;

/// The index that the user named, and its table, both open and locked.
pub(super) struct Target {
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    /// How far a standby had replayed the log when the index was opened.
    replayed: Option<pg_sys::XLogRecPtr>,
}

impl Target {
    /// Opens the index that the first argument names, if it is a `pagehop` index with pages of its
    /// own and the user has the right `needed` on its table.
    ///
    /// # Safety
    ///
    /// `call` is a call of a function whose first argument is a `regclass` that is not null.
    pub(super) unsafe fn open(call: pg_sys::FunctionCallInfo, needed: u32) -> Self {
        // SAFETY: the caller says that the argument is there and a `regclass`.
        let oid = unsafe { pgrx::fcinfo::pg_getarg::<pg_sys::Oid>(call, 0) }.expect("the function is strict");
        // SAFETY: a look into the catalogs by number.
        let table = unsafe { pg_sys::IndexGetRelation(oid, true) };
        if table == pg_sys::InvalidOid {
            refuse_kind(&relation_name(oid));
        }
        let allowed = access(table, needed);
        if allowed != pg_sys::AclResult::ACLCHECK_OK {
            // SAFETY: the call raises an error; the name is a string of PostgreSQL's, or null.
            unsafe {
                pg_sys::aclcheck_error(allowed, pg_sys::ObjectType::OBJECT_TABLE, pg_sys::get_rel_name(table));
            }
        }
        refuse_hidden_rows(table);
        // SAFETY: both are opened by number, which is an error if they are gone. As everywhere the
        // table is locked first.
        let target = unsafe {
            let table = pg_sys::relation_open(table, LOCK);
            Self { table, index: pg_sys::relation_open(oid, LOCK), replayed: replay::position() }
        };
        target.refuse_others();
        target
    }

    /// The index, open until [`Target::close`].
    pub(super) fn index(&self) -> pg_sys::Relation {
        self.index
    }

    /// The name of the index.
    pub(super) fn name(&self) -> String {
        // SAFETY: the index is open.
        unsafe { errors::name(self.index) }
    }

    /// The same as a literal of SQL.
    pub(super) fn regclass(&self) -> String {
        // SAFETY: the index is open.
        unsafe { errors::regclass(self.index) }
    }

    /// Refuses an index that has no pages of this access method to read.
    fn refuse_others(&self) {
        let name = self.name();
        // SAFETY: an open relation has its row of pg_class, and an open index its row of pg_index.
        let (class, is_valid, is_local) =
            unsafe { (*(*self.index).rd_rel, (*(*self.index).rd_index).indisvalid, (*self.index).rd_islocaltemp) };
        // SAFETY: a look into the catalogs by name.
        if class.relam != unsafe { pg_sys::get_index_am_oid(c"pagehop".as_ptr(), false) } {
            refuse_kind(&name);
        }
        if class.relkind as u8 == pg_sys::RELKIND_PARTITIONED_INDEX {
            let what = format!("index \"{name}\" is partitioned: it has no pages of its own");
            let hint = format!(
                "Name an index of a partition: SELECT relid FROM pg_partition_tree({}) WHERE isleaf; lists them.",
                self.regclass()
            );
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
            let hint = "If no build of it is running, REINDEX or drop it.".to_string();
            errors::report(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, what, Some(hint));
        }
    }

    /// Whether a measurement may be stored in the index: by this user, in this transaction, on this
    /// server.
    pub(super) fn may_store(&self) -> bool {
        // SAFETY: the table is open; the other is a setting of this backend, read by value.
        let (table, is_read_only) = unsafe { ((*self.table).rd_id, pg_sys::XactReadOnly) };
        access(table, pg_sys::ACL_MAINTAIN) == pg_sys::AclResult::ACLCHECK_OK && !in_recovery() && !is_read_only
    }

    /// Raises an error of the index.
    pub(super) fn raise(&self, error: Error) -> ! {
        // SAFETY: the index is open.
        unsafe { replay::raise(self.index, error, self.replayed) }
    }

    /// Whether a standby's replay has moved since the index was opened.
    pub(super) fn has_replay_moved(&self) -> bool {
        self.replayed != replay::position()
    }

    /// Closes the index and its table, and releases the locks, as other functions that read an
    /// index do.
    pub(super) fn close(self) {
        // SAFETY: `open` opened both with this lock, and this is the only place that closes them.
        unsafe {
            pg_sys::relation_close(self.index, LOCK);
            pg_sys::relation_close(self.table, LOCK);
        }
    }
}

/// Whether the user has the right `needed` on `table`.
fn access(table: pg_sys::Oid, needed: u32) -> pg_sys::AclResult::Type {
    // SAFETY: a look into the catalogs by number.
    unsafe { pg_sys::pg_class_aclcheck(table, pg_sys::GetUserId(), needed.into()) }
}

/// Refuses a table whose policies may hide rows from the user: counts and recalls include all rows.
fn refuse_hidden_rows(table: pg_sys::Oid) {
    // SAFETY: a look into the catalogs by number, for the current user, without an error where row
    // security is off.
    let policies = unsafe { pg_sys::check_enable_rls(table, pg_sys::InvalidOid, true) };
    if policies == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32 {
        let what = format!(
            "row-level security may hide rows of table \"{}\" from you, so this function is refused",
            relation_name(table)
        );
        let hint = "Run it as a role with BYPASSRLS, or as the owner if row security is not forced.".to_string();
        errors::report(PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, what, Some(hint));
    }
}

fn refuse_kind(name: &str) -> ! {
    let hint = "SELECT indexrelid::regclass FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam \
                WHERE amname = 'pagehop'; lists those that are.";
    let what = format!("\"{name}\" is not a pagehop index");
    errors::report(PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE, what, Some(hint.into()))
}

/// Name of a relation, or its number if there is none.
fn relation_name(oid: pg_sys::Oid) -> String {
    // SAFETY: a look into the catalogs by number.
    let name = unsafe { pg_sys::get_rel_name(oid) };
    if name.is_null() {
        return oid.to_u32().to_string();
    }
    // SAFETY: it is not null, so it is a string that ends in a zero byte.
    unsafe { errors::text(name) }
}

/// Whether this server replays a log: that of another server, or its own after a crash.
pub(super) fn in_recovery() -> bool {
    // SAFETY: a read of shared memory.
    unsafe { pg_sys::RecoveryInProgress() }
}
