//! The state of one run: the disk, the index on it, and the versions that it may have.

use std::ops::ControlFlow;
use std::sync::Arc;

use pagehop_engine::{BuildOptions, CreateOptions, Error, IdKind, Index, SearchResult, build, create};
use pagehop_store::{IndexFile, Name, OpenOptions, StorageSink};

use super::columns;
use super::data::{Row, Rows, Source};
use super::ids;
use super::model::{Model, Version};
use super::outcome::{Checked, Outcome, Trouble};
use super::plan::{Plan, id};
use super::verify::{self, Queries};
use crate::{Call, Fault, Lie, Refusal, Rng, SimDisk};

/// Options of the run of a seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Print every operation when it starts.
    pub trace: bool,
    /// Print every call to the disk.
    pub calls: bool,
    /// A bug that the disk simulates.
    pub lie: Lie,
    /// Largest number of operations, if fewer than the seed chooses.
    pub operations: Option<usize>,
}

/// The state of one run.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) options: RunOptions,
    pub(super) rng: Rng,
    /// For values and filters.
    pub(super) values_rng: Rng,
    /// For whole calls and compaction.
    pub(super) calls_rng: Rng,
    pub(super) disk: SimDisk,
    pub(super) model: Model,
    /// The last search of this session, the ids that it found, and the version that it saw.
    pub(super) searched: Option<(SearchResult, Vec<u64>, Version)>,
    pub(super) outcome: Outcome,
    /// Number of the next version.
    pub(super) next_number: u64,
    /// Number of failed calls when the index was last opened.
    pub(super) failed_before_life: u64,
    pub(super) history: Vec<String>,
}

impl World {
    pub(super) fn new(seed: u64, options: RunOptions) -> Checked<Self> {
        let mut rng = Rng::new(seed ^ 0x9a6e_40b5);
        let plan = Plan::draw(seed, &mut rng);
        let mut values_rng = Rng::new(seed ^ 0x5a1e_0000);
        let mut rows = Rows::new();
        for _ in 0..plan.built.unwrap_or(0) {
            let id = id(&plan, &mut rng);
            let values = columns::values(plan.columns, &mut values_rng);
            let payload = plan.payload(&mut values_rng);
            rows.insert(id, Row { vector: plan.cloud.vector(&mut rng), values, payload });
        }
        let disk = SimDisk::new(seed);
        build_on(&disk, &plan, &rows, seed).map_err(|error| format!("building {} rows: {error}", rows.len()))?;
        disk.lie(options.lie);
        if options.calls {
            disk.print_calls();
        }
        let mut world = Self {
            plan,
            options,
            rng,
            values_rng,
            calls_rng: Rng::new(seed ^ 0xca11_5eed),
            disk,
            model: Model::new(rows),
            searched: None,
            outcome: Outcome::default(),
            next_number: 1,
            failed_before_life: 0,
            history: Vec::new(),
        };
        let Plan { dim, metric, vectors, columns, payloads, texts, built, batch, ids, .. } = &world.plan;
        let cloud = world.plan.cloud.describe();
        let begins = format!(
            "{dim} dimensions, {metric:?}, {vectors:?}, {columns} columns, payloads {payloads}, texts {texts}, {built:?} rows, batches of {batch}, {ids} ids, {cloud}"
        );
        world.note(|| begins);
        Ok(world)
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        let line = line();
        if self.options.trace {
            println!("{:4} {line}", self.outcome.operations);
        }
        self.history.push(line);
    }

    pub(super) fn query(&mut self) -> Arc<[f32]> {
        self.plan.cloud.vector(&mut self.rng)
    }

    /// A query, and filters over the rows of the newest version.
    pub(super) fn queries(&mut self) -> Queries {
        let query = self.query();
        let Self { plan, values_rng, model, .. } = self;
        let rows = &model.newest().rows;
        let mut some_id = |rng: &mut Rng| match rows.keys().nth(rng.below(rows.len() + 1)) {
            Some(id) => *id,
            None => id(plan, rng),
        };
        let count = if plan.columns > 0 { 3 } else { 1 };
        let filters = (0..count).map(|_| columns::filter(plan.columns, 2, &mut some_id, values_rng));
        let filters = filters.map(|filter| if plan.texts { ids::with_texts(&filter) } else { filter }).collect();
        Queries { query, filters }
    }

    /// Opens the index, determines its version, and compares everything. Returns `None` if opening
    /// failed because of a fault; the process has ended then.
    pub(super) fn open(&mut self, options: &OpenOptions) -> Checked<Option<IndexFile>> {
        self.outcome.openings += 1;
        let how = format!("open: write {}, {:?}, log {}", options.write, options.durability, options.log_bytes);
        self.note(|| how);
        self.lose_log()?;
        let failed = self.disk.failed();
        self.failed_before_life = failed;
        let queries = self.queries();
        let storage = Arc::new(self.disk.clone());
        let opened = IndexFile::open_on(storage, options).map_err(Trouble::Error).and_then(|pages| {
            let version = self.identify(&pages, &queries)?;
            Ok((pages, version))
        });
        match opened {
            Ok((pages, number)) => {
                if options.write {
                    self.model.found(number, options.durability);
                }
                Ok(Some(pages))
            }
            Err(trouble) => {
                self.excuse(&trouble, failed)?;
                self.outcome.operations += 1;
                self.end_process();
                if self.rng.one_in(2) {
                    self.disk.heal();
                }
                Ok(None)
            }
        }
    }

    /// Opens a copy of the index without its log. It must be refused, or have everything that must
    /// be found.
    pub(super) fn lose_log(&mut self) -> Checked<()> {
        let (Some(index), Some(_)) = (self.disk.bytes(Name::Index), self.disk.bytes(Name::Log)) else {
            return Ok(());
        };
        let alone = SimDisk::new(0);
        alone.put(Name::Index, &index);
        let Ok(pages) = IndexFile::open_on(Arc::new(alone), &OpenOptions::default()) else { return Ok(()) };
        let Ok(number) = Index::open(&pages).and_then(|index| verify::number_of(&index)) else { return Ok(()) };
        if self.model.allowed().any(|version| version.number == number) {
            return Ok(());
        }
        Err(format!("without its log the index opened, silently, as version {number}"))
    }

    pub(super) fn identify(&mut self, pages: &IndexFile, queries: &Queries) -> Result<u64, Trouble> {
        let index = Index::open(pages)?;
        let number = verify::number_of(&index)?;
        let allowed: Vec<Version> = self.model.allowed().cloned().collect();
        let Some(version) = allowed.iter().find(|version| version.number == number) else {
            let numbers: Vec<u64> = allowed.iter().map(|version| version.number).collect();
            return Err(Trouble::Violation(format!("version {number} was found, expected one of {numbers:?}")));
        };
        self.note(|| format!("  found version {number}, {} rows", version.rows.len()));
        verify::everything(&index, self.plan.metric, queries, version, &mut self.outcome)?;
        Ok(number)
    }

    /// Opens the index, compares it, and drops it.
    pub(super) fn open_and_verify(&mut self, write: bool) -> Checked<()> {
        let mut options = self.plan.open_options(write, &mut self.rng);
        options.write = write;
        let Some(pages) = self.open(&options)? else { return Ok(()) };
        drop(pages);
        Ok(())
    }

    /// Returns `Ok` if an injected fault or a limit explains the failure. `failed_before` is the
    /// number of failed calls before the operation.
    pub(super) fn excuse(&mut self, trouble: &Trouble, failed_before: u64) -> Checked<()> {
        let something = self.disk.is_stopped() || self.disk.failed() > failed_before;
        let once = self.disk.failed() > self.failed_before_life;
        match trouble {
            Trouble::Violation(what) => Err(what.clone()),
            Trouble::Error(error) => {
                self.outcome.failures += 1;
                let text = format!("  failed: {error}");
                self.note(|| text);
                let small = self.plan.transaction_bytes < 1 << 30;
                match error {
                    Error::Io { .. } | Error::Full { source: Some(_), .. } if something => Ok(()),
                    Error::Full { what, .. } if small && what.contains("fewer rows") => Ok(()),
                    // After a failure the store refuses further changes, and its error says so.
                    Error::Io { source, .. } if once && source.to_string().contains("open it again") => Ok(()),
                    error => Err(format!("{error} (no fault was injected)")),
                }
            }
        }
    }

    /// Ends the process, by a kill or by a loss of power.
    pub(super) fn end_process(&mut self) {
        if self.rng.one_in(2) {
            self.note(|| "the power is lost".into());
            let seed = self.rng.next_u64();
            self.disk.crash(seed);
            self.model.power_lost();
            self.outcome.crashes += 1;
        } else {
            self.note(|| "the process is killed".into());
            self.disk.kill();
            self.outcome.kills += 1;
        }
    }

    /// Stops the disk after fewer than `within` calls.
    pub(super) fn arm_stop(&mut self, within: usize) {
        let calls = self.rng.below(within) as u64;
        self.note(|| format!("  {calls} more calls"));
        self.disk.stop_after(calls);
    }

    /// Makes one of the next calls fail, after fewer than `within` calls of its kinds.
    pub(super) fn arm_fault(&mut self, within: usize) {
        let calls = match self.rng.below(6) {
            0 => vec![Call::Read],
            1 => vec![Call::Write],
            2 => vec![Call::Sync],
            3 => vec![Call::Open, Call::Length, Call::SyncDirectory],
            4 => vec![Call::SetLength, Call::Allocate, Call::Remove, Call::Rename],
            _ => vec![Call::Write, Call::Sync],
        };
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

    /// Removes all faults, and the limit of the space.
    pub(super) fn heal(&mut self) {
        self.disk.heal();
        self.disk.set_budget(None);
    }
}

pub(super) fn copy_of(error: &Error) -> Error {
    match error {
        Error::Io { what, source } | Error::Full { what, source: Some(source) } => {
            Error::io(what.clone(), std::io::Error::new(source.kind(), source.to_string()))
        }
        Error::Full { what, source: None } => Error::full(what.clone()),
        Error::Corrupt { page, what } => Error::corrupt(*page, what.clone()),
        error => Error::argument(error.to_string()),
    }
}

/// Makes a new index.
fn build_on(disk: &SimDisk, plan: &Plan, rows: &Rows, seed: u64) -> Result<(), Error> {
    let mut sink = StorageSink::create(Arc::new(disk.clone()), *b"phsim1")?;
    let id_kind = if plan.texts { IdKind::Text } else { IdKind::Int };
    if plan.built.is_none() {
        let options = CreateOptions {
            metric: plan.metric,
            id_kind,
            vectors: plan.vectors,
            columns: columns::columns(plan.columns).to_vec(),
            payload: plan.payloads,
            seed,
        };
        create(plan.dim, &options, &mut sink)?;
    } else {
        let options = BuildOptions {
            metric: plan.metric,
            vectors: plan.vectors,
            threads: 1,
            seed,
            id_kind,
            ..BuildOptions::default()
        };
        let columns = plan.all().of(rows.values())?.unwrap_or_default();
        let texts = plan.texts.then(|| rows.keys().map(|id| ids::text(*id)).collect());
        let mut source = Source { dim: plan.dim, rows, columns, texts };
        build(&mut source, &options, &mut sink, &mut |_| ControlFlow::Continue(()))?;
    }
    sink.finish()
}
