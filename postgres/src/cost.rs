//! `amcostestimate`: a scan pays for a search before its first row, and about one hop for each row
//! from then on.

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::options;

/// Hops to find the ten nearest of a handful of rows, and more hops each time their number doubles;
/// both from the counters of searches with the default options.
const HOPS_AT_LEAST: f64 = 10.0;
const HOPS_PER_DOUBLING: f64 = 2.0;
/// Operators that a hop costs as much as: it scores the edges of a node.
const OPERATORS_PER_HOP: f64 = 50.0;

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
        // There are no conditions on the column, so a scan may return every row, in an order that
        // has nothing to do with the table's.
        *selectivity = 1.0;
        *correlation = 0.0;
        *index_pages = pages;
        if (*path).indexorderbys.is_null() || options::is_exact() {
            // Without an order there is nothing to search for, and an exact answer takes a look at
            // every row.
            (*startup_cost, *total_cost) = (f64::INFINITY, f64::INFINITY);
            #[cfg(feature = "pg18")]
            {
                (*path).path.disabled_nodes = 2;
            }
            return;
        }
        let mut random_page_cost = 0.0;
        pg_sys::get_tablespace_page_costs((*info).reltablespace, &raw mut random_page_cost, std::ptr::null_mut());
        let hops =
            (HOPS_AT_LEAST + HOPS_PER_DOUBLING * rows.log2()).max(options::search_list().unwrap_or(0) as f64);
        let hops = hops.min(rows);
        // Scans of one query share a cache: later ones find pages that earlier ones brought.
        let fetched = pg_sys::index_pages_fetched(hops * loop_count, (*info).pages, pages, root) / loop_count;
        let per_hop = OPERATORS_PER_HOP * pg_sys::cpu_operator_cost;
        *startup_cost = fetched * random_page_cost + hops * per_hop;
        let rest = (rows - hops).max(0.0);
        let per_row = per_hop + pg_sys::cpu_index_tuple_cost;
        *total_cost = *startup_cost
            + rows * pg_sys::cpu_index_tuple_cost
            + rest * per_row
            + (pages - fetched).max(0.0) * random_page_cost;
    }
}
