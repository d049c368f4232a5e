//! Columns of tags of an index whose rows the host owns: the tags of a row are a chain of its
//! postings. A search may return rows that do not pass. So the host checks the tags of each row
//! again, as these tests do.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::hosted::{change, check, remove, vacuum};
use crate::support::{ColumnSource, Noise, distance, embeddings, no_progress, options};
use pagehop_engine::page::Pages;
use pagehop_engine::{
    BuildOptions, Column, ColumnKind, ColumnRows, CreateOptions, Filter, IdKind, Index, Metric, SearchOptions,
    Value, build, create,
};
use pagehop_sim::MemPages;

const DIM: usize = 24;
/// The number of different tags. The first are the most frequent.
const TAGS: f32 = 60.0;

/// A row: its vector, and its values of `labels`, `price` and `words`.
type Row = (Vec<f32>, [Value; 3]);

fn columns() -> Vec<Column> {
    let column = |name: &str, kind| Column { name: name.into(), kind };
    vec![column("labels", ColumnKind::Tags), column("price", ColumnKind::Int), column("words", ColumnKind::Tags)]
}

/// Sets of no tag, of one or a few tags, and in one row of 30 of up to 45 tags, whose word matches
/// nearly every tag.
fn tags(noise: &mut Noise) -> Value {
    let count = match noise.unit() {
        part if part < 0.1 => return Value::Null,
        part if part < 0.2 => 0,
        part if part < 0.4 => 1,
        part if part < 0.97 => 2 + (part * 40.0) as usize % 5,
        _ => 45,
    };
    let tag = |noise: &mut Noise| format!("tag {}", (noise.unit() * noise.unit() * TAGS) as usize);
    Value::Tags((0..count).map(|_| tag(noise)).collect())
}

fn values(noise: &mut Noise) -> [Value; 3] {
    let price = Value::Int((noise.unit() * 1000.0) as i64);
    [tags(noise), price, tags(noise)]
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

fn insert(pages: &mut MemPages, id: u64, row: &Row, is_known: bool) {
    change(pages, |change| change.insert_hosted(id, &row.0, &row.1, is_known, &mut no_progress()).unwrap());
}

fn any(name: &str, tags: &[usize]) -> Filter {
    Filter::ContainsAny(name.into(), tags.iter().map(|tag| format!("tag {tag}")).collect())
}

fn all(name: &str, tags: &[usize]) -> Filter {
    Filter::ContainsAll(name.into(), tags.iter().map(|tag| format!("tag {tag}")).collect())
}

fn filters() -> Vec<Filter> {
    vec![
        any("labels", &[0]),
        any("labels", &[5, 50, 99]),
        any("words", &[55]),
        any("labels", &[99]),
        any("labels", &[]),
        all("labels", &[1, 2]),
        all("labels", &[0, 1, 2, 3]),
        all("words", &[]),
        Filter::And(vec![any("labels", &[3]), any("words", &[0, 1])]),
        Filter::IsNull("labels".into()),
    ]
}

fn passes(filter: &Filter, row: &[Value; 3]) -> bool {
    let set = |name: &str| match &row[if name == "labels" { 0 } else { 2 }] {
        Value::Tags(tags) => Some(tags),
        _ => None,
    };
    match filter {
        Filter::ContainsAny(name, tags) => set(name).is_some_and(|set| tags.iter().any(|tag| set.contains(tag))),
        Filter::ContainsAll(name, tags) => set(name).is_some_and(|set| tags.iter().all(|tag| set.contains(tag))),
        Filter::IsNull(name) => set(name).is_none(),
        Filter::And(parts) => parts.iter().all(|part| passes(part, row)),
        other => unreachable!("{other:?} is not tested"),
    }
}

/// The first `most` rows of a cursor that pass the filter. Each must come once.
fn found(pages: &impl Pages, query: &[f32], filter: &Filter, rows: &BTreeMap<u64, Row>, most: usize) -> Vec<u64> {
    let options = SearchOptions { slack: 0.5, ..SearchOptions::default() };
    let index = Index::open(pages).unwrap();
    let mut cursor = index.cursor(query, &options).unwrap();
    cursor.only(index.plan_filter(filter).unwrap());
    cursor.expect(most.min(1000));
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    while found.len() < most {
        let Some(hit) = cursor.next_hit().unwrap() else { break };
        assert!(seen.insert(hit.row_id), "a row came twice");
        found.extend(rows.get(&hit.row_id).filter(|row| passes(filter, &row.1)).map(|_| hit.row_id));
    }
    found
}

/// Compares cursors that are read to their ends, and the first ten rows of other cursors.
fn compare(pages: &MemPages, rows: &BTreeMap<u64, Row>) {
    let (mut hits, mut wanted) = (0, 0);
    for query in embeddings(DIM, 4, 77).chunks(DIM) {
        for filter in filters() {
            let every: BTreeSet<u64> = found(pages, query, &filter, rows, usize::MAX).into_iter().collect();
            let mut nearest: Vec<u64> =
                rows.iter().filter(|(_, row)| passes(&filter, &row.1)).map(|(id, _)| *id).collect();
            assert_eq!(every, nearest.iter().copied().collect(), "{filter:?}");
            let far = |id: &u64| distance(Metric::L2, query, &rows[id].0);
            nearest.sort_by(|a, b| far(a).total_cmp(&far(b)));
            let most = nearest.len().min(10);
            let ten = found(pages, query, &filter, rows, 10);
            assert_eq!(ten.len(), most, "{filter:?}");
            let farthest = nearest[..most].last().map_or(0.0, far) * 1.001;
            hits += ten.iter().filter(|id| far(id) <= farthest).count();
            wanted += most;
        }
    }
    assert!(hits as f64 >= 0.95 * wanted as f64, "{hits} of {wanted} were found");
}

#[test]
fn a_built_index_finds_rows_by_their_tags() {
    for count in [3, 300, 4000] {
        let rows = rows(count, 5);
        let pages = built(&rows);
        check(&pages);
        compare(&pages, &rows);
    }
}

#[test]
fn rows_with_tags_come_change_and_go() {
    let all = rows(700, 9);
    let mut pages = MemPages::new();
    create(
        DIM,
        &CreateOptions { id_kind: IdKind::HostOwned, columns: columns(), ..CreateOptions::default() },
        &mut pages,
    )
    .unwrap();
    check(&pages);
    let (mut living, mut noise) = (BTreeMap::new(), Noise(3));
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
        if id % 175 == 0 {
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

/// The words of two large sets may be equal. Versions of a row share its node only if their tags
/// are equal.
#[test]
fn rows_share_a_node_if_their_tags_are_equal() {
    let rows = rows(200, 5);
    let mut pages = built(&rows);
    let of = |first: usize| {
        let tags = (first..first + 200).map(|tag| format!("new {tag}")).collect();
        [Value::Tags(tags), Value::Null, Value::Null]
    };
    let before = check(&pages).nodes;
    let vector = rows[&50].0.clone();
    for (at, (first, nodes)) in [(0, 1), (0, 1), (7, 2)].into_iter().enumerate() {
        for is_known in [false, true] {
            let id = 1000 + 10 * at as u64 + u64::from(is_known);
            insert(&mut pages, id, &(vector.clone(), of(first)), is_known);
            assert_eq!(check(&pages).nodes, before + nodes, "{id}");
        }
    }
}

/// After every step the index is valid, and the next change writes what is missing. What an
/// insertion that ended early leaves can be vacuumed.
#[test]
fn a_change_may_end_after_any_step() {
    let rows = rows(212, 7);
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
            insert(&mut stopped, 5000, &rows[&1], false);
            check(&stopped);
            remove(&mut stopped, &BTreeSet::from([*id]));
            vacuum(&mut stopped);
            assert_eq!(check(&stopped).dead_nodes, 0);
            let mut expected: BTreeMap<u64, Row> =
                rows.iter().take_while(|(other, _)| *other < id).map(|(id, row)| (*id, row.clone())).collect();
            expected.insert(5000, rows[&1].clone());
            for filter in [any("labels", &[0, 7]), all("words", &[1]), Filter::IsNull("labels".into())] {
                let all = expected.iter().filter(|(_, row)| passes(&filter, &row.1)).map(|(id, _)| *id);
                let every = found(&stopped, &row.0, &filter, &expected, usize::MAX);
                assert_eq!(every.into_iter().collect::<BTreeSet<_>>(), all.collect(), "{filter:?}");
            }
        }
    }
}

/// A vacuum that ends after any step leaves a valid index, and the next vacuum finishes its work.
#[test]
fn a_vacuum_may_end_after_any_step() {
    let rows = rows(120, 11);
    let mut pages = built(&rows);
    let gone: BTreeSet<u64> = rows.keys().copied().filter(|id| id % 12 == 0).collect();
    let living: BTreeMap<u64, Row> =
        rows.iter().filter(|(id, _)| !gone.contains(id)).map(|(id, row)| (*id, row.clone())).collect();
    remove(&mut pages, &gone);
    let mut stops = Vec::new();
    let known = Index::open(pages.clone()).unwrap();
    let mut writer = pages.writer().with_after_step(Box::new(|pages| {
        check(pages);
        stops.push(pages.clone());
    }));
    let mut change = known.change(&mut writer).unwrap();
    change.vacuum(u64::MAX, &mut no_progress()).unwrap();
    change.finish().unwrap();
    drop(writer);
    assert!(stops.len() > 50, "{} steps", stops.len());
    for mut stopped in stops.into_iter().step_by(3) {
        vacuum(&mut stopped);
        assert_eq!(check(&stopped).dead_nodes, 0);
        compare(&stopped, &living);
    }
}
