//! The engine's errors in PostgreSQL's words: a code that programs can act on, the index by name, a
//! hint for people. SQL in a hint can be run as it is: names there are from `sql_name`.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use pagehop_engine::Error;
use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// Raises `error`, met while working on `index`. Unwinds to the callback's `pg_guard`, which hands
/// it to PostgreSQL.
///
/// # Safety
///
/// `index` is open.
pub(crate) unsafe fn raise(index: pg_sys::Relation, error: Error) -> ! {
    // PostgreSQL has better messages for a canceled query and for a terminated backend.
    pgrx::check_for_interrupts!();
    // SAFETY: the caller has the relation open.
    let (name, sql_name) = unsafe { (name(index), || sql_name(index)) };
    let (code, message, hint) = match error {
        Error::Corrupt { page, what } => (
            PgSqlErrorCode::ERRCODE_INDEX_CORRUPTED,
            format!("index \"{name}\" is corrupt at block {}: {what}", page.0),
            Some(format!("REINDEX INDEX {}; builds it again from the table.", sql_name())),
        ),
        Error::Format { what } => (
            PgSqlErrorCode::ERRCODE_INDEX_CORRUPTED,
            format!("index \"{name}\" cannot be read: {what}"),
            Some(format!(
                "A newer extension may have made it: install that one, and connect again. REINDEX INDEX {}; builds it again from the table.",
                sql_name()
            )),
        ),
        Error::Dimension { expected, got } => (
            PgSqlErrorCode::ERRCODE_DATA_EXCEPTION,
            format!("different vector dimensions {expected} and {got}"),
            Some(format!("Index \"{name}\" has vectors of {expected} dimensions.")),
        ),
        Error::Argument { what } => {
            (PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, format!("index \"{name}\": {what}"), None)
        }
        Error::Busy { what } => (PgSqlErrorCode::ERRCODE_OBJECT_IN_USE, format!("index \"{name}\": {what}"), None),
        Error::Full { what, source: None } => {
            (PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED, format!("index \"{name}\": {what}"), None)
        }
        Error::Full { what, source: Some(source) } => {
            (PgSqlErrorCode::ERRCODE_DISK_FULL, format!("index \"{name}\": {what}: {source}"), None)
        }
        // SAFETY: the caller has the relation open.
        Error::Memory { what, .. } => unsafe {
            out_of_memory(index, &what, "Look at the limits on the server's memory.")
        },
        Error::Io { what, source } => {
            (PgSqlErrorCode::ERRCODE_IO_ERROR, format!("index \"{name}\": {what}: {source}"), None)
        }
        Error::Interrupted => (PgSqlErrorCode::ERRCODE_QUERY_CANCELED, "canceling statement".to_string(), None),
        other => (PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, format!("index \"{name}\": {other}"), None),
    };
    report(code, message, hint)
}

/// Raises the error for memory that the system refuses, with a hint.
///
/// # Safety
///
/// `index` is open.
pub(crate) unsafe fn out_of_memory(index: pg_sys::Relation, what: &str, hint: &str) -> ! {
    // SAFETY: the caller has the relation open.
    let message = format!("index \"{}\": {what}", unsafe { name(index) });
    report(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY, message, Some(hint.to_string()))
}

/// Raises an error with a hint, which `ereport!` has no place for.
pub(crate) fn report(code: PgSqlErrorCode, message: String, hint: Option<String>) -> ! {
    let report = ErrorReport::new(code, in_encoding(message), "pagehop");
    match hint {
        Some(hint) => report.set_hint(in_encoding(hint)).report(PgLogLevel::ERROR),
        None => report.report(PgLogLevel::ERROR),
    }
    unreachable!("an ERROR does not return")
}

/// Sends the client a notice.
pub(crate) fn notice(message: String, detail: &str, hint: String) {
    let code = PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION;
    let report = ErrorReport::new(code, in_encoding(message), "pagehop").set_detail(detail);
    report.set_hint(in_encoding(hint)).report(PgLogLevel::NOTICE);
}

/// Warns the client.
pub(crate) fn warn(message: String, hint: String) {
    let code = PgSqlErrorCode::ERRCODE_WARNING;
    ErrorReport::new(code, in_encoding(message), "pagehop").set_hint(in_encoding(hint)).report(PgLogLevel::WARNING);
}

/// Name of a relation, for messages.
///
/// # Safety
///
/// `relation` is open.
pub(crate) unsafe fn name(relation: pg_sys::Relation) -> String {
    // SAFETY: the caller has the relation open, and an open relation has its row of pg_class.
    unsafe { text((*(*relation).rd_rel).relname.data.as_ptr()) }
}

/// Name of a relation in SQL: quoted where that is needed, and with its schema if the search path
/// does not lead to it. The extension's functions have a search path of their own.
///
/// # Safety
///
/// `relation` is open, in a transaction.
pub(crate) unsafe fn sql_name(relation: pg_sys::Relation) -> String {
    // SAFETY: the caller has the relation open, and an open relation has its row of pg_class. The
    // schema may be null, or is a string of PostgreSQL's, as is what comes back.
    unsafe {
        let class = &*(*relation).rd_rel;
        let is_visible = pg_sys::RelationIsVisible((*relation).rd_id);
        let schema = if is_visible { ptr::null_mut() } else { pg_sys::get_namespace_name(class.relnamespace) };
        text(pg_sys::quote_qualified_identifier(schema, class.relname.data.as_ptr()))
    }
}

/// The same as a literal, for an argument of type `regclass`.
///
/// # Safety
///
/// As [`sql_name`].
pub(crate) unsafe fn regclass(relation: pg_sys::Relation) -> String {
    // SAFETY: the caller keeps the promises of `sql_name`. A name has no zero byte.
    unsafe {
        let name = CString::new(sql_name(relation)).unwrap_or_default();
        text(pg_sys::quote_literal_cstr(name.as_ptr()))
    }
}

/// A string of PostgreSQL in a form that can be part of a message.
///
/// # Safety
///
/// `string` ends in a zero byte.
pub(crate) unsafe fn text(string: *const c_char) -> String {
    // SAFETY: the string ends in a zero byte, as the caller ensures.
    in_encoding(unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}

/// A message as a client can get it: messages are in the encoding of the database. If that is not
/// UTF-8, all but ASCII is shown as question marks.
fn in_encoding(message: String) -> String {
    // SAFETY: a value of this backend.
    if message.is_ascii() || unsafe { pg_sys::GetDatabaseEncoding() } == pg_sys::pg_enc::PG_UTF8 as i32 {
        return message;
    }
    message.chars().map(|one| if one.is_ascii() { one } else { '?' }).collect()
}
