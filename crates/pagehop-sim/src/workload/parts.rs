//! The parts of a transaction, which are applied to the index and to the rows of the model.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use pagehop_engine::{Change, InEdges, Index, Value};
use pagehop_store::{IndexFile, Transaction};

use super::columns::{self, Given};
use super::data::{Row, Rows};
use super::ids as row_ids;
use super::outcome::Trouble;
use super::plan::{Operation, id};
use super::verify::ensure;
use super::world::World;
use crate::Rng;

/// One part of a transaction.
pub(super) enum Part {
    /// Adds rows, with values of some columns and payloads.
    Add(Vec<u64>, Vec<Row>, Given),
    /// Changes the values of rows in some columns, and payloads.
    Update(Vec<u64>, Vec<Row>, Given),
    Delete(Vec<u64>),
    Vacuum(u64),
}

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Commit,
    /// Drop it without a commit.
    Drop,
    /// Interrupt it from its progress callback.
    Interrupt,
}

/// The parts of a transaction for `operation`.
pub(super) fn of(world: &mut World, operation: Operation) -> Vec<Part> {
    let rows = Arc::clone(&world.model.newest().rows);
    match operation {
        Operation::Add => vec![addition(world, &rows)],
        Operation::Delete => vec![deletion(world, &rows)],
        Operation::Update => vec![values_update(world, &rows)],
        Operation::Vacuum => vec![Part::Vacuum(u64::MAX)],
        Operation::Clear => vec![Part::Delete(rows.keys().copied().collect())],
        _ => (0..1 + world.rng.below(3))
            .map(|_| match world.rng.below(5) {
                0 if (world.plan.columns > 0 || world.plan.payloads) && world.values_rng.one_in(2) => {
                    values_update(world, &rows)
                }
                0 | 1 => addition(world, &rows),
                2 | 3 => deletion(world, &rows),
                _ => Part::Vacuum(1 + world.rng.below(20) as u64),
            })
            .collect(),
    }
}

fn addition(world: &mut World, rows: &Rows) -> Part {
    let given = some_given(world);
    let World { plan, rng, values_rng, .. } = world;
    let (mut ids, mut new) = (Vec::new(), Vec::new());
    for _ in 0..1 + rng.below(plan.batch) {
        let known = any_key(rows, rng).filter(|_| rng.one_in(4));
        let id = match known {
            Some(id) => id,
            None if !ids.is_empty() && rng.one_in(16) => ids[rng.below(ids.len())],
            None => id(plan, rng),
        };
        let same = rows.get(&id).filter(|_| rng.one_in(3)).cloned();
        ids.push(id);
        let drawn = columns::values(plan.columns, values_rng);
        let of_row = match &same {
            Some(row) if values_rng.one_in(2) => row.values.clone(),
            _ => drawn,
        };
        // The row has no value in a column that is not given.
        let value = |at| if given.columns.contains(&at) { of_row[at].clone() } else { Value::Null };
        let values: Arc<[Value]> = (0..plan.columns).map(value).collect();
        let payload = match &same {
            Some(row) if given.payloads && values_rng.one_in(2) => row.payload.clone(),
            _ if given.payloads => columns::payload(values_rng),
            _ => None,
        };
        let vector = same.map_or_else(|| plan.cloud.vector(rng), |row| row.vector);
        new.push(Row { vector, values, payload });
    }
    Part::Add(ids, new, given)
}

/// New values of some columns, or payloads, for some rows. An id may repeat.
fn values_update(world: &mut World, rows: &Rows) -> Part {
    let mut given = some_given(world);
    let World { plan, values_rng: rng, .. } = world;
    if given.columns.is_empty() && plan.columns > 0 {
        given.columns.push(rng.below(plan.columns));
    }
    given.payloads |= plan.columns == 0;
    let count = 1 + rng.below(plan.batch);
    let ids: Vec<u64> = (0..count).filter_map(|_| any_key(rows, rng)).collect();
    let vector: Arc<[f32]> = Arc::new([]);
    let new = ids.iter().map(|_| {
        let values = columns::values(plan.columns, rng);
        Row { vector: vector.clone(), values, payload: plan.payload(rng) }
    });
    let new = new.collect();
    Part::Update(ids, new, given)
}

/// Some columns in any order, mostly all, and mostly payloads.
fn some_given(world: &mut World) -> Given {
    let World { plan, values_rng: rng, .. } = world;
    let mut places: Vec<usize> = (0..plan.columns).collect();
    if rng.one_in(3) {
        places.retain(|_| rng.one_in(2));
    }
    (1..places.len()).for_each(|end| places.swap(end, rng.below(end + 1)));
    Given { columns: places, payloads: plan.payloads && !rng.one_in(4) }
}

fn deletion(world: &mut World, rows: &Rows) -> Part {
    let World { plan, rng, .. } = world;
    let count = 1 + rng.below(plan.batch);
    let ids = (0..count).map(|_| match any_key(rows, rng).filter(|_| !rng.one_in(5)) {
        Some(id) => id,
        None => id(plan, rng),
    });
    Part::Delete(ids.collect())
}

fn any_key(rows: &Rows, rng: &mut Rng) -> Option<u64> {
    let at = if rows.is_empty() { return None } else { rng.below(rows.len()) };
    rows.keys().nth(at).copied()
}

impl Part {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Add(ids, _, given) => format!("add {} with {given:?}", ids.len()),
            Self::Update(ids, _, given) => format!("update {given:?} of {}", ids.len()),
            Self::Delete(ids) => format!("delete {}", ids.len()),
            Self::Vacuum(most) => format!("vacuum {most}"),
        }
    }
}

/// Applies `parts` to the transaction and to `rows`, and compares the reports with what is
/// expected.
pub(super) fn work(
    index: &Index<IndexFile>,
    transaction: &mut Transaction<'_>,
    parts: &[Part],
    rows: &mut Rows,
    ending: Ending,
    has_readers: bool,
    number: u64,
) -> Result<(), Trouble> {
    let texts = row_ids::are_texts(index)?;
    // Half of the vacuums know the edges that lead to dead rows, as of the last commit.
    let is_vacuum = parts.iter().any(|part| matches!(part, Part::Vacuum(_)));
    let in_edges = match is_vacuum && number.is_multiple_of(2) {
        true => index.in_edges_of_dead(1 << 20, &mut |_| ControlFlow::Continue(()))?,
        false => InEdges::default(),
    };
    let mut change = index.change(transaction)?;
    change.use_in_edges(&in_edges);
    let mut calls = 0;
    let mut progress = |_| {
        calls += 1;
        if ending == Ending::Interrupt && calls > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    for part in parts {
        match part {
            Part::Add(ids, new, given) => {
                let components: Vec<f32> = new.iter().flat_map(|row| row.vector.iter().copied()).collect();
                let values = given.of(new.iter())?;
                let given = (&*components, values.as_ref());
                let report = row_ids::add(&mut change, texts, ids, given, &mut progress)?;
                let distinct: BTreeSet<u64> = ids.iter().copied().collect();
                let fresh = distinct.iter().filter(|id| !rows.contains_key(id)).count() as u64;
                let sum = (report.added + report.replaced + report.unchanged) as usize;
                let is_right = report.added == fresh && (sum == ids.len() || sum == distinct.len());
                ensure(is_right, || format!("{report:?} of {} rows, {fresh} of them new", ids.len()))?;
                rows.extend(ids.iter().copied().zip(new.iter().cloned()));
            }
            Part::Update(ids, new, given) => update(&mut change, texts, (ids, new, given), rows)?,
            Part::Delete(ids) => delete(&mut change, texts, ids, rows)?,
            Part::Vacuum(most) => {
                let report = change.vacuum(*most, &mut progress)?;
                let alone = parts.len() == 1 && !has_readers;
                ensure(!alone || report.waiting == 0, || format!("no reader is open, but {report:?}"))?;
            }
        }
    }
    change.set_mark([number, !number]);
    change.finish()?;
    Ok(())
}

/// Applies an update. Rows that an earlier part of the transaction deleted are left out, because
/// the index would refuse them.
fn update(
    change: &mut Change<'_, Transaction<'_>>,
    texts: bool,
    (ids, new, given): (&[u64], &[Row], &Given),
    rows: &mut Rows,
) -> Result<(), Trouble> {
    let there: Vec<(u64, &Row)> = ids.iter().copied().zip(new).filter(|(id, _)| rows.contains_key(id)).collect();
    let ids: Vec<u64> = there.iter().map(|row| row.0).collect();
    let values = given.of(there.iter().map(|row| row.1))?.unwrap_or_default();
    let found = row_ids::update(change, texts, &ids, &values)?;
    let mut changed = 0;
    for (id, new) in there {
        let row = rows.get_mut(&id).expect("it is there");
        let mut values = row.values.to_vec();
        given.columns.iter().for_each(|at| values[*at] = new.values[*at].clone());
        let payload = if given.payloads { new.payload.clone() } else { row.payload.clone() };
        changed += u64::from(values[..] != row.values[..] || payload != row.payload);
        (row.values, row.payload) = (values.into(), payload);
    }
    ensure(found == changed, || format!("{found} rows of {ids:?} changed, expected {changed}"))
}

fn delete(
    change: &mut Change<'_, Transaction<'_>>,
    texts: bool,
    ids: &[u64],
    rows: &mut Rows,
) -> Result<(), Trouble> {
    let report = row_ids::delete(change, texts, ids)?;
    let unknown: Vec<u64> = ids.iter().filter(|id| rows.remove(id).is_none()).copied().collect();
    let deleted = (ids.len() - unknown.len()) as u64;
    ensure(report.deleted == deleted && report.unknown == unknown, || {
        format!("{report:?}, expected {deleted} deleted and {} unknown", unknown.len())
    })
}
