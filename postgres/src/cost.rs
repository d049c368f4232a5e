//! `amcostestimate`: a scan pays for a search before its first row, and about one hop for each row
//! from then on. A scan with conditions on filter columns pays for a search among the rows that
//! meet them, by a walk or by postings, as the engine chooses.

use pagehop_engine::FilterPlan;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::lists::elements;
use crate::options;
use crate::rows::opclass::{STRATEGY_CONTAINS, STRATEGY_EQUAL, STRATEGY_OVERLAPS};

/// Hops to find the ten nearest of a handful of rows, and more hops each time their number doubles;
/// both from the counters of searches with the default options.
const HOPS_AT_LEAST: f64 = 10.0;
const HOPS_PER_DOUBLING: f64 = 2.0;
/// Cost of a hop in operators: it scores the edges of a node.
const OPERATORS_PER_HOP: f64 = 50.0;

/// Estimated postings of a leaf, and the cost of their estimates in operators.
const POSTINGS_PER_LEAF: f64 = 80.0;
const OPERATORS_PER_LEAF: f64 = 30.0;
/// The cost of a query that the index cannot answer. It is not infinite: sums and differences of
/// costs must stay numbers in plans above it.
const IMPOSSIBLE: f64 = 1e30;

/// `amcostestimate`.
#[pg_guard]
#[allow(clippy::too_many_arguments, reason = "PostgreSQL's signature")]
pub(crate) unsafe extern "C-unwind" fn amcostestimate(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loop_count: f64,
    startup_cost: *mut pg_sys::Cost,
    total_cost: *mut pg_sys::Cost,
    selectivity: *mut pg_sys::Selectivity,
    correlation: *mut f64,
    index_pages: *mut f64,
) {
    // SAFETY: PostgreSQL passes its own planner nodes, and places for the answers that only this
    // function uses.
    unsafe {
        let info = (*path).indexinfo;
        let (rows, pages) = ((*info).tuples.max(1.0), f64::from((*info).pages).max(1.0));
        // The order of a scan does not correlate with the order of the table. The rows of a partial
        // index are a share of the table's, and those that a scan returns are a share of the
        // index's.
        let of_index = share_of_table(root, info, std::ptr::null_mut());
        let of_quals = |quals| (share_of_table(root, info, quals) / of_index.max(f64::MIN_POSITIVE)).min(1.0);
        let share = of_quals(pg_sys::get_quals_from_indexclauses((*path).indexclauses));
        *selectivity = share * of_index;
        *correlation = 0.0;
        *index_pages = pages;
        let orders = elements::<pg_sys::Node>((*path).indexorderbys).len();
        if orders != 1 || options::is_exact() || asks_for_no_vector(path) {
            // The index is not used without an order, with an order of more than one distance, or
            // for an exact answer, which reads every row.
            (*startup_cost, *total_cost) = (IMPOSSIBLE, IMPOSSIBLE);
            #[cfg(feature = "pg18")]
            {
                (*path).path.disabled_nodes = DISABLED;
            }
            return;
        }
        let mut random_page_cost = 0.0;
        pg_sys::get_tablespace_page_costs((*info).reltablespace, &raw mut random_page_cost, std::ptr::null_mut());
        let hops =
            (HOPS_AT_LEAST + HOPS_PER_DOUBLING * rows.log2()).max(options::search_list().unwrap_or(0) as f64);
        // The engine reads the postings of one column.
        let leaves = (1..(*info).nkeycolumns).map(|column| {
            let (quals, values) = on_column(root, path, column);
            let leaves = |quals| FilterPlan::leaves_read(of_quals(quals) * rows / POSTINGS_PER_LEAF, values);
            if quals.is_null() { f64::INFINITY } else { leaves(quals) }
        });
        let leaves = leaves.fold(f64::INFINITY, f64::min);
        let walk = FilterPlan::walk_pages(hops, share.max(1.0 / rows));
        let nodes = hops.min(share * rows);
        let by_postings = FilterPlan::leaves_cost(leaves) + nodes < walk;
        let (leaves, hops) = if by_postings { (leaves, nodes) } else { (0.0, walk) };
        let hops = hops.min(rows);
        // Scans of one query share a cache: later scans find pages that earlier scans read.
        let looked_at = (hops + FilterPlan::leaves_cost(leaves)) * loop_count;
        let fetched = pg_sys::index_pages_fetched(looked_at, (*info).pages, pages, root) / loop_count;
        let per_hop = OPERATORS_PER_HOP * pg_sys::cpu_operator_cost;
        let per_leaf = OPERATORS_PER_LEAF * pg_sys::cpu_operator_cost;
        *startup_cost = fetched * random_page_cost + hops * per_hop + leaves * per_leaf;
        // A scan by postings visits only rows that it returns. A walk also visits others.
        let (returned, visited) = (share * rows, if by_postings { share * rows } else { rows });
        let rest = (visited - hops).max(0.0);
        let per_row = per_hop + pg_sys::cpu_index_tuple_cost;
        *total_cost = *startup_cost
            + returned * pg_sys::cpu_index_tuple_cost
            + rest * per_row
            + (pages * visited / rows - fetched).max(0.0) * random_page_cost;
    }
}

/// More than the number of disabled nodes of any plan that reads and sorts the table.
#[cfg(feature = "pg18")]
const DISABLED: i32 = 1000;

/// The share of the table's rows that are in the index, if it is partial, and meet `quals`.
///
/// # Safety
///
/// PostgreSQL's own planner nodes.
unsafe fn share_of_table(
    root: *mut pg_sys::PlannerInfo,
    info: *mut pg_sys::IndexOptInfo,
    quals: *mut pg_sys::List,
) -> f64 {
    // SAFETY: the caller passes the planner's nodes.
    unsafe {
        let both = pg_sys::add_predicate_to_index_quals(info, quals);
        let relation = (*(*info).rel).relid as i32;
        pg_sys::clauselist_selectivity(root, both, relation, pg_sys::JoinType::JOIN_INNER, std::ptr::null_mut())
    }
}

/// The conditions on a column of the index, and how many of its values meet them; infinite for
/// ranges.
///
/// # Safety
///
/// PostgreSQL's own planner nodes, and a column of the index.
unsafe fn on_column(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    column: i32,
) -> (*mut pg_sys::List, f64) {
    let (mut quals, mut values) = (std::ptr::null_mut(), f64::INFINITY);
    // SAFETY: the caller passes the planner's nodes: its clauses are of this type, and their
    // conditions lists of expressions. An index has an operator family for each column.
    unsafe {
        let family = *(*(*path).indexinfo).opfamily.add(column as usize);
        let clauses = elements::<pg_sys::IndexClause>((*path).indexclauses);
        for clause in clauses.iter().filter(|clause| i32::from((***clause).indexcol) == column) {
            for qual in elements::<pg_sys::RestrictInfo>((**clause).indexquals) {
                quals = pg_sys::lappend(quals, qual.cast());
                values = values.min(values_of(root, (**qual).clause, family));
            }
        }
    }
    (quals, values)
}

/// How many values of a column meet a condition.
///
/// # Safety
///
/// PostgreSQL's own planner nodes, of a condition that the operator family has.
unsafe fn values_of(root: *mut pg_sys::PlannerInfo, clause: *mut pg_sys::Expr, family: pg_sys::Oid) -> f64 {
    // SAFETY: the caller passes the planner's nodes, and a node is of the type that its tag says.
    // An operator of an index has two arguments.
    unsafe {
        let length = |args| pg_sys::estimate_array_length(root, elements::<pg_sys::Node>(args)[1]);
        let (operator, args, values) = match (*clause).type_ {
            pg_sys::NodeTag::T_NullTest => {
                let is_null = (*clause.cast::<pg_sys::NullTest>()).nulltesttype == pg_sys::NullTestType::IS_NULL;
                return if is_null { 1.0 } else { f64::INFINITY };
            }
            pg_sys::NodeTag::T_OpExpr => {
                let test = clause.cast::<pg_sys::OpExpr>();
                ((*test).opno, (*test).args, 1.0)
            }
            pg_sys::NodeTag::T_ScalarArrayOpExpr => {
                let test = clause.cast::<pg_sys::ScalarArrayOpExpr>();
                ((*test).opno, (*test).args, length((*test).args))
            }
            _ => return f64::INFINITY,
        };
        match pg_sys::get_op_opfamily_strategy(operator, family) as u16 {
            STRATEGY_EQUAL | STRATEGY_CONTAINS => values,
            // A set of tags meets `tags && ARRAY[...]` by any of the array's values.
            STRATEGY_OVERLAPS => length(args),
            _ => f64::INFINITY,
        }
    }
}

/// Whether the query wants rows without a vector, which no index has.
///
/// # Safety
///
/// PostgreSQL's own planner node.
unsafe fn asks_for_no_vector(path: *mut pg_sys::IndexPath) -> bool {
    // SAFETY: the caller passes the planner's node: its clauses are of this type, their conditions
    // lists of expressions, and a node is of the type that its tag says.
    unsafe {
        let clauses = elements::<pg_sys::IndexClause>((*path).indexclauses);
        clauses.iter().filter(|clause| (***clause).indexcol == 0).any(|clause| {
            elements::<pg_sys::RestrictInfo>((**clause).indexquals).iter().any(|qual| {
                let test = (**qual).clause.cast::<pg_sys::NullTest>();
                let is_test = (*test).xpr.type_ == pg_sys::NodeTag::T_NullTest;
                !is_test || (*test).nulltesttype == pg_sys::NullTestType::IS_NULL
            })
        })
    }
}
