//! A measurement, from the connections to the report, for any protocol.

use std::time::Duration;

use crate::address::Address;
use crate::args::Args;
use crate::client::{Client, during};
use crate::errors::Error;
use crate::interrupt;
use crate::parameter::ParameterType;
use crate::phase::{self, Phase, Work};
use crate::plan::PlanCounts;
use crate::report::{Blocks, Cost, QuerySet, Report};
use crate::schedule::Length;
use crate::session::Session;
use crate::tally::round;
use crate::usage::{self, Usage};

/// Runs the measurement in `args` and prints the report. The parameter has the type `wanted`, or
/// the type that the server chooses.
pub(crate) fn run<C: Client>(args: &Args, wanted: Option<ParameterType>) -> Result<(), Error> {
    let (length, rate) = (args.length()?, args.rate()?);
    let (user, password) = C::SCHEME.variables();
    let user = std::env::var(user).or_else(|_| std::env::var("USER")).ok();
    let mut address = Address::parse(C::SCHEME, &args.url, user.as_deref())?;
    address.password = address.password.or_else(|| std::env::var(password).ok());
    interrupt::listen()?;

    let mut session = Session::<C>::open(args, &address, wanted)?;
    let mut observer = if args.blocks { Some(observe::<C>(&address)?) } else { None };
    warm_up(args, &mut session)?;
    let load_average = usage::load_average();
    let before = Meters::read(&mut session, observer.as_mut());
    let phase = ask(args, &mut session, 0, length, rate, args.answers.is_some())?;
    let used = Meters::read(&mut session, observer.as_mut()).since(before);

    if let Some((path, answers)) = args.answers.as_deref().zip(phase.tally.answers.as_ref()) {
        answers.write(path, args.rows)?;
    }
    let mut report = report(args, &session, &phase, rate, used);
    report.cost.load_average = load_average;
    print(&if args.json { report.json() + "\n" } else { report.text() })?;
    conclude(&report)
}

/// Runs a phase whose first request has the query `first_query`. If `keep`, every request is
/// recorded.
fn ask<C: Client>(
    args: &Args,
    session: &mut Session<C>,
    first_query: usize,
    length: Length,
    rate: Option<f64>,
    keep: bool,
) -> Result<Phase, Error> {
    let Session { connections, queries, .. } = session;
    let queries = queries.as_ref().map(|queries| &queries.encoded);
    let work = Work { queries, rows: args.rows, first_query, keep };
    phase::run(connections, work, length, rate)
}

/// A connection that reads the statistics of the server.
fn observe<C: Client>(address: &Address) -> Result<C, Error> {
    let mut observer = C::open(address).map_err(during("--blocks"))?;
    let known = observer.blocks().and_then(|_| observer.publish());
    known.map_err(during("--blocks"))?;
    Ok(observer)
}

fn warm_up<C: Client>(args: &Args, session: &mut Session<C>) -> Result<(), Error> {
    if args.warmup == 0.0 {
        return Ok(());
    }
    let middle = session.queries.as_ref().map_or(0, |queries| queries.encoded.len() / 2);
    let phase = ask(args, session, middle, Length::Time(Duration::from_secs_f64(args.warmup)), None, false)?;
    match phase.tally.first_error {
        Some(text) => Err(Error::Failure(text).during("while warming up")),
        None if interrupt::requested() => Err(Error::Interrupted),
        None => Ok(()),
    }
}

/// Counters outside of this process. A counter that cannot be read is `None`, for example after a
/// connection was lost.
#[derive(Clone, Copy, Debug, Default)]
struct Meters {
    plans: Option<PlanCounts>,
    blocks: Option<(f64, f64)>,
    server: Option<Usage>,
    server_total_s: Option<f64>,
    busy_s: Option<f64>,
}

impl Meters {
    fn read<C: Client>(session: &mut Session<C>, observer: Option<&mut C>) -> Self {
        let plans = session.connections[0].plan_counts();
        let blocks = observer.and_then(|observer| {
            for connection in &mut session.connections {
                connection.publish().ok()?;
            }
            observer.blocks().ok()
        });
        let usages = session.workers.iter().map(|worker| worker.usage());
        Self {
            plans,
            blocks,
            busy_s: usage::machine_busy_s(),
            server: usages.reduce(|sum, one| Some(sum? + one?)).flatten(),
            server_total_s: session.workers.first().and_then(|worker| worker.server_cpu_s()),
        }
    }

    /// The increase since `before`.
    fn since(self, before: Self) -> Self {
        Self {
            plans: self.plans.zip(before.plans).map(|(after, before)| after.since(before)),
            blocks: self.blocks.zip(before.blocks).map(|(after, before)| (after.0 - before.0, after.1 - before.1)),
            server: self.server.zip(before.server).map(|(after, before)| after - before),
            server_total_s: self.server_total_s.zip(before.server_total_s).map(|(after, before)| after - before),
            busy_s: self.busy_s.zip(before.busy_s).map(|(after, before)| after - before),
        }
    }
}

fn report<C: Client>(args: &Args, session: &Session<C>, phase: &Phase, rate: Option<f64>, used: Meters) -> Report {
    let tally = &phase.tally;
    let (count, elapsed_s) = (tally.count(), phase.elapsed.as_secs_f64());
    let queries = session.queries.as_ref().zip(args.queries.as_ref());
    let blocks = used.blocks.filter(|_| count > 0);
    Report {
        loadgen_version: env!("CARGO_PKG_VERSION"),
        server_version: session.connections[0].server_version().to_string(),
        statement: args.statement.clone(),
        settings: session.settings.iter().cloned().collect(),
        queries: queries.map(|(queries, path)| QuerySet {
            file: path.display().to_string(),
            count: queries.encoded.len(),
            dim: queries.dim,
            param_type: queries.kind.name(),
        }),
        connections: session.connections.len(),
        warmup_s: args.warmup,
        rate,
        interrupted: interrupt::requested(),
        elapsed_s: round(elapsed_s),
        count,
        qps: round(count as f64 / elapsed_s),
        errors: tally.errors,
        first_error: tally.first_error.clone(),
        unsent_count: phase.unsent,
        rows: args.rows,
        rows_short_count: tally.rows_short,
        latency: tally.latency.percentiles(),
        service: tally.service.percentiles(),
        cost: Cost::new(count, elapsed_s, tally.usage, used.server, used.server_total_s, used.busy_s),
        blocks: blocks.map(|(read, hit)| Blocks {
            read_per_query: round(read / count as f64),
            hit_per_query: round(hit / count as f64),
        }),
        plan: session.plan.clone(),
        plans: used.plans,
    }
}

fn print(text: &str) -> Result<(), Error> {
    let mut stdout = std::io::stdout().lock();
    let written = std::io::Write::write_all(&mut stdout, text.as_bytes());
    match written.and_then(|()| std::io::Write::flush(&mut stdout)) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::Failure(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// The result of the command, which determines the exit code.
fn conclude(report: &Report) -> Result<(), Error> {
    if let Some(text) = &report.first_error {
        let all = report.errors + report.count;
        return Err(Error::Failure(format!("{} of {all} requests failed, the first: {text}", report.errors)));
    }
    if report.interrupted {
        return Err(Error::Interrupted);
    }
    if report.unsent_count > 0 {
        let text =
            "the server or this machine did not keep up with --rate; latencies are those of the requests sent";
        eprintln!("note: {} requests were never sent: {text}", report.unsent_count);
    }
    Ok(())
}
