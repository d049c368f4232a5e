//! The operations between opening the index and its end.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use pagehop_engine::{Change, Error, Index};
use pagehop_store::{IndexFile, Transaction};

use super::data::Rows;
use super::model::Version;
use super::outcome::{Checked, Trouble};
use super::plan::{Operation, id};
use super::verify::{self, OpenCursor, ensure};
use super::world::World;
use crate::{Call, Fault, Refusal, Rng};

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

type Pages<'p> = &'p IndexFile;

/// One part of a transaction.
enum Part {
    Add(Vec<u64>, Vec<Arc<[f32]>>),
    Delete(Vec<u64>),
    Vacuum(u64),
}

/// How a transaction shall end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Commit,
    /// Drop it without a commit.
    Drop,
    /// Interrupt it from its progress callback.
    Interrupt,
}

impl World {
    /// Runs operations until one of them ends the session.
    pub(super) fn session(&mut self, pages: &IndexFile, most: u64) -> Checked<End> {
        let failed = self.disk.failed();
        let index = match Index::open(pages) {
            Ok(index) => index,
            Err(error) => {
                self.excuse(&Trouble::Error(error), failed)?;
                return Ok(End::Lost);
            }
        };
        let mut cursors = VecDeque::new();
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
            if let Err(trouble) = self.operate(operation, &index, &mut cursors) {
                self.excuse(&trouble, failed)?;
                if let Some(end) = self.after_failure(&index)? {
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
    fn after_failure(&mut self, index: &Index<Pages<'_>>) -> Checked<Option<End>> {
        if self.disk.is_stopped() {
            return Ok(Some(End::Lost));
        }
        if self.rng.one_in(2) {
            self.note(|| "  heal".into());
            self.heal();
        }
        let failed = self.disk.failed();
        let (query, version) = (self.query(), self.model.newest().clone());
        let seen = verify::everything(index, self.plan.metric, &query, &version, &mut self.outcome);
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

    fn operate<'i, 'p>(
        &mut self,
        operation: Operation,
        index: &'i Index<Pages<'p>>,
        cursors: &mut VecDeque<OpenCursor<'i, 'p>>,
    ) -> Result<(), Trouble> {
        let has_readers = !cursors.is_empty();
        for cursor in cursors.iter_mut() {
            let few = self.rng.below(4);
            if self.rng.one_in(3) {
                cursor.advance(few)?;
            }
        }
        match operation {
            Operation::Change | Operation::Add | Operation::Delete | Operation::Vacuum | Operation::Clear => {
                let parts = self.parts(operation);
                self.transact(index, parts, Ending::Commit, has_readers)
            }
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
                let (query, version) = (self.query(), self.model.newest().clone());
                verify::search(index, self.plan.metric, &query, &version, &mut self.outcome)
            }
            Operation::OpenCursor => {
                let (query, version) = (self.query(), self.model.newest());
                cursors.push_back(OpenCursor::open(index, self.plan.metric, query, version)?);
                if cursors.len() > CURSORS_MAX { self.drain(cursors) } else { Ok(()) }
            }
            Operation::DrainCursor => self.drain(cursors),
            Operation::Check => {
                let (query, version) = (self.query(), self.model.newest().clone());
                verify::everything(index, self.plan.metric, &query, &version, &mut self.outcome)
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

    fn drain(&mut self, cursors: &mut VecDeque<OpenCursor<'_, '_>>) -> Result<(), Trouble> {
        if let Some(cursor) = cursors.pop_front() {
            cursor.drain()?;
        }
        Ok(())
    }

    fn drain_all(&mut self, cursors: &mut VecDeque<OpenCursor<'_, '_>>) -> Checked<()> {
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
    fn refuse(&mut self, index: &Index<Pages<'_>>) -> Result<(), Trouble> {
        let dim = self.plan.dim;
        let bad: [Vec<f32>; 2] = [vec![1.0; dim + 1], vec![f32::NAN; dim]];
        for vector in bad {
            let mut transaction = index.pages().begin()?;
            let mut change = index.change(&mut transaction)?;
            match change.add(&[5], &vector, &mut |_| ControlFlow::Continue(())) {
                Err(Error::Argument { .. } | Error::Dimension { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(report) => return Err(Trouble::Violation(format!("{vector:?} was accepted: {report:?}"))),
            }
        }
        Ok(())
    }

    /// The parts of a transaction for `operation`.
    fn parts(&mut self, operation: Operation) -> Vec<Part> {
        let rows = Arc::clone(&self.model.newest().rows);
        match operation {
            Operation::Add => vec![self.addition(&rows)],
            Operation::Delete => vec![self.deletion(&rows)],
            Operation::Vacuum => vec![Part::Vacuum(u64::MAX)],
            Operation::Clear => vec![Part::Delete(rows.keys().copied().collect())],
            _ => (0..1 + self.rng.below(3))
                .map(|_| match self.rng.below(5) {
                    0 | 1 => self.addition(&rows),
                    2 | 3 => self.deletion(&rows),
                    _ => Part::Vacuum(1 + self.rng.below(20) as u64),
                })
                .collect(),
        }
    }

    fn addition(&mut self, rows: &Rows) -> Part {
        let Self { plan, rng, .. } = self;
        let (mut ids, mut vectors) = (Vec::new(), Vec::new());
        for _ in 0..1 + rng.below(plan.batch) {
            let known = any_key(rows, rng).filter(|_| rng.one_in(4));
            let id = match known {
                Some(id) => id,
                None if !ids.is_empty() && rng.one_in(16) => ids[rng.below(ids.len())],
                None => id(plan, rng),
            };
            let same = rows.get(&id).filter(|_| rng.one_in(3)).cloned();
            ids.push(id);
            vectors.push(same.unwrap_or_else(|| plan.cloud.row(rng)));
        }
        Part::Add(ids, vectors)
    }

    fn deletion(&mut self, rows: &Rows) -> Part {
        let Self { plan, rng, .. } = self;
        let count = 1 + rng.below(plan.batch);
        let ids = (0..count).map(|_| match any_key(rows, rng).filter(|_| !rng.one_in(5)) {
            Some(id) => id,
            None => id(plan, rng),
        });
        Part::Delete(ids.collect())
    }

    /// Runs one transaction and records its result in the model.
    fn transact(
        &mut self,
        index: &Index<Pages<'_>>,
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
            4 => vec![Call::SetLength, Call::Allocate, Call::Remove],
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

fn any_key(rows: &Rows, rng: &mut Rng) -> Option<u64> {
    let at = if rows.is_empty() { return None } else { rng.below(rows.len()) };
    rows.keys().nth(at).copied()
}

impl Part {
    fn describe(&self) -> String {
        match self {
            Self::Add(ids, _) => format!("add {}", ids.len()),
            Self::Delete(ids) => format!("delete {}", ids.len()),
            Self::Vacuum(most) => format!("vacuum {most}"),
        }
    }
}

/// Applies `parts` to the transaction and to `rows`, and compares the reports.
fn work(
    index: &Index<Pages<'_>>,
    transaction: &mut Transaction<'_>,
    parts: &[Part],
    rows: &mut Rows,
    ending: Ending,
    has_readers: bool,
    number: u64,
) -> Result<(), Trouble> {
    let mut change = index.change(transaction)?;
    let mut calls = 0;
    let mut progress = |_| {
        calls += 1;
        if ending == Ending::Interrupt && calls > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    for part in parts {
        match part {
            Part::Add(ids, vectors) => {
                let components: Vec<f32> = vectors.iter().flat_map(|vector| vector.iter().copied()).collect();
                let report = change.add(ids, &components, &mut progress)?;
                let distinct: BTreeSet<u64> = ids.iter().copied().collect();
                let fresh = distinct.iter().filter(|id| !rows.contains_key(id)).count() as u64;
                let sum = (report.added + report.replaced + report.unchanged) as usize;
                let is_right = report.added == fresh && (sum == ids.len() || sum == distinct.len());
                ensure(is_right, || format!("{report:?} of {} rows, {fresh} of them new", ids.len()))?;
                rows.extend(ids.iter().copied().zip(vectors.iter().cloned()));
            }
            Part::Delete(ids) => delete(&mut change, ids, rows)?,
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

fn delete(change: &mut Change<'_, Transaction<'_>>, ids: &[u64], rows: &mut Rows) -> Result<(), Trouble> {
    let report = change.delete(ids)?;
    let unknown: Vec<u64> = ids.iter().filter(|id| rows.remove(id).is_none()).copied().collect();
    let deleted = (ids.len() - unknown.len()) as u64;
    ensure(report.deleted == deleted && report.unknown == unknown, || {
        format!("{report:?}, expected {deleted} deleted and {} unknown", unknown.len())
    })
}
