//! Whole operations, as programs call them, that are several transactions each: additions and
//! deletions after which the store vacuums by itself, and compaction.

use std::ops::ControlFlow;
use std::sync::Arc;

use pagehop_engine::{Error, Index, Progress};
use pagehop_store::{AddOptions, IndexFile, Name, Storage, StorageSink};

use super::columns;
use super::data::Row;
use super::ids::{of_texts, texts};
use super::model::Version;
use super::outcome::{Checked, Trouble};
use super::plan::id;
use super::world::World;
use crate::SimDisk;

/// Most rows of a call. Three calls can leave more dead rows than an automatic vacuum waits for.
const ROWS_MAX: usize = 250;
/// Memory of the build of a compaction, in bytes.
const MEMORY_BYTES: u64 = 1 << 30;

/// Adds, replaces or deletes many rows by one call, which then vacuums if enough rows are dead.
pub(super) fn call(world: &mut World, index: &Index<IndexFile>) -> Result<(), Trouble> {
    let number = world.next_number;
    world.next_number += 1;
    let mut rows = (*world.model.newest().rows).clone();
    let World { plan, calls_rng: rng, .. } = world;
    let known: Vec<u64> = rows.keys().copied().collect();
    let mut ids: Vec<u64> = (0..1 + rng.below(ROWS_MAX))
        .map(|_| if known.is_empty() || rng.one_in(8) { id(plan, rng) } else { known[rng.below(known.len())] })
        .collect();
    ids.sort_unstable();
    ids.dedup();
    let (deletes, stops) = (rng.one_in(3), rng.one_in(8));
    // After the change of the call itself is committed, a stop only ends the vacuum.
    let mut progress = |step: Progress| match step.phase {
        "vacuum" if stops => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let dead = index.info()?.dead_rows;
    let mark = Some([number, !number]);
    // One thread, so that a seed always gives the same run.
    let options = AddOptions { mark, threads: 1 };
    let done = if deletes {
        ids.iter().for_each(|id| drop(rows.remove(id)));
        let deleted = match plan.texts {
            true => pagehop_store::delete(index, &texts(&ids), mark, &mut progress).map(|report| of_texts(&report)),
            false => pagehop_store::delete(index, &ids, mark, &mut progress),
        };
        deleted.map(|report| report.deleted)
    } else {
        let new = ids.iter().map(|_| Row {
            vector: plan.cloud.vector(rng),
            values: columns::values(plan.columns, rng),
            payload: plan.payload(rng),
        });
        let new: Vec<Row> = new.collect();
        let values = plan.all().of(new.iter())?;
        let components: Vec<f32> = new.iter().flat_map(|row| row.vector.iter().copied()).collect();
        rows.extend(ids.iter().copied().zip(new));
        let values = values.as_ref();
        let added = match plan.texts {
            true => {
                let ids = texts(&ids);
                pagehop_store::add_with_columns(index, &ids, &components, values, options, &mut progress)
            }
            false => pagehop_store::add_with_columns(index, &ids, &components, values, options, &mut progress),
        };
        added.map(|report| report.replaced)
    };
    let what = if deletes { "delete" } else { "add" };
    world.note(|| format!("  version {number}: a call to {what} {} rows", ids.len()));
    let version = Version { number, rows: Arc::new(rows) };
    match done {
        Ok(killed) => {
            world.model.forget_doubts();
            world.model.committed(version);
            world.outcome.commits += 1;
            // The call has succeeded, even if its vacuum failed.
            let left = index.info().map_or(u64::MAX, |info| info.dead_rows);
            world.outcome.vacuumed += (dead + killed).saturating_sub(left);
            Ok(())
        }
        Err(error) => {
            // It is unknown here whether the transaction of the call began.
            world.model.doubt(version);
            Err(error.into())
        }
    }
}

/// One process that compacts the index: it writes the index again with its live rows only, in
/// place.
pub(super) fn compact(world: &mut World) -> Checked<()> {
    world.outcome.operations += 1;
    let options = world.plan.open_options(true, &mut world.rng);
    let Some(pages) = world.open(&options)? else { return Ok(()) };
    world.note(|| "compact".into());
    match world.calls_rng.below(4) {
        0 => world.arm_stop(60),
        1 => world.arm_fault(60),
        _ => {}
    }
    let failed = world.disk.failed();
    let (opened, compacted) = match Index::open(pages) {
        Ok(index) => {
            let compacted = compact_in_place(world, &index);
            (Some(index), compacted)
        }
        Err(error) => (None, Err(error.into())),
    };
    match compacted {
        Ok(()) => world.outcome.compactions += 1,
        Err(trouble) => world.excuse(&trouble, failed)?,
    }
    // The process ends first: the open index finds its file by the name, which the new file has
    // now.
    world.end_process();
    drop(opened);
    Ok(())
}

/// Does what `compact` of the store does with files of the system, in the same order: the new index
/// is complete and on disk, it gets the name, the name becomes durable, and the old log is removed.
fn compact_in_place(world: &mut World, index: &Index<IndexFile>) -> Result<(), Trouble> {
    index.pages().checkpoint()?;
    world.model.made_durable();
    let beside = SimDisk::new(0);
    let identity = (world.calls_rng.next_u64() | 1).to_le_bytes();
    let [a, b, c, d, e, f, ..] = identity;
    let mut sink = StorageSink::create(Arc::new(beside.clone()), [a, b, c, d, e, f])?;
    index.rebuild(MEMORY_BYTES, 1, &mut sink, &mut |_| ControlFlow::Continue(()))?;
    sink.finish()?;
    let new = beside.bytes(Name::Index).unwrap_or_default();
    world.disk.rename_over(Name::Index, &new).map_err(|error| Error::io("naming of the new index", error))?;
    let synced = world.disk.sync_directory();
    if synced.is_ok() {
        // If the old log stays, it has another identity than the new index.
        let _ = world.disk.remove(Name::Log);
    }
    synced.map_err(|error| Error::io("sync of the directory", error))?;
    Ok(())
}
