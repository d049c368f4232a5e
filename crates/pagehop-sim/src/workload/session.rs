//! The operations between opening the index and its end.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use pagehop_engine::{Error, Index};
use pagehop_store::IndexFile;

use super::columns::{self, COLUMNS_MAX, Given};
use super::data::Row;
use super::ids as row_ids;
use super::model::Version;
use super::outcome::{Checked, Trouble};
use super::parts::{Ending, Part, work};
use super::plan::Operation;
use super::verify::{self, OpenCursor};
use super::world::World;
use crate::{Call, Fault, Refusal};

/// How a session ended.
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

impl World {
    /// Runs operations until one of them ends the session. Returns the index as it is then, if it
    /// could be opened at all.
    pub(super) fn session(&mut self, pages: IndexFile, most: u64) -> Checked<(End, Option<IndexFile>)> {
        let failed = self.disk.failed();
        let index = match Index::open(pages) {
            Ok(index) => index,
            Err(error) => {
                self.excuse(&Trouble::Error(error), failed)?;
                return Ok((End::Lost, None));
            }
        };
        let end = self.operations(&index, most)?;
        Ok((end, Some(index.into_pages())))
    }

    fn operations(&mut self, index: &Index<IndexFile>, most: u64) -> Checked<End> {
        let mut cursors = VecDeque::new();
        self.searched = None;
        while self.outcome.operations < most {
            let operation = self.plan.operation(&mut self.rng);
            self.outcome.operations += 1;
            self.note(|| format!("{operation:?}"));
            let end = match operation {
                Operation::Close => Some(End::Close),
                Operation::Exit => Some(End::Exit),
                Operation::Kill | Operation::Crash => Some(End::Lost),
                _ => None,
            };
            if let Some(end) = end {
                self.drain_all(&mut cursors)?;
                return Ok(end);
            }
            let failed = self.disk.failed();
            if let Err(trouble) = self.operate(operation, index, &mut cursors) {
                self.excuse(&trouble, failed)?;
                if let Some(end) = self.after_failure(index)? {
                    return Ok(end);
                }
            }
            if self.disk.is_stopped() {
                return Ok(End::Lost);
            }
        }
        self.drain_all(&mut cursors)?;
        Ok(End::Close)
    }

    /// Checks that the index is unchanged by a failed operation, and chooses how to go on.
    fn after_failure(&mut self, index: &Index<IndexFile>) -> Checked<Option<End>> {
        if self.disk.is_stopped() {
            return Ok(Some(End::Lost));
        }
        if self.rng.one_in(2) {
            self.note(|| "  heal".into());
            self.heal();
        }
        let failed = self.disk.failed();
        let (queries, version) = (self.queries(), self.model.newest().clone());
        let seen = verify::everything(index, self.plan.metric, &queries, &version, &mut self.outcome);
        if let Err(trouble) = seen {
            self.excuse(&trouble, failed)?;
        }
        Ok(match self.rng.below(6) {
            0 => Some(End::Close),
            1 => Some(End::Exit),
            2 => Some(End::Lost),
            _ => None,
        })
    }

    fn operate<'i>(
        &mut self,
        operation: Operation,
        index: &'i Index<IndexFile>,
        cursors: &mut VecDeque<OpenCursor<'i, IndexFile>>,
    ) -> Result<(), Trouble> {
        let has_readers = !cursors.is_empty();
        for cursor in cursors.iter_mut() {
            let few = self.rng.below(4);
            if self.rng.one_in(3) {
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
                let parts = self.parts(operation);
                self.transact(index, parts, Ending::Commit, has_readers)
            }
            Operation::Call => self.call(index),
            Operation::Abandon => {
                let parts = self.parts(Operation::Change);
                let ending = if self.rng.one_in(2) { Ending::Drop } else { Ending::Interrupt };
                self.transact(index, parts, ending, has_readers)?;
                self.refuse(index)
            }
            Operation::Checkpoint => {
                index.pages().checkpoint()?;
                self.model.made_durable();
                Ok(())
            }
            Operation::Search => {
                let (queries, version) = (self.queries(), self.model.newest().clone());
                let (result, ids) =
                    verify::search(index, self.plan.metric, &queries.query, &version, &mut self.outcome)?;
                verify::rows_of(index, (&result, &ids), &version, true)?;
                // One of an older version, whose rows may be gone.
                let older = self.searched.replace((result, ids, version.clone()));
                older.map_or(Ok(()), |(result, ids, version)| {
                    verify::rows_of(index, (&result, &ids), &version, false)
                })?;
                let mut each = queries.filters.iter();
                each.try_for_each(|filter| {
                    verify::filtered(index, self.plan.metric, &queries.query, filter, &version)
                })
            }
            Operation::OpenCursor => {
                let (query, version) = (self.query(), self.model.newest());
                cursors.push_back(OpenCursor::open(index, self.plan.metric, query, version)?);
                if cursors.len() > CURSORS_MAX { self.drain(cursors) } else { Ok(()) }
            }
            Operation::DrainCursor => self.drain(cursors),
            Operation::Check => {
                let (queries, version) = (self.queries(), self.model.newest().clone());
                verify::everything(index, self.plan.metric, &queries, &version, &mut self.outcome)
            }
            Operation::Heal => {
                self.heal();
                Ok(())
            }
            _ => {
                self.endanger(operation);
                Ok(())
            }
        }
    }

    fn drain(&mut self, cursors: &mut VecDeque<OpenCursor<'_, IndexFile>>) -> Result<(), Trouble> {
        if let Some(cursor) = cursors.pop_front() {
            cursor.drain()?;
        }
        Ok(())
    }

    fn drain_all(&mut self, cursors: &mut VecDeque<OpenCursor<'_, IndexFile>>) -> Checked<()> {
        let failed = self.disk.failed();
        while !cursors.is_empty() && !self.disk.is_stopped() {
            if let Err(trouble) = self.drain(cursors) {
                self.excuse(&trouble, failed)?;
            }
        }
        cursors.clear();
        Ok(())
    }

    /// Makes calls that the index must refuse.
    fn refuse(&mut self, index: &Index<IndexFile>) -> Result<(), Trouble> {
        let dim = self.plan.dim;
        let bad: [Vec<f32>; 2] = [vec![1.0; dim + 1], vec![f32::NAN; dim]];
        for vector in bad {
            let mut transaction = index.pages().begin()?;
            let mut change = index.change(&mut transaction)?;
            match row_ids::add(&mut change, self.plan.texts, &[5], (&vector, None), &mut |_| {
                ControlFlow::Continue(())
            }) {
                Err(Error::Argument { .. } | Error::Dimension { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(report) => return Err(Trouble::Violation(format!("{vector:?} was accepted: {report:?}"))),
            }
        }
        self.refuse_values(index)
    }

    /// Gives values to a column that the index does not have, and to a row that it does not have.
    fn refuse_values(&mut self, index: &Index<IndexFile>) -> Result<(), Trouble> {
        let known: Vec<u64> = self.model.newest().rows.keys().copied().take(1).collect();
        let absent = (1..).find(|id| !self.model.newest().rows.contains_key(id)).expect("ids are left");
        let has_columns = self.plan.columns > 0;
        for (at, ids) in
            [(self.plan.columns, known.clone()), (0, vec![absent]), (0, [known, vec![absent]].concat())]
        {
            let is_wrong = at == self.plan.columns || has_columns;
            if at == COLUMNS_MAX || !is_wrong || ids.is_empty() {
                continue;
            }
            let row = Row {
                vector: Arc::new([]),
                values: columns::values(COLUMNS_MAX, &mut self.values_rng),
                payload: None,
            };
            let given = Given { columns: vec![at], payloads: false };
            let values = given.of(ids.iter().map(|_| &row))?.unwrap_or_default();
            let mut transaction = index.pages().begin()?;
            let mut change = index.change(&mut transaction)?;
            match row_ids::update(&mut change, self.plan.texts, &ids, &values) {
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
        &mut self,
        index: &Index<IndexFile>,
        parts: Vec<Part>,
        ending: Ending,
        has_readers: bool,
    ) -> Result<(), Trouble> {
        let number = self.next_number;
        self.next_number += 1;
        let mut rows = (*self.model.newest().rows).clone();
        let mut transaction = index.pages().begin()?;
        self.model.forget_doubts();
        let worked = work(index, &mut transaction, &parts, &mut rows, ending, has_readers, number);
        let lines: Vec<String> = parts.iter().map(Part::describe).collect();
        self.note(|| format!("  version {number}: {}", lines.join(", ")));
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
                self.model.committed(version);
                self.outcome.commits += 1;
                Ok(())
            }
            Err(error) => {
                self.model.doubt(version);
                Err(error.into())
            }
        }
    }

    fn endanger(&mut self, operation: Operation) {
        match operation {
            Operation::Stop => {
                let within = [8, 60, 400][self.rng.below(3)];
                self.arm_stop(within);
            }
            Operation::Fill => {
                let more = self.rng.below(64 << 10) as u64;
                self.note(|| format!("  {more} bytes are free"));
                self.disk.set_budget(Some(self.disk.used() + more));
            }
            _ => {
                let within = [4, 40, 200][self.rng.below(3)];
                self.arm_fault(within);
            }
        }
    }

    pub(super) fn arm_stop(&mut self, within: usize) {
        let calls = self.rng.below(within) as u64;
        self.note(|| format!("  {calls} more calls"));
        self.disk.stop_after(calls);
    }

    pub(super) fn arm_fault(&mut self, within: usize) {
        let mut calls = match self.rng.below(6) {
            0 => vec![Call::Read],
            1 => vec![Call::Write],
            2 => vec![Call::Sync],
            3 => vec![Call::Open, Call::Length, Call::SyncDirectory],
            4 => vec![Call::SetLength, Call::Allocate, Call::Remove, Call::Rename],
            _ => vec![Call::Write, Call::Sync],
        };
        calls.dedup();
        let syncs = calls == [Call::Sync];
        let refusal = match self.rng.below(3) {
            0 if !syncs => Refusal::NoSpace,
            1 if syncs => Refusal::Forgotten,
            _ => Refusal::Io,
        };
        let fault = Fault { calls, after: self.rng.below(within) as u64, refusal, once: self.rng.one_in(2) };
        self.note(|| format!("  {fault:?}"));
        self.disk.fail(fault);
    }

    fn heal(&mut self) {
        self.disk.heal();
        self.disk.set_budget(None);
    }
}
