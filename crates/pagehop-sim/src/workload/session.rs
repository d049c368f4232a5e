//! The operations of a process while the index is open.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use pagehop_engine::{Error, Index};
use pagehop_store::IndexFile;

use super::calls;
use super::columns::{self, COLUMNS_MAX, Given};
use super::data::Row;
use super::ids as row_ids;
use super::model::Version;
use super::outcome::{Checked, Trouble};
use super::parts::{self, Ending, Part, work};
use super::plan::Operation;
use super::verify::{self, OpenCursor};
use super::world::World;

/// How a session ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// Close the index.
    Close,
    /// End the process without closing the index.
    Exit,
    /// Kill the process, perhaps with a loss of power.
    Lost,
}

const CURSORS_MAX: usize = 4;

/// Runs operations until one of them ends the session. Returns the pages of the index, or `None` if
/// it could not be opened.
pub(super) fn run(world: &mut World, pages: IndexFile, most: u64) -> Checked<(End, Option<IndexFile>)> {
    let failed = world.disk.failed();
    let index = match Index::open(pages) {
        Ok(index) => index,
        Err(error) => {
            world.excuse(&Trouble::Error(error), failed)?;
            return Ok((End::Lost, None));
        }
    };
    let end = operations(world, &index, most)?;
    Ok((end, Some(index.into_pages())))
}

fn operations(world: &mut World, index: &Index<IndexFile>, most: u64) -> Checked<End> {
    let mut cursors = VecDeque::new();
    world.searched = None;
    while world.outcome.operations < most {
        let operation = world.plan.operation(&mut world.rng);
        world.outcome.operations += 1;
        world.note(|| format!("{operation:?}"));
        let end = match operation {
            Operation::Close => Some(End::Close),
            Operation::Exit => Some(End::Exit),
            Operation::Kill | Operation::Crash => Some(End::Lost),
            _ => None,
        };
        if let Some(end) = end {
            drain_all(world, &mut cursors)?;
            return Ok(end);
        }
        let failed = world.disk.failed();
        if let Err(trouble) = operate(world, operation, index, &mut cursors) {
            world.excuse(&trouble, failed)?;
            if let Some(end) = after_failure(world, index)? {
                return Ok(end);
            }
        }
        if world.disk.is_stopped() {
            return Ok(End::Lost);
        }
    }
    drain_all(world, &mut cursors)?;
    Ok(End::Close)
}

/// Checks that a failed operation did not change the index, and chooses how to continue.
fn after_failure(world: &mut World, index: &Index<IndexFile>) -> Checked<Option<End>> {
    if world.disk.is_stopped() {
        return Ok(Some(End::Lost));
    }
    if world.rng.one_in(2) {
        world.note(|| "  heal".into());
        world.heal();
    }
    let failed = world.disk.failed();
    let (queries, version) = (world.queries(), world.model.newest().clone());
    let seen = verify::everything(index, world.plan.metric, &queries, &version, &mut world.outcome);
    if let Err(trouble) = seen {
        world.excuse(&trouble, failed)?;
    }
    Ok(match world.rng.below(6) {
        0 => Some(End::Close),
        1 => Some(End::Exit),
        2 => Some(End::Lost),
        _ => None,
    })
}

fn operate<'i>(
    world: &mut World,
    operation: Operation,
    index: &'i Index<IndexFile>,
    cursors: &mut VecDeque<OpenCursor<'i, IndexFile>>,
) -> Result<(), Trouble> {
    let has_readers = !cursors.is_empty();
    for cursor in cursors.iter_mut() {
        let few = world.rng.below(4);
        if world.rng.one_in(3) {
            cursor.advance(few)?;
        }
    }
    match operation {
        Operation::Change
        | Operation::Add
        | Operation::Delete
        | Operation::Update
        | Operation::Vacuum
        | Operation::Clear => {
            let parts = parts::of(world, operation);
            transact(world, index, parts, Ending::Commit, has_readers)
        }
        Operation::Call => calls::call(world, index),
        Operation::Abandon => {
            let parts = parts::of(world, Operation::Change);
            let ending = if world.rng.one_in(2) { Ending::Drop } else { Ending::Interrupt };
            transact(world, index, parts, ending, has_readers)?;
            refuse(world, index)
        }
        Operation::Checkpoint => {
            index.pages().checkpoint()?;
            world.model.made_durable();
            Ok(())
        }
        Operation::Search => {
            let (queries, version) = (world.queries(), world.model.newest().clone());
            let (result, ids) =
                verify::search(index, world.plan.metric, &queries.query, &version, &mut world.outcome)?;
            verify::rows_of(index, (&result, &ids), &version, true)?;
            // The search before this one may be of an older version, whose rows may be gone.
            let older = world.searched.replace((result, ids, version.clone()));
            older.map_or(Ok(()), |(result, ids, version)| {
                verify::rows_of(index, (&result, &ids), &version, false)
            })?;
            let mut each = queries.filters.iter();
            each.try_for_each(|filter| verify::filtered(index, world.plan.metric, &queries.query, filter, &version))
        }
        Operation::OpenCursor => {
            let (query, version) = (world.query(), world.model.newest());
            cursors.push_back(OpenCursor::open(index, world.plan.metric, query, version)?);
            if cursors.len() > CURSORS_MAX { drain(cursors) } else { Ok(()) }
        }
        Operation::DrainCursor => drain(cursors),
        Operation::Check => {
            let (queries, version) = (world.queries(), world.model.newest().clone());
            verify::everything(index, world.plan.metric, &queries, &version, &mut world.outcome)
        }
        Operation::Heal => {
            world.heal();
            Ok(())
        }
        _ => {
            endanger(world, operation);
            Ok(())
        }
    }
}

fn drain(cursors: &mut VecDeque<OpenCursor<'_, IndexFile>>) -> Result<(), Trouble> {
    if let Some(cursor) = cursors.pop_front() {
        cursor.drain()?;
    }
    Ok(())
}

fn drain_all(world: &mut World, cursors: &mut VecDeque<OpenCursor<'_, IndexFile>>) -> Checked<()> {
    let failed = world.disk.failed();
    while !cursors.is_empty() && !world.disk.is_stopped() {
        if let Err(trouble) = drain(cursors) {
            world.excuse(&trouble, failed)?;
        }
    }
    cursors.clear();
    Ok(())
}

/// Makes calls that the index must refuse.
fn refuse(world: &mut World, index: &Index<IndexFile>) -> Result<(), Trouble> {
    let dim = world.plan.dim;
    let bad: [Vec<f32>; 2] = [vec![1.0; dim + 1], vec![f32::NAN; dim]];
    for vector in bad {
        let mut transaction = index.pages().begin()?;
        let mut change = index.change(&mut transaction)?;
        match row_ids::add(&mut change, world.plan.texts, &[5], (&vector, None), &mut |_| ControlFlow::Continue(()))
        {
            Err(Error::Argument { .. } | Error::Dimension { .. }) => {}
            Err(error) => return Err(error.into()),
            Ok(report) => return Err(Trouble::Violation(format!("{vector:?} was accepted: {report:?}"))),
        }
    }
    refuse_values(world, index)
}

/// Changes the values of a column that the index does not have, and of a row that it does not have.
fn refuse_values(world: &mut World, index: &Index<IndexFile>) -> Result<(), Trouble> {
    let known: Vec<u64> = world.model.newest().rows.keys().copied().take(1).collect();
    let absent = (1..).find(|id| !world.model.newest().rows.contains_key(id)).expect("ids are left");
    let has_columns = world.plan.columns > 0;
    for (at, ids) in [(world.plan.columns, known.clone()), (0, vec![absent]), (0, [known, vec![absent]].concat())] {
        let is_wrong = at == world.plan.columns || has_columns;
        if at == COLUMNS_MAX || !is_wrong || ids.is_empty() {
            continue;
        }
        let row = Row {
            vector: Arc::new([]),
            values: columns::values(COLUMNS_MAX, &mut world.values_rng),
            payload: None,
        };
        let given = Given { columns: vec![at], payloads: false };
        let values = given.of(ids.iter().map(|_| &row))?.unwrap_or_default();
        let mut transaction = index.pages().begin()?;
        let mut change = index.change(&mut transaction)?;
        match row_ids::update(&mut change, world.plan.texts, &ids, &values) {
            Err(Error::Argument { .. }) => {}
            Err(error) => return Err(error.into()),
            Ok(changed) => {
                let what = format!("values of column {at} of rows {ids:?} were accepted: {changed} changed");
                return Err(Trouble::Violation(what));
            }
        }
    }
    Ok(())
}

/// Runs one transaction and records its result in the model.
fn transact(
    world: &mut World,
    index: &Index<IndexFile>,
    parts: Vec<Part>,
    ending: Ending,
    has_readers: bool,
) -> Result<(), Trouble> {
    let number = world.next_number;
    world.next_number += 1;
    let mut rows = (*world.model.newest().rows).clone();
    let mut transaction = index.pages().begin()?;
    world.model.forget_doubts();
    let worked = work(index, &mut transaction, &parts, &mut rows, ending, has_readers, number);
    let lines: Vec<String> = parts.iter().map(Part::describe).collect();
    world.note(|| format!("  version {number}: {}", lines.join(", ")));
    match worked {
        Err(Trouble::Error(Error::Interrupted)) if ending == Ending::Interrupt => return Ok(()),
        worked => worked?,
    }
    if ending != Ending::Commit {
        return Ok(());
    }
    let version = Version { number, rows: Arc::new(rows) };
    match transaction.commit() {
        Ok(()) => {
            world.model.committed(version);
            world.outcome.commits += 1;
            Ok(())
        }
        Err(error) => {
            world.model.doubt(version);
            Err(error.into())
        }
    }
}

fn endanger(world: &mut World, operation: Operation) {
    match operation {
        Operation::Stop => {
            let within = [8, 60, 400][world.rng.below(3)];
            world.arm_stop(within);
        }
        Operation::Fill => {
            let more = world.rng.below(64 << 10) as u64;
            world.note(|| format!("  {more} bytes are free"));
            world.disk.set_budget(Some(world.disk.used() + more));
        }
        _ => {
            let within = [4, 40, 200][world.rng.below(3)];
            world.arm_fault(within);
        }
    }
}
