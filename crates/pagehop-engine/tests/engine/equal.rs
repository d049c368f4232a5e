//! Hundreds of duplicates: all are found, other rows are still found, and searches near them cost
//! no more. A plateau is a set of rows with the same vector.

use std::collections::BTreeSet;

use crate::support;
use crate::support::{Noise, Rows, distance, hosted, no_progress};
use pagehop_engine::{
    BuildOptions, Change, CheckReport, CreateOptions, IdKind, Index, Metric, SearchOptions, build, create,
};
use pagehop_sim::{MemPages, MemWriter};

const DIM: usize = 24;
const MODES: [IdKind; 2] = [IdKind::Int, IdKind::HostOwned];
/// Options that a host uses for searches of at most ten rows.
const DEFAULT: SearchOptions = SearchOptions { search_list: 100, slack: 0.2, beam_width: 4 };

/// An index, and the rows that it must have.
struct Set {
    pages: MemPages,
    mode: IdKind,
    rows: Vec<(u64, Vec<f32>)>,
    looks: u64,
}

impl Set {
    fn empty(mode: IdKind) -> Self {
        let mut pages = MemPages::new();
        create(DIM, &CreateOptions { id_kind: mode, ..CreateOptions::default() }, &mut pages).unwrap();
        Self { pages, mode, rows: Vec::new(), looks: 0 }
    }

    fn built(mode: IdKind, vectors: &[Vec<f32>]) -> Self {
        let ids: Vec<u64> = (1..=vectors.len() as u64).collect();
        let rows = Rows { ids: ids.clone(), ..Rows::new(DIM, vectors.concat()) };
        let mut pages = MemPages::new();
        let options = BuildOptions { id_kind: mode, ..support::options(Metric::L2) };
        build(&mut rows.clone(), &options, &mut pages, &mut no_progress()).unwrap();
        Self { pages, mode, rows: ids.into_iter().zip(vectors.iter().cloned()).collect(), looks: 0 }
    }

    fn change<T>(&mut self, work: impl FnOnce(&mut Change<'_, MemWriter<'_>>) -> T) -> T {
        let known = Index::open(self.pages.clone()).unwrap();
        let mut writer = self.pages.writer();
        let mut change = known.change(&mut writer).unwrap();
        let result = work(&mut change);
        change.finish().unwrap();
        self.looks += writer.looks();
        writer.commit();
        result
    }

    /// Adds rows one by one.
    fn add(&mut self, vectors: &[Vec<f32>]) {
        let first = self.rows.last().map_or(1, |row| row.0 + 1);
        let fresh: Vec<(u64, Vec<f32>)> = (first..).zip(vectors.iter().cloned()).collect();
        let mode = self.mode;
        for some in fresh.chunks(50) {
            self.change(|change| {
                for (id, vector) in some {
                    match mode {
                        IdKind::Int => {
                            assert_eq!(change.add(&[*id], vector, None, &mut no_progress()).unwrap().added, 1);
                        }
                        IdKind::HostOwned => {
                            change.insert_hosted(*id, vector, &[], false, &mut no_progress()).unwrap()
                        }
                        IdKind::Text => unreachable!("no test has it"),
                    }
                }
            });
        }
        self.rows.extend(fresh);
    }

    /// Deletes rows and vacuums.
    fn remove(&mut self, gone: impl Fn(u64) -> bool) {
        self.delete(gone);
        while self.change(|change| change.vacuum(64, &mut no_progress()).unwrap()).steps() > 0 {}
    }

    /// Deletes rows.
    fn delete(&mut self, gone: impl Fn(u64) -> bool) {
        let ids: Vec<u64> = self.rows.iter().map(|row| row.0).filter(|id| gone(*id)).collect();
        let mode = self.mode;
        self.change(|change| match mode {
            IdKind::Int => assert_eq!(change.delete(&ids).unwrap().deleted, ids.len() as u64),
            IdKind::Text => unreachable!("no test has it"),
            IdKind::HostOwned => {
                assert_eq!(
                    change.remove_dead_rows(0..u32::MAX, &mut |id| gone(id)).unwrap().removed,
                    ids.len() as u64
                );
            }
        });
        self.rows.retain(|row| !gone(row.0));
    }

    fn index(&self) -> Index<&MemPages> {
        Index::open(&self.pages).unwrap()
    }

    /// Fails unless every row is reachable along anchors and a cursor returns it once.
    fn assert_whole(&self, what: &str) -> CheckReport {
        let index = self.index();
        let report = index.check(&mut no_progress()).unwrap();
        assert_eq!((report.anchored, report.reachable), (report.nodes, report.nodes), "{what}: {report:?}");
        let all: BTreeSet<u64> = self.rows.iter().map(|row| row.0).collect();
        for query in [&self.rows[0].1, &self.rows[self.rows.len() - 1].1] {
            let mut cursor = index.cursor(query, &DEFAULT).unwrap();
            let mut found = BTreeSet::new();
            while let Some(row) = cursor.next_hit().unwrap() {
                assert!(found.insert(row.row_id), "{what}: row {} came twice", row.row_id);
            }
            assert_eq!(found, all, "{what}");
        }
        report
    }

    /// Recall@10, where rows at the same distance count equally, and hops per query.
    fn recall(&self, queries: &[Vec<f32>]) -> (f64, f64) {
        let index = self.index();
        let (mut found, mut hops) = (0, 0);
        for query in queries {
            let mut all: Vec<f64> = self.rows.iter().map(|row| distance(Metric::L2, query, &row.1)).collect();
            all.sort_by(f64::total_cmp);
            let result = index.search_with(query, 10, &DEFAULT).unwrap();
            let kth = all[9.min(all.len() - 1)] * 1.001 + 1e-9;
            let near = |id: u64| {
                let row = self.rows.iter().find(|row| row.0 == id).expect("a row that is there");
                distance(Metric::L2, query, &row.1) <= kth
            };
            found += result.hits.iter().filter(|hit| near(hit.row_id)).count();
            hops += result.stats.hops;
        }
        (found as f64 / (10.min(self.rows.len()) * queries.len()) as f64, hops as f64 / queries.len() as f64)
    }
}

/// Rows around twelve centers, which are the same for all seeds.
fn clusters(count: usize, seed: u64) -> Vec<Vec<f32>> {
    let (mut shared, mut noise) = (Noise(7), Noise(seed));
    let centers: Vec<Vec<f32>> = (0..12).map(|_| (0..DIM).map(|_| shared.gauss()).collect()).collect();
    let row = |_| {
        let center = &centers[(noise.next() % 12) as usize];
        center.iter().map(|x| x + 0.5 * noise.gauss()).collect()
    };
    (0..count).map(row).collect()
}

/// Rows without structure.
fn spread(count: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut noise = Noise(seed);
    (0..count).map(|_| (0..DIM).map(|_| noise.gauss()).collect()).collect()
}

fn equal(count: usize, row: &[f32]) -> Vec<Vec<f32>> {
    vec![row.to_vec(); count]
}

/// Two plateaus: one at the origin, which is nearer to every row than other rows are, and one at a
/// row of the set.
fn plateaus() -> [(&'static str, Vec<f32>); 2] {
    [("origin", vec![0.0; DIM]), ("row", clusters(1, 3).remove(0))]
}

#[test]
fn rows_added_after_hundreds_of_duplicates_are_found() {
    for (what, others, queries) in
        [("clusters", clusters(500, 1), clusters(400, 2)), ("spread", spread(500, 1), spread(400, 2))]
    {
        for mode in MODES {
            let mut alone = Set::empty(mode);
            alone.add(&others);
            let (expected, expected_hops) = alone.recall(&queries);
            for (place, row) in plateaus() {
                let what = format!("{what} {mode:?} {place}");
                let mut set = Set::empty(mode);
                set.add(&equal(500, &row));
                set.add(&others);
                let (recall, hops) = set.recall(&queries);
                println!("{what}: {recall} in {hops}, without {expected} in {expected_hops}");
                set.assert_whole(&what);
                assert!(hops < expected_hops + 12.0, "{what}: {hops} hops, without the plateau {expected_hops}");
                assert!(recall > expected - 0.02, "{what}: {recall}, without the plateau {expected}");
                let nearest: Vec<Vec<f32>> = others.iter().step_by(2).cloned().collect();
                let themselves = found_themselves(&set, &nearest);
                println!(
                    "{themselves} of 250 find themselves, without the plateau {}",
                    found_themselves(&alone, &nearest)
                );
                // A plateau that is nearest to all rows covers all other edges.
                assert!(themselves >= 190, "{what}");
                set.remove(|id| id <= 500 && id % 10 > 0);
                let (recall, hops) = set.recall(&queries);
                println!("{what}, after vacuum: {recall} in {hops}");
                set.assert_whole(&what);
                assert!(recall > expected - 0.05, "{what}, after vacuum: {recall}, without the plateau {expected}");
            }
        }
    }
}

/// The number of `rows` that a search for their nearest row finds.
fn found_themselves(set: &Set, rows: &[Vec<f32>]) -> usize {
    let index = set.index();
    let is_found = |row: &&Vec<f32>| {
        let hits = index.search_with(row, 1, &DEFAULT).unwrap().hits;
        hits.first().is_some_and(|hit| hit.distance < 1e-2)
    };
    rows.iter().filter(is_found).count()
}

#[test]
fn two_plateaus_hide_neither_each_other_nor_other_rows() {
    let (others, queries) = (clusters(500, 1), clusters(50, 2));
    let [a, b] = plateaus();
    for mode in MODES {
        let mut alone = Set::empty(mode);
        alone.add(&others);
        let least = alone.recall(&queries).0 - 0.02;
        let mut set = Set::empty(mode);
        set.add(&equal(300, &a.1));
        set.add(&equal(300, &b.1));
        set.add(&others);
        set.assert_whole("whole");
        let (recall, hops) = set.recall(&queries);
        println!("{mode:?}: {recall} in {hops}");
        assert!(recall > least, "{mode:?}: {recall}");
        assert_eq!(found_themselves(&set, &[a.1.clone(), b.1.clone()]), 2);
        // Deletes the first rows of each plateau, which anchor the others, and then nearly all
        // rows.
        set.remove(|id| id <= 40 || (301..=340).contains(&id));
        set.assert_whole("without the first");
        assert!(set.recall(&queries).0 > least, "{mode:?}: {:?}", set.recall(&queries));
        set.remove(|id| id <= 600 && id % 40 > 0);
        set.assert_whole("nearly without plateaus");
        assert!(set.recall(&queries).0 > least, "{mode:?}: {:?}", set.recall(&queries));
    }
}

/// The rows that lead to the live ones are dead, and a search visits only a few of many duplicates.
#[test]
fn rows_can_be_added_after_duplicates_that_are_dead() {
    let (others, row) = (clusters(60, 1), clusters(1, 3).remove(0));
    for mode in MODES {
        for (first, last) in [(1, 299), (2, 300), (1, 300), (20, 280)] {
            let mut set = Set::empty(mode);
            set.add(&equal(300, &row));
            set.delete(|id| (first..=last).contains(&id));
            let what = format!("{mode:?}, {first} to {last} died");
            for rows in [equal(1, &row), others.clone(), equal(80, &row)] {
                set.add(&rows);
                set.assert_whole(&what);
            }
            assert!(set.recall(&clusters(20, 2)).0 > 0.97, "{what}: {:?}", set.recall(&clusters(20, 2)));
            while set.change(|change| change.vacuum(64, &mut no_progress()).unwrap()).steps() > 0 {}
            set.assert_whole(&what);
        }
    }
}

/// Rows so short that their squared components underflow: all their distances are equal.
#[test]
fn rows_whose_distances_underflow_hide_no_other_rows() {
    let (others, queries) = (clusters(300, 1), clusters(50, 2));
    for mode in MODES {
        let mut set = Set::empty(mode);
        let tiny: Vec<Vec<f32>> = (0..300).map(|at| vec![at as f32 * 1e-30; DIM]).collect();
        set.add(&tiny);
        set.assert_whole("tiny rows");
        for some in others.chunks(100) {
            set.add(some);
            set.assert_whole("and others");
            let (recall, hops) = set.recall(&queries);
            println!("{mode:?}: {recall} in {hops}");
            assert!(recall > 0.97, "{mode:?}: {recall}");
        }
    }
}

#[test]
fn a_build_with_many_duplicates_finds_all_of_them() {
    let (others, queries) = (clusters(2000, 1), clusters(50, 2));
    for mode in MODES {
        let alone = Set::built(mode, &others);
        let (expected, expected_hops) = alone.recall(&queries);
        for (place, row) in plateaus() {
            // Duplicates before and after the other rows.
            let rows = [equal(400, &row), others.clone(), equal(600, &row)].concat();
            let mut set = Set::built(mode, &rows);
            let what = format!("{mode:?} {place}");
            let (recall, hops) = set.recall(&queries);
            println!("{what}: {recall} in {hops}, without {expected} in {expected_hops}");
            set.assert_whole(&what);
            assert!(recall > expected - 0.01, "{what}: {recall}, without the plateau {expected}");
            set.remove(|id| (id <= 400 || id > 2400) && id % 20 > 0);
            set.assert_whole(&what);
            let (recall, _) = set.recall(&queries);
            assert!(recall > expected - 0.01, "{what}, after vacuum: {recall}, without the plateau {expected}");
        }
    }
}

/// The cost of adding a duplicate does not grow with the number of duplicates, and the neighbors of
/// other rows do not change.
#[test]
fn another_duplicate_costs_no_more_than_any_row() {
    for mode in MODES {
        let mut set = Set::empty(mode);
        let row = clusters(1, 3).remove(0);
        set.add(&clusters(600, 1));
        let before = set.looks;
        set.add(&clusters(100, 4));
        let others = set.looks - before;
        let (mut first, mut last) = (0, 0);
        for round in 0..10 {
            let before = set.looks;
            set.add(&equal(100, &row));
            last = set.looks - before;
            first = if round == 0 { last } else { first };
        }
        println!("{mode:?}: {others} looks for 100 rows, {first} for the first equal ones, {last} for the last");
        assert!(first < others && last < others * 105 / 100, "{mode:?}: {others}, {first}, {last}");
        set.assert_whole("plateau last");
    }
}

/// Recall and cost of ordinary rows, which must not change because of the code for duplicates.
#[test]
fn rows_without_duplicates_cost_what_they_did() {
    // An insertion searches with a list of 150, and a node begins with 26 edges of 32.
    for (what, rows, queries, most, least) in [
        ("clusters", clusters(2000, 1), clusters(200, 2), 262.0, 0.9975),
        ("spread", spread(2000, 1), spread(2000, 2), 342.0, 0.991),
    ] {
        let mut set = Set::empty(IdKind::Int);
        set.add(&rows);
        let looks = set.looks as f64 / 2000.0;
        let (recall, hops) = set.recall(&queries);
        let built = Set::built(IdKind::Int, &rows).recall(&queries);
        println!("{what}: {looks} looks for each, recall {recall} in {hops} hops; built {built:?}");
        assert!(looks < most && recall > least - 0.005 && built.0 > least - 0.005, "{what}: {looks}, {recall}");
        assert!(recall > built.0 - 0.005, "{what}: {recall}, built {built:?}");
    }
}

/// The cost of a vacuum is linear in the number of dead rows, even if hardly any live row is left
/// to replace them in edges.
#[test]
fn vacuum_costs_the_same_per_row_when_nearly_all_are_dead() {
    for mode in MODES {
        for living in [1, 4, 40] {
            let cost = |count: usize| {
                let mut set = Set::built(mode, &clusters(count, 1));
                set.remove(|id| !(id as usize).is_multiple_of(count.div_ceil(living)));
                let what = format!("{} of {count}", set.rows.len());
                set.assert_whole(&what);
                let (recall, _) = set.recall(&clusters(30, 2));
                println!("{mode:?} {what}: {} looks for each, recall {recall}", set.looks / count as u64);
                assert!(recall > 0.99, "{mode:?} {what}: {recall}");
                set.looks
            };
            let (few, many) = (cost(1000), cost(2000));
            assert!(many * 2 < few * 5, "{mode:?}: {few} looks for 1,000 rows, {many} for 2,000");
        }
    }
}

/// Rows that were deleted once counted as duplicates forever, and an index with many never grew.
#[test]
fn an_index_is_trained_again_where_duplicates_came_and_went() {
    let all: Vec<Vec<f32>> = spread(1100, 3);
    let ids: Vec<u64> = (1..=129).collect();
    let mut pages = hosted::built(&Rows { ids, ..Rows::new(DIM, all[..129].concat()) }, Metric::L2);
    for round in 1..=4 {
        let copies: BTreeSet<u64> = (10_000 * round..10_000 * round + 300).collect();
        copies.iter().for_each(|id| hosted::insert(&mut pages, *id, &all[0], false));
        hosted::remove(&mut pages, &copies);
        hosted::vacuum(&mut pages);
    }
    let wants_training = |pages: &MemPages| Index::open(pages).unwrap().wants_training().unwrap();
    // Eight times 129 rows are 1,032.
    (129..1000).for_each(|at| hosted::insert(&mut pages, at as u64 + 1, &all[at], false));
    assert!(!wants_training(&pages));
    (1000..1040).for_each(|at| hosted::insert(&mut pages, at as u64 + 1, &all[at], false));
    assert!(wants_training(&pages));
}
