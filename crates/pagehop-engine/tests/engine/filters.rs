//! Searches with filters, compared with a naive oracle. The structure is valid after every change.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::support::{ColumnSource, Noise, distance, embeddings, no_progress, options};
use pagehop_engine::{
    BODY_BYTES, Column, ColumnKind, ColumnRows, Comparison, CreateOptions, Error, Filter, Index, Metric, PageId,
    Pages, SearchOptions, SearchPlan, Value, build, create,
};
use pagehop_sim::{MemPages, MemWriter};

const DIM: usize = 48;

/// A row: its vector and its values of `topic`, `price` and `name`.
type Row = (Vec<f32>, [Value; 3]);

fn columns() -> Vec<Column> {
    let column = |name: &str, kind| Column { name: name.into(), kind };
    vec![column("topic", ColumnKind::Int), column("price", ColumnKind::Float), column("name", ColumnKind::Text)]
}

fn values(noise: &mut Noise) -> [Value; 3] {
    let topic = (noise.unit() * noise.unit() * 50.0) as i64;
    let name = format!("name {}", (noise.unit() * 200.0) as u32);
    let price = f64::from((noise.unit() * 1000.0).floor()) / 4.0;
    let mut maybe = |value: Value| if noise.unit() < 0.05 { Value::Null } else { value };
    [maybe(Value::Int(topic)), maybe(Value::Float(price)), maybe(Value::Text(name))]
}

fn rows(count: usize, seed: u64) -> BTreeMap<u64, Row> {
    let mut noise = Noise(seed);
    let mut vectors = embeddings(DIM, count, seed);
    // Some rows have equal vectors but different values.
    let same = vectors[..DIM].to_vec();
    (0..20).for_each(|i| vectors[(i * 13 + 2) * DIM..][..DIM].copy_from_slice(&same));
    let ids = (0..count as u64).map(|i| i * 7 + 11);
    ids.zip(vectors.chunks(DIM)).map(|(id, vector)| (id, (vector.to_vec(), values(&mut noise)))).collect()
}

fn packed<'a>(rows: impl Iterator<Item = &'a [Value; 3]>) -> ColumnRows {
    let mut packed = ColumnRows::new(columns()).unwrap();
    rows.for_each(|values| packed.push(values).unwrap());
    packed
}

fn built(rows: &BTreeMap<u64, Row>) -> MemPages {
    let mut source = ColumnSource {
        dim: DIM,
        ids: rows.keys().copied().collect(),
        vectors: rows.values().flat_map(|row| row.0.iter().copied()).collect(),
        columns: packed(rows.values().map(|row| &row.1)),
    };
    let mut pages = MemPages::new();
    build(&mut source, &options(Metric::L2), &mut pages, &mut |_| ControlFlow::Continue(())).unwrap();
    pages
}

/// Runs one transaction, and checks the structure afterwards.
fn change<T>(
    pages: &mut MemPages,
    work: impl FnOnce(&mut pagehop_engine::Change<'_, MemWriter<'_>>) -> Result<T, Error>,
) -> T {
    let known = Index::open(pages.clone()).unwrap();
    let mut writer = pages.writer();
    let mut change = known.change(&mut writer).unwrap();
    let result = work(&mut change).unwrap();
    change.finish().unwrap();
    writer.commit();
    Index::open(&*pages).unwrap().check(&mut no_progress()).unwrap();
    result
}

fn add(pages: &mut MemPages, rows: &BTreeMap<u64, Row>) {
    let ids: Vec<u64> = rows.keys().copied().collect();
    let vectors: Vec<f32> = rows.values().flat_map(|row| row.0.iter().copied()).collect();
    let columns = packed(rows.values().map(|row| &row.1));
    change(pages, |change| change.add(&ids, &vectors, Some(&columns), &mut no_progress()));
}

fn compare(name: &str, comparison: Comparison, value: Value) -> Filter {
    Filter::Compare(name.into(), comparison, value)
}

/// Whether a row passes a filter. Only the filters of these tests are supported.
fn passes(filter: &Filter, id: u64, row: &[Value; 3]) -> Option<bool> {
    let value = |name: &str| &row[columns().iter().position(|column| column.name == name).unwrap()];
    let order = |a: &Value, b: &Value| match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.partial_cmp(b),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Text(a), Value::Text(b)) => a.partial_cmp(b),
        _ => None,
    };
    match filter {
        Filter::Compare(name, comparison, with) => order(value(name), with).map(|order| match comparison {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }),
        Filter::In(name, values) => {
            (*value(name) != Value::Null).then(|| values.iter().any(|with| with == value(name)))
        }
        Filter::IsNull(name) => Some(*value(name) == Value::Null),
        Filter::Ids(ids) => Some(ids.contains(&id)),
        Filter::TextIds(_) => unreachable!("the index has no text ids"),
        Filter::ContainsAny(..) | Filter::ContainsAll(..) => unreachable!("the index has no tags: tags.rs"),
        Filter::Not(part) => passes(part, id, row).map(|truth| !truth),
        Filter::And(parts) => Some(parts.iter().all(|part| passes(part, id, row) == Some(true))),
        Filter::Or(parts) => Some(parts.iter().any(|part| passes(part, id, row) == Some(true))),
    }
}

fn filters() -> Vec<Filter> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, NotEqual};
    let topic = |comparison, number| compare("topic", comparison, Value::Int(number));
    let price = |comparison, number| compare("price", comparison, Value::Float(number));
    let name = |comparison, text: &str| compare("name", comparison, Value::Text(text.into()));
    vec![
        topic(Equal, 3),
        topic(Equal, 49),
        topic(Equal, 1000),
        topic(GreaterOrEqual, 2),
        topic(NotEqual, 0),
        price(Less, 3.0),
        price(Less, 1e9),
        name(Equal, "name 17"),
        name(NotEqual, "name 17"),
        Filter::In("topic".into(), vec![Value::Int(40), Value::Int(2), Value::Int(7)]),
        Filter::IsNull("topic".into()),
        Filter::Not(Box::new(Filter::IsNull("price".into()))),
        Filter::Not(Box::new(topic(Less, 5))),
        Filter::And(vec![topic(Equal, 1), price(Greater, 100.0), price(Less, 150.0)]),
        Filter::Or(vec![topic(Equal, 30), name(Equal, "name 3"), price(Less, 1.0)]),
        Filter::Or(vec![topic(Equal, 1), topic(Equal, 1), price(Greater, 1.0)]),
        Filter::And(vec![Filter::Not(Box::new(topic(Equal, 1))), name(Equal, "name 5")]),
        Filter::Ids(vec![11, 18, 25, 700_000, 11]),
        Filter::And(vec![Filter::Ids((0..400).map(|i| i * 7 + 11).collect()), topic(Less, 4)]),
        Filter::Not(Box::new(Filter::Ids(vec![11, 18]))),
        Filter::And(Vec::new()),
        Filter::Or(Vec::new()),
    ]
}

/// Exact searches find what a look at all rows finds, and searches with default options nearly so.
/// Returns the share that those found, and how many answers they shortened.
fn compare_with_oracle(pages: &MemPages, rows: &BTreeMap<u64, Row>, k: usize) -> f64 {
    let index = Index::open(pages).unwrap();
    let mut searcher = index.searcher();
    let (mut found, mut wanted) = (0, 0);
    for filter in filters() {
        let plan = searcher.plan_filter(&filter).unwrap();
        let passing: Vec<(&u64, &Row)> =
            rows.iter().filter(|(id, row)| passes(&filter, **id, &row.1) == Some(true)).collect();
        let share = passing.len() as f64 / rows.len().max(1) as f64;
        let simple = !rows.is_empty() && !matches!(filter, Filter::And(_) | Filter::Or(_));
        assert!(!simple || (plan.share() - share).abs() < 0.1, "{filter:?}: {} for {share}", plan.share());
        for query in embeddings(DIM, 5, 99).chunks(DIM) {
            let mut near: Vec<(f64, u64)> =
                passing.iter().map(|(id, row)| (distance(Metric::L2, query, &row.0), **id)).collect();
            near.sort_by(|a, b| a.partial_cmp(b).unwrap());
            near.truncate(k);
            let truth: Vec<u64> = near.iter().map(|row| row.1).collect();
            let ids =
                |result: pagehop_engine::SearchResult| result.hits.iter().map(|hit| hit.row_id).collect::<Vec<_>>();
            let exact = ids(searcher.answer(query, k, &SearchPlan::exact(), Some(&plan)).unwrap());
            let common = exact.iter().filter(|id| truth.contains(id)).count();
            // Codes of 12 bits per dimension may exchange rows at nearly equal distances.
            assert!(
                exact.len() == truth.len() && common + 1 + k / 50 >= truth.len(),
                "{filter:?}: {exact:?} {truth:?}"
            );
            let options = SearchOptions::default();
            let some = ids(searcher.answer(query, k, &options.clone().into(), Some(&plan)).unwrap());
            assert_eq!(some.len(), truth.len(), "{filter:?}");
            found += some.iter().filter(|id| truth.contains(id)).count();
            wanted += truth.len();
        }
    }
    found as f64 / f64::from(wanted.max(1) as u32)
}

#[test]
fn filtered_searches_find_the_nearest_rows_that_pass() {
    let rows = rows(4000, 7);
    let pages = built(&rows);
    let report = Index::open(&pages).unwrap().check(&mut no_progress()).unwrap();
    assert_eq!(report.nodes, 4000);
    for k in [1, 10, 100] {
        let found = compare_with_oracle(&pages, &rows, k);
        // A list of 100 has no room to spare for 100 rows.
        assert!(found > if k < 100 { 0.97 } else { 0.95 }, "k = {k}: {found}");
    }
}

#[test]
fn rows_keep_their_values_through_every_change() {
    let mut noise = Noise(21);
    let mut rows = rows(1500, 8);
    let mut pages = MemPages::new();
    create(DIM, &CreateOptions { columns: columns(), ..CreateOptions::default() }, &mut pages).unwrap();
    Index::open(&pages).unwrap().check(&mut no_progress()).unwrap();
    compare_with_oracle(&pages, &BTreeMap::new(), 10);
    for part in 0..6 {
        let part = rows.iter().skip(part * 250).take(250).map(|(id, row)| (*id, row.clone())).collect();
        add(&mut pages, &part);
    }
    compare_with_oracle(&pages, &rows, 10);
    // Other vectors, other values, or both.
    let mut changed = BTreeMap::new();
    for (at, (id, row)) in rows.iter_mut().enumerate().filter(|(at, _)| at % 3 == 0) {
        if at % 2 == 0 {
            row.0.iter_mut().for_each(|x| *x += 0.1 * noise.gauss());
        }
        if at % 9 < 6 {
            row.1 = values(&mut noise);
        }
        changed.insert(*id, row.clone());
    }
    add(&mut pages, &changed);
    compare_with_oracle(&pages, &rows, 10);
    // Values of only some columns of some rows.
    let ids: Vec<u64> = rows.keys().copied().step_by(4).collect();
    let mut prices = ColumnRows::new(vec![columns()[1].clone()]).unwrap();
    for id in &ids {
        let price = values(&mut noise)[1].clone();
        prices.push(std::slice::from_ref(&price)).unwrap();
        rows.get_mut(id).unwrap().1[1] = price;
    }
    change(&mut pages, |change| change.update_columns(&ids, &prices));
    assert_eq!(change(&mut pages, |change| change.update_columns(&ids, &prices)), 0);
    compare_with_oracle(&pages, &rows, 10);
    let gone: Vec<u64> = rows.keys().copied().skip(1).step_by(2).collect();
    change(&mut pages, |change| change.delete(&gone));
    gone.iter().for_each(|id| _ = rows.remove(id));
    compare_with_oracle(&pages, &rows, 10);
    while change(&mut pages, |change| change.vacuum(100, &mut no_progress())).steps() > 0 {}
    compare_with_oracle(&pages, &rows, 10);
    change(&mut pages, |change| change.train(&mut no_progress()));
    let found = compare_with_oracle(&pages, &rows, 10);
    assert!(found > 0.97, "{found}");
}

/// The lowest bit of every third byte of a page of nodes is flipped in turn.
#[test]
fn a_check_compares_the_signatures_of_edges() {
    let pages = built(&rows(300, 3));
    let nodes = (1..pages.page_count()).map(PageId).find(|page| pages.body(*page)[0] == 2).unwrap();
    let (mut of_signatures, mut others) = (0, 0);
    for at in (0..BODY_BYTES).step_by(3) {
        let mut damaged = pages.clone();
        damaged.body_mut(nodes)[at] ^= 1;
        match Index::open(&damaged).unwrap().check(&mut no_progress()) {
            Err(error) if error.to_string().contains("signature") => of_signatures += 1,
            Err(_) => others += 1,
            Ok(_) => {}
        }
    }
    assert!(of_signatures > 100 && others > 200, "{of_signatures} of signatures, {others} others");
}

#[test]
fn what_does_not_fit_the_columns_is_refused() {
    let rows = rows(300, 9);
    let mut pages = built(&rows);
    let refused = |pages: &mut MemPages, columns: &ColumnRows, ids: &[u64]| {
        let known = Index::open(pages.clone()).unwrap();
        let mut writer = pages.writer();
        let mut change = known.change(&mut writer).unwrap();
        let vectors = vec![0.5; ids.len() * DIM];
        let add = change.add(ids, &vectors, Some(columns), &mut no_progress()).unwrap_err().to_string();
        let update = change.update_columns(ids, columns).unwrap_err().to_string();
        (add, update)
    };
    let other = Column { name: "weight".into(), kind: ColumnKind::Float };
    let mut columns = ColumnRows::new(vec![other]).unwrap();
    columns.push(&[Value::Float(1.0)]).unwrap();
    let (add, update) = refused(&mut pages, &columns, &[11]);
    assert!(add.contains("weight") && add.contains("topic") && update.contains("weight"), "{add}; {update}");
    let kind = Column { name: "price".into(), kind: ColumnKind::Int };
    let mut columns = ColumnRows::new(vec![kind]).unwrap();
    columns.push(&[Value::Int(1)]).unwrap();
    let (add, update) = refused(&mut pages, &columns, &[11]);
    assert!(add.contains("float") && update.contains("float"), "{add}; {update}");
    let mut columns = ColumnRows::new(vec![columns_of("price")]).unwrap();
    columns.push(&[Value::Float(1.0)]).unwrap();
    let (add, update) = refused(&mut pages, &columns, &[11, 18]);
    assert!(add.contains("2 ids") && update.contains("2 ids"), "{add}; {update}");
    let unknown = {
        let known = Index::open(pages.clone()).unwrap();
        let mut writer = pages.writer();
        known.change(&mut writer).unwrap().update_columns(&[12], &columns).unwrap_err().to_string()
    };
    assert!(unknown.contains("12"), "{unknown}");
}

fn columns_of(name: &str) -> Column {
    columns().into_iter().find(|column| column.name == name).unwrap()
}
