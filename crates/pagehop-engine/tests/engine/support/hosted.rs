//! An index with host-owned rows, which is changed in the way PostgreSQL does.

use std::collections::BTreeSet;

use pagehop_engine::page::Pages;
use pagehop_engine::{
    BuildOptions, Change, CheckReport, IdKind, Index, Metric, RemoveReport, SearchOptions, build,
};
use pagehop_sim::{MemPages, MemWriter};

use super::{Rows, no_progress};

pub const EVERYTHING: SearchOptions = SearchOptions { search_list: 100, slack: f32::INFINITY, beam_width: 4 };

pub fn change<T>(pages: &mut MemPages, work: impl FnOnce(&mut Change<'_, MemWriter<'_>>) -> T) -> T {
    let known = Index::open(pages.clone()).unwrap();
    let mut writer = pages.writer();
    let mut change = known.change(&mut writer).unwrap();
    let result = work(&mut change);
    change.finish().unwrap();
    result
}

pub fn insert(pages: &mut MemPages, row_id: u64, vector: &[f32], is_known: bool) {
    change(pages, |change| change.insert_hosted(row_id, vector, &[], is_known, &mut no_progress()).unwrap());
}

pub fn remove(pages: &mut MemPages, dead: &BTreeSet<u64>) -> RemoveReport {
    let mut is_dead = |row_id| dead.contains(&row_id);
    let waited = change(pages, |change| change.drop_dead_rows(&mut is_dead).unwrap());
    check(pages);
    let report = change(pages, |change| change.remove_dead_rows(0..u32::MAX, &mut is_dead).unwrap());
    check(pages);
    let mut place = None;
    while let Some(next) = change(pages, |change| change.settle_pending(place, &mut || true).unwrap()) {
        check(pages);
        place = Some(next);
    }
    RemoveReport { removed: report.removed + waited, ..report }
}

pub fn vacuum(pages: &mut MemPages) {
    while change(pages, |change| change.vacuum(u64::MAX, &mut no_progress()).unwrap()).steps() > 0 {}
}

pub fn check(pages: &impl Pages) -> CheckReport {
    Index::open(pages).unwrap().check(&mut no_progress()).unwrap()
}

/// Every row id that a cursor returns; each must come once.
pub fn row_ids(pages: &impl Pages, query: &[f32]) -> BTreeSet<u64> {
    let index = Index::open(pages).unwrap();
    let mut cursor = index.cursor(query, &EVERYTHING).unwrap();
    let mut found = BTreeSet::new();
    while let Some(hit) = cursor.next_hit().unwrap() {
        assert!(found.insert(hit.row_id), "row {} came twice", hit.row_id);
    }
    found
}

pub fn built(rows: &Rows, metric: Metric) -> MemPages {
    let mut pages = MemPages::new();
    let options = BuildOptions { id_kind: IdKind::HostOwned, ..super::options(metric) };
    build(&mut rows.clone(), &options, &mut pages, &mut no_progress()).unwrap();
    pages
}
