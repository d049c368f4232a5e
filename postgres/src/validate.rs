//! `amvalidate`: whether an operator class is one that scans can use.

use std::ffi::CStr;

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::errors;
use crate::rows::columns::ValueType;
use crate::rows::opclass::{KIND_PROC, ORDER_STRATEGY, STRATEGY_CONTAINS, STRATEGY_EQUAL, STRATEGY_OVERLAPS};

/// `amvalidate`. Says what is wrong as INFO, as PostgreSQL's own methods do.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn amvalidate(opclass: pg_sys::Oid) -> bool {
    // SAFETY: PostgreSQL passes an operator class that exists; cache entries are read before they
    // are given back.
    unsafe {
        let class = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::CLAOID as i32, opclass.into());
        if class.is_null() {
            error!("cache lookup failed for operator class {}", opclass.to_u32());
        }
        let form = pg_sys::heap_tuple_get_struct::<pg_sys::FormData_pg_opclass>(class);
        let (family, type_, name) =
            ((*form).opcfamily, (*form).opcintype, errors::text((*form).opcname.data.as_ptr()));
        pg_sys::ReleaseSysCache(class);
        if ValueType::of(type_).is_some_and(|value_type| value_type.element().is_some()) {
            return has_array_operators(family, &name);
        }
        if ValueType::of(type_).is_some() {
            let equal = pg_sys::get_opfamily_member(family, type_, type_, STRATEGY_EQUAL as i16);
            if equal == pg_sys::InvalidOid {
                info!(
                    "operator class \"{name}\" of access method pagehop lacks operator {STRATEGY_EQUAL}, equality"
                );
            }
            return equal != pg_sys::InvalidOid;
        }
        let function = pg_sys::get_opfamily_proc(family, type_, type_, KIND_PROC as i16);
        let returns_kind = function != pg_sys::InvalidOid && pg_sys::get_func_rettype(function) == pg_sys::INT4OID;
        if !returns_kind {
            info!(
                "operator class \"{name}\" of access method pagehop lacks support function 1, which returns its kind"
            );
        }
        let operator = pg_sys::get_opfamily_member(family, type_, type_, ORDER_STRATEGY as i16);
        let orders = operator != pg_sys::InvalidOid
            && pg_sys::get_op_opfamily_sortfamily(operator, family) != pg_sys::InvalidOid;
        if !orders {
            let operator = pg_sys::get_opname(operator);
            let operator = if operator.is_null() { c"none" } else { CStr::from_ptr(operator) };
            info!(
                "operator class \"{name}\" of access method pagehop needs an ordering operator as number 1, it has {}",
                operator.to_string_lossy()
            );
        }
        returns_kind && orders
    }
}

/// Whether a family of a class of arrays has both of its operators, which take any array.
unsafe fn has_array_operators(family: pg_sys::Oid, name: &str) -> bool {
    let has = |(strategy, operator): (u16, &str)| {
        let any = pg_sys::ANYARRAYOID;
        // SAFETY: the look-up accepts any number.
        let found = unsafe { pg_sys::get_opfamily_member(family, any, any, strategy as i16) };
        if found == pg_sys::InvalidOid {
            info!("operator class \"{name}\" of access method pagehop lacks operator {strategy}, {operator}");
        }
        found != pg_sys::InvalidOid
    };
    [(STRATEGY_OVERLAPS, "&&"), (STRATEGY_CONTAINS, "@>")].map(has).iter().all(|found| *found)
}
