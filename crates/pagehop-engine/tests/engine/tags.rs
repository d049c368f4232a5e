//! Columns of tags, compared with a naive oracle. The structure is valid after every change.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::support::{Noise, distance, embeddings, no_progress, options};
use pagehop_engine::{
    Change, Column, ColumnKind, ColumnRows, Comparison, CreateOptions, EachChunk, Error, Filter, IdKind, Index,
    Metric, PageSink, SearchOptions, SearchPlan, Stats, TAGS_MAX, Value, VectorSource, build, create,
};
use pagehop_sim::{MemPages, MemWriter};

const DIM: usize = 48;
/// The number of different tags. The first is in a third of the rows, the last in few.
const TAGS: usize = 200;

/// A row: its vector, and its values of `labels`, `topic` and `words`.
#[derive(Clone)]
struct Row {
    vector: Vec<f32>,
    values: [Value; 3],
    payload: Option<Vec<u8>>,
}

/// What an index keeps besides vectors and columns.
#[derive(Clone, Copy, Debug)]
struct Kind {
    id_kind: IdKind,
    payloads: bool,
}

const KINDS: [Kind; 4] = [
    Kind { id_kind: IdKind::Int, payloads: false },
    Kind { id_kind: IdKind::Int, payloads: true },
    Kind { id_kind: IdKind::Text, payloads: false },
    Kind { id_kind: IdKind::Text, payloads: true },
];

fn column(name: &str, kind: ColumnKind) -> Column {
    Column { name: name.into(), kind }
}

fn columns() -> Vec<Column> {
    vec![column("labels", ColumnKind::Tags), column("topic", ColumnKind::Int), column("words", ColumnKind::Tags)]
}

fn set(noise: &mut Noise, most: usize) -> Value {
    let count = (noise.unit() * (most + 1) as f32) as usize;
    let tag = |noise: &mut Noise| format!("tag {}", (noise.unit().powi(3) * TAGS as f32) as usize);
    Value::Tags((0..count).map(|_| tag(noise)).collect())
}

fn values(noise: &mut Noise) -> [Value; 3] {
    let sets = [set(noise, 6), Value::Int((noise.unit() * 20.0) as i64), set(noise, 30)];
    sets.map(|value| if noise.unit() < 0.05 { Value::Null } else { value })
}

fn rows(count: usize, seed: u64) -> BTreeMap<u64, Row> {
    let mut noise = Noise(seed);
    let vectors = embeddings(DIM, count, seed);
    let rows = vectors.chunks(DIM).enumerate().map(|(at, vector)| {
        let payload = (at % 3 == 0).then(|| vec![at as u8; if at % 50 == 0 { 9000 } else { at % 40 }]);
        (at as u64 * 7 + 11, Row { vector: vector.to_vec(), values: values(&mut noise), payload })
    });
    rows.collect()
}

fn packed(kind: Kind, rows: &BTreeMap<u64, Row>) -> ColumnRows {
    let mut packed = ColumnRows::new(columns()).unwrap();
    rows.values().for_each(|row| packed.push(&row.values).unwrap());
    let payloads = rows.values().map(|row| row.payload.clone()).collect();
    if kind.payloads { packed.with_payloads(payloads) } else { packed }
}

fn text(id: u64) -> String {
    format!("row {id}")
}

struct Source {
    ids: Vec<u64>,
    texts: Option<Vec<String>>,
    vectors: Vec<f32>,
    columns: ColumnRows,
}

impl VectorSource for Source {
    fn dim(&self) -> usize {
        DIM
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        each(&self.ids, &self.vectors)
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.columns)
    }

    fn text_ids(&self) -> Option<&[String]> {
        self.texts.as_deref()
    }
}

fn built(kind: Kind, rows: &BTreeMap<u64, Row>) -> MemPages {
    let ids: Vec<u64> = rows.keys().copied().collect();
    let mut source = Source {
        texts: (kind.id_kind == IdKind::Text).then(|| ids.iter().map(|id| text(*id)).collect()),
        ids,
        vectors: rows.values().flat_map(|row| row.vector.iter().copied()).collect(),
        columns: packed(kind, rows),
    };
    let mut pages = MemPages::new();
    let options = pagehop_engine::BuildOptions { id_kind: kind.id_kind, ..options(Metric::L2) };
    build(&mut source, &options, &mut pages, &mut |_| ControlFlow::Continue(())).unwrap();
    pages
}

/// Runs one transaction, and checks the structure afterwards.
fn change<T>(
    pages: &mut MemPages,
    work: impl FnOnce(&mut Change<'_, MemWriter<'_>>) -> Result<T, Error>,
) -> Result<T, Error> {
    let known = Index::open(pages.clone()).unwrap();
    let mut writer = pages.writer();
    let mut change = known.change(&mut writer).unwrap();
    let result = work(&mut change)?;
    change.finish().unwrap();
    writer.commit();
    Index::open(&*pages).unwrap().check(&mut no_progress()).unwrap();
    Ok(result)
}

fn add(kind: Kind, pages: &mut MemPages, rows: &BTreeMap<u64, Row>) {
    let ids: Vec<u64> = rows.keys().copied().collect();
    let vectors: Vec<f32> = rows.values().flat_map(|row| row.vector.iter().copied()).collect();
    let columns = packed(kind, rows);
    change(pages, |change| match kind.id_kind {
        IdKind::Text => {
            let ids: Vec<String> = ids.iter().map(|id| text(*id)).collect();
            change.add(&ids, &vectors, Some(&columns), &mut no_progress())
        }
        _ => change.add(&ids, &vectors, Some(&columns), &mut no_progress()),
    })
    .unwrap();
}

fn any(name: &str, tags: &[&str]) -> Filter {
    Filter::ContainsAny(name.into(), tags.iter().map(|tag| (*tag).to_owned()).collect())
}

fn all(name: &str, tags: &[&str]) -> Filter {
    Filter::ContainsAll(name.into(), tags.iter().map(|tag| (*tag).to_owned()).collect())
}

fn not(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

/// Whether a row passes a filter. Only the filters of these tests are supported.
fn passes(filter: &Filter, row: &[Value; 3]) -> Option<bool> {
    let value = |name: &str| &row[columns().iter().position(|column| column.name == name).unwrap()];
    let set = |name: &str| if let Value::Tags(tags) = value(name) { Some(tags) } else { None };
    match filter {
        Filter::Compare(name, Comparison::Less, Value::Int(with)) => match value(name) {
            Value::Int(is) => Some(is < with),
            _ => None,
        },
        Filter::IsNull(name) => Some(*value(name) == Value::Null),
        Filter::ContainsAny(name, tags) => set(name).map(|set| tags.iter().any(|tag| set.contains(tag))),
        Filter::ContainsAll(name, tags) => set(name).map(|set| tags.iter().all(|tag| set.contains(tag))),
        Filter::Not(part) => passes(part, row).map(|truth| !truth),
        Filter::And(parts) => Some(parts.iter().all(|part| passes(part, row) == Some(true))),
        Filter::Or(parts) => Some(parts.iter().any(|part| passes(part, row) == Some(true))),
        other => unreachable!("{other:?}"),
    }
}

fn filters() -> Vec<Filter> {
    let topic = |below| Filter::Compare("topic".into(), Comparison::Less, Value::Int(below));
    let hundreds: Vec<String> = (50..3050).map(|tag| format!("tag {tag}")).collect();
    vec![
        any("labels", &["tag 0"]),
        any("labels", &["tag 150"]),
        any("words", &["tag 199"]),
        any("words", &["no such tag"]),
        any("labels", &["tag 3", "tag 90", "tag 3"]),
        any("labels", &[]),
        all("labels", &[]),
        all("words", &["tag 0", "tag 1"]),
        all("words", &["tag 5", "tag 77", "tag 120"]),
        all("labels", &["tag 0", "no such tag"]),
        not(any("labels", &["tag 0"])),
        not(all("words", &["tag 0", "tag 1"])),
        not(any("words", &[])),
        not(all("words", &[])),
        Filter::IsNull("labels".into()),
        not(Filter::IsNull("words".into())),
        Filter::And(vec![any("labels", &["tag 1"]), topic(4)]),
        Filter::And(vec![any("labels", &["tag 1"]), any("words", &["tag 2", "tag 30"])]),
        Filter::Or(vec![any("labels", &["tag 60"]), any("words", &["tag 180"]), topic(1)]),
        Filter::And(vec![topic(1), not(any("words", &["tag 0"]))]),
        Filter::Or(vec![any("labels", &["tag 9"]), not(any("labels", &["tag 9"]))]),
        Filter::ContainsAny("words".into(), hundreds),
    ]
}

/// Exact searches find what brute force finds, and searches with default options nearly so. No row
/// is missing, and no row is wrong. Returns the share that searches with options found.
fn compare_with_oracle(pages: &MemPages, rows: &BTreeMap<u64, Row>) -> f64 {
    let index = Index::open(pages).unwrap();
    let mut searcher = index.searcher();
    let (mut found, mut wanted) = (0, 0);
    for filter in filters() {
        let plan = searcher.plan_filter(&filter).unwrap();
        let passing: Vec<&Row> = rows.values().filter(|row| passes(&filter, &row.values) == Some(true)).collect();
        let share = passing.len() as f64 / rows.len().max(1) as f64;
        let is_one = matches!(&filter, Filter::ContainsAny(_, tags) if tags.len() < 2);
        assert!(!is_one || (plan.share() - share).abs() < 0.1, "{filter:?}: {} for {share}", plan.share());
        for k in [1, 10, 60] {
            for query in embeddings(DIM, 3, 99).chunks(DIM) {
                let mut near: Vec<f64> =
                    passing.iter().map(|row| distance(Metric::L2, query, &row.vector)).collect();
                near.sort_by(f64::total_cmp);
                near.truncate(k);
                for options in [None, Some(SearchOptions::default())] {
                    let how = options.clone().map_or_else(SearchPlan::exact, SearchPlan::from);
                    let result = searcher.answer(query, k, &how, Some(&plan)).unwrap();
                    assert_eq!(result.hits.len(), near.len(), "{filter:?}, {options:?}");
                    let far = near.last().copied().unwrap_or(0.0);
                    // Codes of 12 bits per dimension may exchange rows at nearly equal distances.
                    let right = result.hits.iter().filter(|hit| f64::from(hit.distance) <= far * 1.001).count();
                    assert!(options.is_some() || right == near.len(), "{filter:?}: {right} of {}", near.len());
                    let is_default = usize::from(options.is_some());
                    (found, wanted) = (found + is_default * right, wanted + is_default * near.len());
                    let ids: Vec<u64> = row_ids(&index, &result, rows);
                    let wrong = ids.iter().find(|id| passes(&filter, &rows[*id].values) != Some(true));
                    assert_eq!(wrong, None, "{filter:?}, {options:?}");
                }
            }
        }
    }
    found as f64 / wanted.max(1) as f64
}

/// The ids of the rows of a result. Fails if one comes twice.
fn row_ids(index: &Index<&MemPages>, result: &pagehop_engine::SearchResult, rows: &BTreeMap<u64, Row>) -> Vec<u64> {
    let mut ids: Vec<u64> = result.hits.iter().map(|hit| hit.row_id).collect();
    if rows.keys().next().is_some() && !ids.iter().all(|id| rows.contains_key(id)) {
        let texts = index.text_ids_of(result).unwrap().unwrap();
        ids = texts.iter().map(|text| text["row ".len()..].parse().unwrap()).collect();
    }
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), ids.len(), "a row came twice");
    ids
}

fn check_payloads(kind: Kind, pages: &MemPages, rows: &BTreeMap<u64, Row>) {
    if !kind.payloads {
        return;
    }
    let index = Index::open(pages).unwrap();
    let ids: Vec<u64> = rows.keys().copied().collect();
    let found = match kind.id_kind {
        IdKind::Text => index.payloads(&ids.iter().map(|id| text(*id)).collect::<Vec<_>>()).unwrap(),
        _ => index.payloads(&ids).unwrap(),
    };
    assert!(rows.values().zip(&found).all(|(row, found)| row.payload == *found));
}

#[test]
fn filtered_searches_find_the_nearest_rows_that_have_the_tags() {
    for (at, kind) in KINDS.into_iter().enumerate() {
        let rows = rows(if at == 0 { 4000 } else { 700 }, 7);
        let pages = built(kind, &rows);
        let report = Index::open(&pages).unwrap().check(&mut no_progress()).unwrap();
        assert_eq!(report.nodes, rows.len() as u64);
        let found = compare_with_oracle(&pages, &rows);
        assert!(found > 0.96, "{kind:?}: {found}");
        check_payloads(kind, &pages, &rows);
    }
}

#[test]
fn rows_keep_their_tags_through_every_change() {
    for kind in KINDS {
        keeps_tags(kind);
    }
}

fn keeps_tags(kind: Kind) {
    let mut noise = Noise(21);
    let mut rows = rows(600, 8);
    let mut pages = MemPages::new();
    let Kind { id_kind, payloads: payload } = kind;
    let options = CreateOptions { id_kind, columns: columns(), payload, ..CreateOptions::default() };
    create(DIM, &options, &mut pages).unwrap();
    Index::open(&pages).unwrap().check(&mut no_progress()).unwrap();
    compare_with_oracle(&pages, &BTreeMap::new());
    for part in 0..4 {
        let part = rows.iter().skip(part * 150).take(150).map(|(id, row)| (*id, row.clone())).collect();
        add(kind, &mut pages, &part);
    }
    compare_with_oracle(&pages, &rows);
    // Other vectors, other values, or both.
    let mut changed = BTreeMap::new();
    for (at, (id, row)) in rows.iter_mut().enumerate().filter(|(at, _)| at % 3 == 0) {
        if at % 2 == 0 {
            row.vector.iter_mut().for_each(|x| *x += 0.1 * noise.gauss());
        }
        if at % 9 < 6 {
            row.values = values(&mut noise);
        }
        changed.insert(*id, row.clone());
    }
    add(kind, &mut pages, &changed);
    compare_with_oracle(&pages, &rows);
    // The tags of one column of some rows, and then only the other column.
    for at in [2, 1] {
        update_column(kind, at, &mut pages, &mut rows, &mut noise);
        compare_with_oracle(&pages, &rows);
        check_payloads(kind, &pages, &rows);
    }
    let gone: Vec<u64> = rows.keys().copied().skip(1).step_by(2).collect();
    change(&mut pages, |change| match kind.id_kind {
        IdKind::Text => change.delete(&gone.iter().map(|id| text(*id)).collect::<Vec<_>>()).map(drop),
        _ => change.delete(&gone).map(drop),
    })
    .unwrap();
    gone.iter().for_each(|id| _ = rows.remove(id));
    compare_with_oracle(&pages, &rows);
    while change(&mut pages, |change| change.vacuum(100, &mut no_progress())).unwrap().steps() > 0 {}
    compare_with_oracle(&pages, &rows);
    change(&mut pages, |change| change.train(&mut no_progress())).unwrap();
    let found = compare_with_oracle(&pages, &rows);
    assert!(found > 0.97, "{kind:?}: {found}");
    check_payloads(kind, &pages, &rows);
    // The index is written again.
    let mut written = MemPages::new();
    let index = Index::open(&pages).unwrap();
    index.rebuild(u64::MAX, 1, &mut written as &mut dyn PageSink, &mut no_progress()).unwrap();
    Index::open(&written).unwrap().check(&mut no_progress()).unwrap();
    compare_with_oracle(&written, &rows);
    check_payloads(kind, &written, &rows);
}

/// Gives column `at` of some rows other values. The second time, they are there already.
fn update_column(kind: Kind, at: usize, pages: &mut MemPages, rows: &mut BTreeMap<u64, Row>, noise: &mut Noise) {
    let ids: Vec<u64> = rows.keys().copied().step_by(3 + at).collect();
    let mut some = ColumnRows::new(vec![columns()[at].clone()]).unwrap();
    for id in &ids {
        let value = values(noise)[at].clone();
        some.push(std::slice::from_ref(&value)).unwrap();
        rows.get_mut(id).unwrap().values[at] = value;
    }
    let texts: Vec<String> = ids.iter().map(|id| text(*id)).collect();
    let mut update = || {
        change(pages, |change| match kind.id_kind {
            IdKind::Text => change.update_columns(&texts, &some),
            _ => change.update_columns(&ids, &some),
        })
        .unwrap()
    };
    assert!(update() > 0);
    assert_eq!(update(), 0);
}

/// Reading the tags of a row costs a page, so they must not be read where they decide nothing.
#[test]
fn tags_are_read_only_where_they_decide() {
    let rows = rows(4000, 7);
    let pages = built(KINDS[0], &rows);
    let index = Index::open(&pages).unwrap();
    let mut searcher = index.searcher();
    let mut stats = |filter: &Filter| {
        let plan = searcher.plan_filter(filter).unwrap();
        let mut all = Stats::default();
        for query in embeddings(DIM, 20, 5).chunks(DIM) {
            let one = searcher.answer(query, 10, &SearchOptions::default().into(), Some(&plan)).unwrap().stats;
            all.pages_read += one.pages_read;
            all.hops += one.hops;
        }
        (plan.reads_postings(10, SearchOptions::default().slack), all)
    };
    // The rows of a posting list have the tag, so nothing is read besides nodes and leaves.
    let rare = any("labels", &["tag 150"]);
    let (by_postings, rare) = stats(&rare);
    assert!(by_postings && rare.pages_read <= rare.hops + 20 * 4, "{rare:?}");
    // A walk reads the tags of rows that are among the nearest so far.
    let (by_postings, common) = stats(&not(any("labels", &["tag 0"])));
    let tags = common.pages_read - common.hops.min(common.pages_read);
    assert!(!by_postings && tags < 20 * 40, "{common:?}");
}

#[test]
fn tags_that_cannot_be_are_refused() {
    let rows = rows(100, 3);
    let mut pages = built(KINDS[0], &rows);
    let push = |tags: Vec<String>, others: usize| {
        let mut rows = ColumnRows::new(columns()).unwrap();
        let others = (0..others).map(|tag| format!("other {tag}")).collect();
        rows.push(&[Value::Tags(tags), Value::Null, Value::Tags(others)]).map_err(|error| error.to_string())
    };
    let many = |count: usize| (0..count).map(|tag| tag.to_string()).collect::<Vec<_>>();
    assert!(push(vec![String::new()], 0).unwrap_err().contains("column \"labels\": a tag is empty"));
    assert!(push(vec!["x".repeat(1 << 20)], 0).unwrap_err().contains("1048576 bytes, up to 1024"));
    assert!(push(many(4000), 0).unwrap_err().contains("4000 tags, up to 512"));
    assert!(push(many(TAGS_MAX), 1).unwrap_err().contains("513 tags"));
    push(many(TAGS_MAX - 1), 1).unwrap();
    let mut texts = ColumnRows::new(columns()).unwrap();
    let wrong = texts.push(&[Value::Text("a".into()), Value::Null, Value::Null]).unwrap_err().to_string();
    assert!(wrong.contains("'a' is not a value of kind tags"), "{wrong}");
    // The greatest number of tags in both columns comes in two updates.
    let of = |name: &str, count| {
        let mut rows = ColumnRows::new(vec![column(name, ColumnKind::Tags)]).unwrap();
        rows.push(&[Value::Tags(many(count))]).unwrap();
        rows
    };
    change(&mut pages, |change| change.update_columns(&[11u64], &of("labels", 300))).unwrap();
    let too_many = change(&mut pages, |change| change.update_columns(&[11u64], &of("words", 300)));
    assert!(too_many.unwrap_err().to_string().contains("600 tags"));
    change(&mut pages, |change| change.update_columns(&[11u64], &of("words", 212))).unwrap();
    // An index without the column, or without the kind.
    let unknown = change(&mut pages, |change| change.update_columns(&[11u64], &of("tags", 1)));
    assert!(unknown.unwrap_err().to_string().contains("labels, topic, words"));
    let other = change(&mut pages, |change| change.update_columns(&[11u64], &of("topic", 1)));
    assert!(other.unwrap_err().to_string().contains("has kind int, not tags"));
    let index = Index::open(&pages).unwrap();
    let refused = |filter: &Filter| index.plan_filter(filter).unwrap_err().to_string();
    assert!(refused(&any("topic", &["a"])).contains("only columns of tags"));
    assert!(refused(&any("tags", &["a"])).contains("no column \"tags\""));
    assert!(refused(&all("labels", &[""])).contains("a tag is empty"));
}

/// The words of large sets say "perhaps" for nearly every tag. Walks that keep all such rows until
/// their end find too few, so walks also read tags on their way.
#[test]
fn rows_with_many_tags_are_found() {
    let mut rows = rows(1500, 13);
    let mut noise = Noise(5);
    for row in rows.values_mut() {
        let tags = (0..60).map(|_| format!("tag {}", (noise.unit() * TAGS as f32) as usize)).collect();
        row.values = [Value::Tags(tags), Value::Int(1), Value::Tags(vec!["one".into()])];
    }
    let pages = built(KINDS[0], &rows);
    Index::open(&pages).unwrap().check(&mut no_progress()).unwrap();
    let found = compare_with_oracle(&pages, &rows);
    assert!(found > 0.97, "{found}");
}
