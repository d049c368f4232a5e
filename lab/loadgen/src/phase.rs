//! A phase: all connections send requests at the same time, each from its own thread. Their counts
//! are added.

use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::answers::Answers;
use crate::client::{Client, Trouble};
use crate::errors::Error;
use crate::parameter::Encoded;
use crate::schedule::{Length, Schedule};
use crate::tally::Tally;
use crate::usage;

/// The requests of a phase, and what is expected of their answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work<'w> {
    pub(crate) queries: Option<&'w Encoded>,
    /// Rows that an answer should have.
    pub(crate) rows: usize,
    /// The number of the query of the first request.
    pub(crate) first_query: usize,
    /// Whether every request and its answer are recorded.
    pub(crate) keep: bool,
}

/// The result of a phase.
#[derive(Debug)]
pub(crate) struct Phase {
    pub(crate) tally: Tally,
    pub(crate) elapsed: Duration,
    /// Requests that were due but were never sent.
    pub(crate) unsent: u64,
}

/// Runs a phase. The clock starts when every thread is ready.
pub(crate) fn run<C: Client>(
    connections: &mut [C],
    work: Work<'_>,
    length: Length,
    rate: Option<f64>,
) -> Result<Phase, Error> {
    let (ready, schedule) = (Barrier::new(connections.len()), OnceLock::new());
    let tally = thread::scope(|scope| {
        let spawn = |connection| {
            let run = || {
                let before = usage::of_thread();
                ready.wait();
                let schedule = schedule.get_or_init(|| Schedule::new(Instant::now(), length, rate));
                let mut tally = ask_all(connection, schedule, work);
                tally.end = Instant::now();
                tally.usage = usage::of_thread().zip(before).map(|(after, before)| after - before);
                tally
            };
            scope.spawn(run)
        };
        let threads: Vec<_> = connections.iter_mut().map(spawn).collect();
        let tallies =
            threads.into_iter().map(|thread| thread.join().expect("a connection's thread does not panic"));
        tallies.reduce(|mut all, one| {
            all.add(one);
            all
        })
    });
    let (Some(tally), Some(schedule)) = (tally, schedule.get()) else {
        return Err(Error::Use("there are no connections".to_string()));
    };
    let unsent = schedule.unsent(tally.count() + tally.errors, tally.end);
    Ok(Phase { elapsed: tally.end - schedule.start(), tally, unsent })
}

/// Sends the requests of the schedule until it ends or the connection is lost.
fn ask_all<C: Client>(connection: &mut C, schedule: &Schedule, work: Work<'_>) -> Tally {
    let (mut tally, mut ids) = (Tally::new(), Vec::new());
    tally.answers = work.keep.then(Answers::default);
    while let Some(ticket) = schedule.next() {
        let query = work.queries.map_or(0, |queries| (work.first_query + ticket.number as usize) % queries.len());
        let sent = Instant::now();
        let answer = connection.execute(work.queries.map(|queries| queries.get(query)), &mut ids);
        let end = Instant::now();
        match answer {
            Ok(()) => {
                let latency = end - ticket.due.unwrap_or(sent);
                tally.latency.record(latency);
                tally.service.record(end - sent);
                tally.rows_short += u64::from(ids.len() < work.rows);
                if let Some(answers) = &mut tally.answers {
                    answers.keep(query, latency, &ids, work.rows);
                }
            }
            Err(trouble) => {
                tally.error(|| format!("query {query}: {trouble}"));
                if matches!(trouble, Trouble::Lost(_)) {
                    break;
                }
            }
        }
    }
    tally
}
