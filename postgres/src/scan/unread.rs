//! Removes from a finished plan the distances that nothing reads.
//!
//! The plan of `SELECT id ... ORDER BY embedding <-> $1 LIMIT 10` has the distance as a second,
//! hidden column, because PostgreSQL makes each expression of ORDER BY a column. An index scan
//! computes it for each row that it returns, from the vector in the table, and the end of the plan
//! drops it. The index has ordered the rows before that. So after planning, the expression is
//! replaced by a NULL of the same type if three conditions hold:
//!
//! - the scan returns its rows to the end of a query, a subquery or a common table expression,
//!   through no node but a LIMIT without WITH TIES;
//! - the column is marked there as hidden (`resjunk`): what is above cannot name it;
//! - its expression is the one that the scan's index orders by.
//!
//! If a node above the scan reads the column (Sort, Merge Append, WITH TIES, LockRows), the plan
//! does not change. The executor does not use the column to reorder rows: it computes those
//! distances from the scan's own list of order expressions.

use std::ffi::{c_char, c_int, c_void};

use pgrx::pg_sys::NodeTag;
use pgrx::prelude::*;
use pgrx::{is_a, pg_sys};

use crate::lists::elements;
use crate::options;
use crate::whole_errors::bare;

static mut PREVIOUS: pg_sys::planner_hook_type = None;

/// Installs the hook. Called once, before there are threads.
///
/// The first plan that uses an index loads the library during planning, so it is made without the
/// hook. The session's cached plans are discarded here, so that such a plan is not used again.
pub(crate) fn register() {
    // SAFETY: a backend has one thread when it loads the library, so no other reads or writes the
    // two statics. Plans are only marked, as a message that a table has changed marks them, and
    // such a message may arrive while a plan is made.
    unsafe {
        PREVIOUS = pg_sys::planner_hook;
        pg_sys::planner_hook = Some(plan);
        pg_sys::ResetPlanCache();
    }
}

/// `planner_hook`. An error of the planner jumps over this frame, which owns nothing
/// (`whole_errors.rs`).
unsafe extern "C-unwind" fn plan(
    query: *mut pg_sys::Query,
    text: *const c_char,
    cursor_options: c_int,
    parameters: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: PostgreSQL passes a query to plan; the hook before this one is another extension's.
    // The plan that comes back is new, and the caller's alone.
    unsafe {
        let planned = match PREVIOUS {
            Some(previous) => previous(query, text, cursor_options, parameters),
            None => bare::standard_planner(query, text, cursor_options, parameters),
        };
        skip_in_plan(planned);
        planned
    }
}

/// Removes from a plan the distances that nothing reads.
///
/// # Safety
///
/// `planned` is a new plan that is the caller's alone, or null.
#[pg_guard]
unsafe extern "C-unwind" fn skip_in_plan(planned: *mut pg_sys::PlannedStmt) {
    // SAFETY: the caller passes a new plan, which no other code uses, or null.
    unsafe {
        if options::skips_unread_distances()
            && let Some(planned) = planned.as_ref()
        {
            skip_in_query(planned.planTree);
            elements::<pg_sys::Plan>(planned.subplans).iter().for_each(|subplan| skip_in_query(*subplan));
        }
    }
}

/// Looks at every LIMIT of a plan: PostgreSQL has one only at the end of a query, of the statement
/// or within it. The planner may have removed the subquery node above it, which does nothing.
///
/// # Safety
///
/// `node` is of a finished plan that is the caller's alone, or null.
unsafe fn skip_in_limits(node: *mut pg_sys::Plan) {
    // SAFETY: the caller says that the node is of a finished plan, or null; a node is of the type
    // that its tag says.
    unsafe {
        if node.is_null() {
            return;
        }
        pg_sys::check_stack_depth();
        skip_in_limits((*node).lefttree);
        skip_in_limits((*node).righttree);
        let children = match (*node).type_ {
            NodeTag::T_Limit => return skip_distance(node),
            NodeTag::T_SubqueryScan => return skip_in_query((*node.cast::<pg_sys::SubqueryScan>()).subplan),
            NodeTag::T_Append => (*node.cast::<pg_sys::Append>()).appendplans,
            NodeTag::T_MergeAppend => (*node.cast::<pg_sys::MergeAppend>()).mergeplans,
            // Other nodes have no more children, or are another extension's.
            _ => return,
        };
        elements::<pg_sys::Plan>(children).iter().for_each(|child| skip_in_limits(*child));
    }
}

/// Handles the plan of a whole query, which may be a scan without a LIMIT.
///
/// # Safety
///
/// As of [`skip_distance`].
unsafe fn skip_in_query(top: *mut pg_sys::Plan) {
    // SAFETY: the caller says that the node is of a finished plan, or null; a node is of the type
    // that its tag says.
    unsafe {
        if !top.is_null() && is_a(top.cast(), NodeTag::T_IndexScan) {
            skip_distance(top);
        } else {
            skip_in_limits(top);
        }
    }
}

/// Removes the distance from the plan of a whole query, if it is hidden there and the plan is an
/// index scan or a LIMIT above one. No other node reads a hidden column of such a plan. The plan of
/// an UPDATE or DELETE, which has other hidden columns, has neither form.
///
/// # Safety
///
/// `top` is the first node of the finished plan of a query, which is the caller's alone, or null.
unsafe fn skip_distance(top: *mut pg_sys::Plan) {
    // SAFETY: the caller says that the node is of a finished plan, or null; a node is of the type
    // that its tag says, and lists of targets have target entries.
    unsafe {
        let Some(scan) = ordered_scan(top) else { return };
        let targets = elements::<pg_sys::TargetEntry>((*scan).scan.plan.targetlist);
        for hidden in elements::<pg_sys::TargetEntry>((*top).targetlist).iter().filter(|target| (***target).resjunk)
        {
            let Some(target) = source(top, *hidden).and_then(|at| targets.get(at)) else { continue };
            if is_ordered_by(scan, (**target).expr) {
                let expression = (**target).expr.cast();
                let (kind, collation) = (pg_sys::exprType(expression), pg_sys::exprCollation(expression));
                (**target).expr = pg_sys::makeNullConst(kind, -1, collation).cast();
            }
        }
    }
}

/// The scan of an index of this access method: `top` itself, or the scan whose rows `top` limits.
///
/// # Safety
///
/// As of [`skip_distance`].
unsafe fn ordered_scan(top: *mut pg_sys::Plan) -> Option<*mut pg_sys::IndexScan> {
    // SAFETY: the caller says that the node is of a finished plan, or null; a node is of the type
    // that its tag says.
    unsafe {
        let mut node = top;
        if !node.is_null() && is_a(node.cast(), NodeTag::T_Limit) {
            if (*node.cast::<pg_sys::Limit>()).limitOption != pg_sys::LimitOption::LIMIT_OPTION_COUNT {
                return None;
            }
            node = (*node).lefttree;
        }
        if node.is_null() || !is_a(node.cast(), NodeTag::T_IndexScan) {
            return None;
        }
        let scan = node.cast::<pg_sys::IndexScan>();
        let is_ours = !(*scan).indexorderbyorig.is_null()
            && pg_sys::get_rel_relam((*scan).indexid) == pg_sys::get_index_am_oid(c"pagehop".as_ptr(), true);
        is_ours.then_some(scan)
    }
}

/// The position, in the target list of the scan below `top`, of a column of `top`. `None` if the
/// column is not one column of the scan, or if another column of `top` is the same one.
///
/// # Safety
///
/// As of [`skip_distance`]; `column` is of `top`.
unsafe fn source(top: *mut pg_sys::Plan, column: *mut pg_sys::TargetEntry) -> Option<usize> {
    // SAFETY: the caller says that the node is of a finished plan; a node is of the type that its
    // tag says.
    unsafe {
        if is_a(top.cast(), NodeTag::T_IndexScan) {
            return usize::try_from((*column).resno).ok()?.checked_sub(1);
        }
        let number = |target: *mut pg_sys::TargetEntry| {
            let variable = (*target).expr.cast::<pg_sys::Var>();
            let is_variable = is_a(variable.cast(), NodeTag::T_Var) && (*variable).varno == pg_sys::OUTER_VAR;
            is_variable.then(|| (*variable).varattno)
        };
        let this = number(column)?;
        let same = elements(((*top).targetlist).cast()).iter().filter(|other| number(**other) == Some(this));
        (same.count() == 1).then_some(usize::try_from(this).ok()?.checked_sub(1)?)
    }
}

/// Whether `expression` is the distance that `scan` orders by, or that distance with its sides
/// exchanged.
///
/// # Safety
///
/// `scan` is of a finished plan and has an order; the expression is of a target of it.
unsafe fn is_ordered_by(scan: *mut pg_sys::IndexScan, expression: *mut pg_sys::Expr) -> bool {
    // SAFETY: the caller says that the scan has an order, whose list has expressions.
    unsafe {
        let [order] = elements::<c_void>((*scan).indexorderbyorig) else { return false };
        if pg_sys::equal(expression.cast(), order.cast()) {
            return true;
        }
        if !is_a(expression.cast(), NodeTag::T_OpExpr) || !is_a(order.cast(), NodeTag::T_OpExpr) {
            return false;
        }
        let other = pg_sys::copyObjectImpl(expression.cast()).cast::<pg_sys::OpExpr>();
        if elements::<c_void>((*other).args).len() != 2
            || pg_sys::get_commutator((*other).opno) == pg_sys::InvalidOid
        {
            return false;
        }
        pg_sys::CommuteOpExpr(other);
        // The operator's function follows from the operator.
        (*other).opfuncid = (*order.cast::<pg_sys::OpExpr>()).opfuncid;
        pg_sys::equal(other.cast(), order.cast())
    }
}
