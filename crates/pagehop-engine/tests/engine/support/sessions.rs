//! Sessions that change an index with host-owned rows at the same time, as those of PostgreSQL do.

use std::collections::BTreeSet;

use pagehop_engine::{Change, Error, Index, Value};
use pagehop_sim::{SharedSession, SharedWriter};

use super::no_progress;

/// Number of seeds without `PAGEHOP_SIM_SEEDS`.
const SEEDS: u64 = 30;

/// The seeds to run.
pub fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| {
        let text = std::env::var(name).ok();
        text.map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
    };
    let first = number("PAGEHOP_SIM_SEED");
    let count = number("PAGEHOP_SIM_SEEDS").unwrap_or(if first.is_some() { 1 } else { SEEDS });
    first.unwrap_or(0)..first.unwrap_or(0) + count
}

/// The first seeds, for a test that takes a second for each, or those that a variable asks for.
pub fn few_seeds(count: u64) -> impl Iterator<Item = u64> {
    seeds().take_while(move |seed| std::env::var("PAGEHOP_SIM_SEEDS").is_ok() || *seed < count)
}

/// One change of an index that a session has open.
pub fn change<T>(
    writer: &mut SharedWriter<'_>,
    known: &Index<&SharedSession<'_>>,
    work: impl FnOnce(&mut Change<'_, SharedWriter<'_>>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut change = known.change(writer)?;
    let done = work(&mut change)?;
    change.finish()?;
    Ok(done)
}

/// Inserts a row as PostgreSQL does: prepares it without a lock, then inserts it beside others, or
/// alone if it must be alone. Returns `false` if it was interrupted.
pub fn insert(session: &SharedSession<'_>, row_id: u64, vector: &[f32], values: &[Value], is_known: bool) -> bool {
    let known = Index::open(session).unwrap();
    let mut prepared = known.prepare(vector, is_known);
    let beside = session.insert(|writer| {
        change(writer, &known, |change| {
            if change.must_be_alone(1) {
                return Ok(false);
            }
            change.insert_prepared(row_id, vector, values, prepared.take(), is_known, &mut no_progress())?;
            Ok(true)
        })
    });
    let done = match beside {
        Ok(false) => session.alone(|writer| {
            change(writer, &known, |change| {
                change.insert_prepared(row_id, vector, values, prepared.take(), is_known, &mut no_progress())
            })
        }),
        other => other.map(drop),
    };
    match done {
        Ok(()) => true,
        Err(Error::Interrupted) => false,
        Err(error) => panic!("row {row_id}: {error}"),
    }
}

/// Removes rows in parts, as a vacuum of PostgreSQL does. Returns `false` if it was interrupted.
pub fn remove(session: &SharedSession<'_>, dead: &BTreeSet<u64>) -> bool {
    let known = Index::open(session).unwrap();
    let mut is_dead = |row_id| dead.contains(&row_id);
    let mut done =
        session.alone(|writer| change(writer, &known, |change| change.drop_dead_rows(&mut is_dead))).is_ok();
    let mut page = 0;
    while done && page < pagehop_engine::page::Pages::page_count(session) {
        done = session
            .alone(|writer| change(writer, &known, |change| change.remove_dead_rows(page..page + 4, &mut is_dead)))
            .is_ok();
        page += 4;
    }
    let mut listed = None;
    while done {
        match session.alone(|writer| change(writer, &known, |change| change.settle_pending(listed, &mut || false)))
        {
            Ok(Some(next)) => listed = Some(next),
            Ok(None) => break,
            Err(_) => done = false,
        }
    }
    done && clean_up(session, &known).is_ok()
}

/// Takes dead nodes out of the graph beside the writers, and frees their slots when it is alone.
pub fn clean_up(session: &SharedSession<'_>, known: &Index<&SharedSession<'_>>) -> Result<(), Error> {
    let none = &mut no_progress();
    let in_edges = known.in_edges_of_dead(1 << 20, none)?;
    loop {
        let mut steps = 0;
        for _ in 0..2 {
            let report = session.insert(|writer| {
                change(writer, known, |change| {
                    change.use_in_edges(&in_edges);
                    change.unlink_dead(2, none)
                })
            })?;
            steps += report.steps();
        }
        steps += session.alone(|writer| change(writer, known, |change| change.free_unlinked(3, none)))?.steps();
        if steps == 0 {
            let rest = session.alone(|writer| change(writer, known, |change| change.vacuum(2, none)))?;
            if rest.steps() == 0 {
                return Ok(());
            }
        }
    }
}
