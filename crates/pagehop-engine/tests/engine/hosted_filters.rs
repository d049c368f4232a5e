//! Columns of an index whose rows the host owns: cursors with filters are compared with a naive
//! oracle, and the index is valid after every step.

use std::collections::{BTreeMap, BTreeSet};

use crate::support;
use crate::support::hosted::{EVERYTHING, change, check, remove, vacuum};
use crate::support::{ColumnSource, Noise, distance, embeddings, no_progress, options};
use pagehop_engine::page::Pages;
use pagehop_engine::{
    BuildOptions, Column, ColumnKind, ColumnRows, Comparison, CreateOptions, Filter, IdKind, Index, Metric,
    SearchOptions, Value, build, create,
};
use pagehop_sim::MemPages;

const DIM: usize = 24;

/// A row: its vector, and its values of `tenant` and `price`.
type Row = (Vec<f32>, [Value; 2]);

fn columns() -> Vec<Column> {
    ["tenant", "price"].map(|name| Column { name: name.into(), kind: ColumnKind::Int }).to_vec()
}

fn values(noise: &mut Noise) -> [Value; 2] {
    let (tenant, price) = ((noise.unit() * noise.unit() * 20.0) as i64, (noise.unit() * 1000.0) as i64);
    let mut maybe = |value: i64| if noise.unit() < 0.05 { Value::Null } else { Value::Int(value) };
    [maybe(tenant), maybe(price)]
}

fn rows(count: usize, seed: u64) -> BTreeMap<u64, Row> {
    let mut noise = Noise(seed);
    let mut vectors = embeddings(DIM, count, seed);
    // Some rows have equal vectors but different values.
    let same = vectors[..DIM].to_vec();
    (0..count / 20).for_each(|i| vectors[i * 13 % count * DIM..][..DIM].copy_from_slice(&same));
    (1..=count as u64).zip(vectors.chunks(DIM)).map(|(id, row)| (id, (row.to_vec(), values(&mut noise)))).collect()
}

fn built(rows: &BTreeMap<u64, Row>) -> MemPages {
    let mut packed = ColumnRows::new(columns()).unwrap();
    rows.values().for_each(|row| packed.push(&row.1).unwrap());
    let vectors = rows.values().flat_map(|row| row.0.iter().copied()).collect();
    let mut source = ColumnSource { dim: DIM, ids: rows.keys().copied().collect(), vectors, columns: packed };
    let mut pages = MemPages::new();
    let options = BuildOptions { id_kind: IdKind::HostOwned, ..options(Metric::L2) };
    build(&mut source, &options, &mut pages, &mut no_progress()).unwrap();
    pages
}

fn empty() -> MemPages {
    let mut pages = MemPages::new();
    create(
        DIM,
        &CreateOptions { id_kind: IdKind::HostOwned, columns: columns(), ..CreateOptions::default() },
        &mut pages,
    )
    .unwrap();
    pages
}

fn insert(pages: &mut MemPages, id: u64, row: &Row, is_known: bool) {
    change(pages, |change| change.insert_hosted(id, &row.0, &row.1, is_known, &mut no_progress()).unwrap());
}

fn tenant(tenant: i64) -> Filter {
    Filter::Compare("tenant".into(), Comparison::Equal, Value::Int(tenant))
}

fn cheaper(price: i64) -> Filter {
    Filter::Compare("price".into(), Comparison::Less, Value::Int(price))
}

fn filters() -> Vec<Filter> {
    vec![
        tenant(0),
        tenant(7),
        tenant(1000),
        cheaper(500),
        cheaper(30),
        Filter::And(vec![tenant(1), cheaper(500)]),
        Filter::In("tenant".into(), vec![Value::Int(3), Value::Null, Value::Int(11)]),
        Filter::IsNull("price".into()),
        Filter::Not(Box::new(Filter::IsNull("tenant".into()))),
        Filter::Or(Vec::new()),
        Filter::And(Vec::new()),
    ]
}

fn passes(filter: &Filter, row: &[Value; 2]) -> bool {
    let value = |name: &str| &row[usize::from(name == "price")];
    match filter {
        Filter::Compare(name, Comparison::Equal, with) => value(name) == with,
        Filter::Compare(name, _, Value::Int(with)) => matches!(value(name), Value::Int(is) if is < with),
        Filter::In(name, with) => *value(name) != Value::Null && with.contains(value(name)),
        Filter::IsNull(name) => *value(name) == Value::Null,
        Filter::Not(part) => !passes(part, row),
        Filter::And(parts) => parts.iter().all(|part| passes(part, row)),
        Filter::Or(parts) => parts.iter().any(|part| passes(part, row)),
        other => unreachable!("{other:?} is not tested"),
    }
}

/// The first `most` rows of a cursor with a filter, which expects `most` rows. Each must come once.
fn found(pages: &impl Pages, query: &[f32], options: &SearchOptions, filter: &Filter, most: usize) -> Vec<u64> {
    found_after(pages, query, options, filter, most, &[])
}

/// Like `found`, with a cursor that is told to expect more rows on its way. Each item of `after`
/// has the number of rows taken before that, and the number of rows that are expected then.
fn found_after(
    pages: &impl Pages,
    query: &[f32],
    options: &SearchOptions,
    filter: &Filter,
    most: usize,
    after: &[(usize, usize)],
) -> Vec<u64> {
    let index = Index::open(pages).unwrap();
    let mut cursor = index.cursor(query, options).unwrap();
    cursor.only(index.plan_filter(filter).unwrap());
    cursor.expect(if after.is_empty() { most.min(1000) } else { 10 });
    let mut found = Vec::new();
    while found.len() < most {
        if let Some((_, more)) = after.iter().find(|(taken, _)| *taken == found.len()) {
            cursor.expect_more(*more, options).unwrap();
        }
        let Some(hit) = cursor.next_hit().unwrap() else { break };
        found.push(hit.row_id);
    }
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "a row came twice");
    found
}

/// Compares cursors that are read to their ends, and the first ten rows of other cursors.
fn compare(pages: &MemPages, rows: &BTreeMap<u64, Row>) {
    let options = SearchOptions { slack: 0.5, ..SearchOptions::default() };
    let (mut hits, mut wanted) = (0, 0);
    for query in embeddings(DIM, 6, 77).chunks(DIM) {
        for filter in filters() {
            let all: BTreeSet<u64> =
                rows.iter().filter(|(_, row)| passes(&filter, &row.1)).map(|(id, _)| *id).collect();
            let every: BTreeSet<u64> = found(pages, query, &options, &filter, usize::MAX).into_iter().collect();
            assert_eq!(every, all, "{filter:?}");
            let grown = found_after(pages, query, &options, &filter, usize::MAX, &[(5, 20), (13, 60), (40, 2000)]);
            assert_eq!(grown.into_iter().collect::<BTreeSet<_>>(), all, "{filter:?}");
            let mut nearest: Vec<u64> = all.into_iter().collect();
            nearest.sort_by(|a, b| {
                let far = |id: &u64| distance(Metric::L2, query, &rows[id].0);
                far(a).total_cmp(&far(b))
            });
            let most = nearest.len().min(10);
            assert_eq!(found(pages, query, &EVERYTHING, &filter, 10).len(), most, "{filter:?}");
            let ten = found(pages, query, &options, &filter, 10);
            assert_eq!(ten.len(), most, "{filter:?}");
            let far = |id: &u64| distance(Metric::L2, query, &rows[id].0);
            let farthest = nearest[..most].last().map_or(0.0, far) * 1.001;
            hits += ten.iter().filter(|id| far(id) <= farthest).count();
            wanted += most;
        }
    }
    assert!(hits as f64 >= 0.97 * wanted as f64, "{hits} of {wanted} were found");
}

#[test]
fn a_built_index_finds_rows_that_pass() {
    for count in [3, 300, 4000] {
        let rows = rows(count, 5);
        let pages = built(&rows);
        check(&pages);
        compare(&pages, &rows);
    }
}

#[test]
fn rows_come_change_and_go() {
    let all = rows(900, 9);
    let mut pages = empty();
    check(&pages);
    compare(&pages, &BTreeMap::new());
    let mut living = BTreeMap::new();
    let mut noise = Noise(3);
    let (mut dead, mut next) = (BTreeSet::new(), 10_000);
    for (id, row) in &all {
        insert(&mut pages, *id, row, false);
        living.insert(*id, row.clone());
        if id % 4 == 0 {
            // A new version of some row: with the same values, or with others.
            let old = *living.keys().nth((noise.unit() * living.len() as f32) as usize).unwrap();
            let mut row = living[&old].clone();
            let is_known = noise.unit() < 0.5;
            if !is_known {
                row.1 = values(&mut noise);
            }
            next += 1;
            insert(&mut pages, next, &row, is_known);
            living.insert(next, row);
            dead.insert(old);
            living.remove(&old);
        }
        if id % 150 == 0 {
            check(&pages);
            remove(&mut pages, &dead);
            vacuum(&mut pages);
            dead.clear();
            check(&pages);
            compare(&pages, &living);
        }
    }
    let gone: BTreeSet<u64> = living.keys().copied().filter(|id| id % 3 > 0).collect();
    living.retain(|id, _| !gone.contains(id));
    remove(&mut pages, &gone);
    vacuum(&mut pages);
    assert_eq!(check(&pages).dead_nodes, 0);
    compare(&pages, &living);
    change(&mut pages, |change| change.train(&mut no_progress()).unwrap());
    check(&pages);
    compare(&pages, &living);
}

/// Versions of a row share its node only if their values are equal too.
#[test]
fn rows_share_a_node_if_their_values_are_equal() {
    let rows = rows(200, 5);
    let mut pages = built(&rows);
    let before = check(&pages).nodes;
    let (vector, values) = rows[&50].clone();
    for is_known in [false, true] {
        insert(&mut pages, 1000 + u64::from(is_known), &(vector.clone(), values.clone()), is_known);
        assert_eq!(check(&pages).nodes, before);
    }
    for is_known in [false, true] {
        let other = [Value::Int(2000 + i64::from(is_known)), Value::Null];
        insert(&mut pages, 1010 + u64::from(is_known), &(vector.clone(), other), is_known);
        assert_eq!(check(&pages).nodes, before + 1 + u64::from(is_known));
    }
    let options = SearchOptions::default();
    assert_eq!(found(&pages, &vector, &options, &tenant(2000), 5), [1010]);
    assert_eq!(found(&pages, &vector, &options, &tenant(2001), 5), [1011]);
}

/// The walk ends at the old node, and the nodes at the other ends of its edges are not read. One
/// step writes the node and its postings, and another one the anchor. Sometimes a leaf is split.
#[test]
fn a_row_of_other_values_costs_few_pages_and_steps() {
    let rows = rows(4000, 5);
    let mut pages = built(&rows);
    let before = check(&pages).nodes;
    let (mut steps, mut looks) = (0, 0);
    // Rows whose vectors occur once.
    let some: Vec<&Row> = rows.values().filter(|row| row.0 != rows[&1].0).step_by(19).take(200).collect();
    for (id, (vector, _)) in (10_000..).zip(&some) {
        let known = Index::open(pages.clone()).unwrap();
        let mut writer = pages.writer().with_after_step(Box::new(|_| steps += 1));
        let mut change = known.change(&mut writer).unwrap();
        change.insert_hosted(id, vector, &[Value::Int(2007), Value::Null], false, &mut no_progress()).unwrap();
        change.finish().unwrap();
        looks += writer.looks();
    }
    assert_eq!(some.len(), 200);
    assert!(steps <= 2 * 200 + 20, "{steps} steps");
    assert!(looks <= 32 * 200, "{looks} looks at pages");
    assert_eq!(check(&pages).nodes, before + 200);
}

/// After every step the index is valid, and the next change writes the postings that are missing.
#[test]
fn a_change_may_end_after_any_step() {
    let rows = rows(220, 7);
    let mut before = built(&rows.iter().take(200).map(|(id, row)| (*id, row.clone())).collect());
    for (id, row) in rows.iter().skip(200) {
        let mut stops = Vec::new();
        let known = Index::open(before.clone()).unwrap();
        let mut pages = before.clone();
        let mut writer = pages.writer().with_after_step(Box::new(|pages| {
            check(pages);
            stops.push(pages.clone());
        }));
        let mut change = known.change(&mut writer).unwrap();
        change.insert_hosted(*id, &row.0, &row.1, false, &mut no_progress()).unwrap();
        change.finish().unwrap();
        drop(writer);
        before = pages;
        for mut stopped in stops {
            let is_there = support::hosted::row_ids(&stopped, &row.0).contains(id);
            insert(&mut stopped, 5000, &rows[&1], false);
            check(&stopped);
            let mut expected: BTreeMap<u64, Row> =
                rows.iter().take_while(|(other, _)| *other < id).map(|(id, row)| (*id, row.clone())).collect();
            expected.extend(is_there.then(|| (*id, row.clone())));
            expected.insert(5000, rows[&1].clone());
            for filter in [cheaper(500), tenant(1), Filter::IsNull("price".into())] {
                let all = expected.iter().filter(|(_, row)| passes(&filter, &row.1)).map(|(id, _)| *id);
                let mut every = found(&stopped, &row.0, &SearchOptions::default(), &filter, usize::MAX);
                // A node to which no edge leads yet is found by its postings. Its row is dead.
                every.retain(|other| other != id || is_there);
                assert_eq!(every.into_iter().collect::<BTreeSet<_>>(), all.collect(), "{filter:?}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let rows = rows(50, 5);
    let mut pages = built(&rows);
    let refused = |pages: &mut MemPages, values: &[Value]| {
        change(pages, |change| change.insert_hosted(60, &rows[&1].0, values, false, &mut no_progress()))
            .expect_err("refused")
            .to_string()
    };
    assert!(refused(&mut pages, &[]).contains("2 columns"));
    assert!(refused(&mut pages, &[Value::Float(1.0), Value::Null]).contains("tenant"));
    let index = Index::open(&pages).unwrap();
    assert!(index.plan_filter(&Filter::Ids(vec![1])).is_err());
    assert!(index.plan_filter(&Filter::IsNull("topic".into())).is_err());
}
