//! Writes a commit to the log, and shows it to all readers.
//!
//! The order of a commit: the log exists and page 0 of the index names it, durably; the block is
//! written and synced; the shared table and this process's cache get the new versions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pagehop_engine::{Error, HOST_HEADER_BYTES, PageId, Reader};

use crate::checkpoint::checkpoint;
use crate::header;
use crate::log::block::{self, BlockWriter, Entry, Written};
use crate::log::dirty::note;
use crate::log::log_file::Header;
use crate::log::record::{CHAIN_MAX, Records};
use crate::options::Durability;
use crate::reader::FileReader;
use crate::writer::{Naming, Turn};

/// Pages whose records a thread makes at once.
const PAGES_AT_ONCE: usize = 256;
/// Frames that leave the table in one epoch of a commit.
const RETIRED_AT_ONCE: usize = 64;

/// The records of `pages`, with their new bodies.
fn records<'b>(turn: &Turn<'_>, pages: &[u32], body_of: impl Fn(u32) -> &'b [u8]) -> Result<Records, Error> {
    let mut records = Records::default();
    let mut reader = FileReader::new(turn.read);
    let committed = turn.read.pool.page_count();
    for &page in pages {
        let chain = turn.state.dirty.get(&page).copied().unwrap_or(0);
        let old = if page < committed && chain < CHAIN_MAX - 1 {
            let old = reader.page(PageId(page))?;
            Some((&old[HOST_HEADER_BYTES..], header::log_position(old)))
        } else {
            None
        };
        records.push(page, old, body_of(page));
        reader.release();
    }
    Ok(records)
}

/// Writes the records of `changed`, made by up to `threads` threads while those before them are
/// written.
fn write_records<'b>(
    turn: &Turn<'_>,
    block: &mut BlockWriter<'_>,
    changed: &[u32],
    threads: usize,
    body_of: impl Fn(u32) -> &'b [u8] + Copy + Send,
) -> Result<(), Error> {
    let mut parts = changed.chunks(PAGES_AT_ONCE);
    if threads == 1 || parts.len() == 1 {
        return parts.try_for_each(|part| block.append(records(turn, part, body_of)?));
    }
    std::thread::scope(|scope| {
        let start = |part| scope.spawn(move || records(turn, part, body_of));
        let mut under_way: VecDeque<_> = parts.by_ref().take(threads).map(start).collect();
        while let Some(first) = under_way.pop_front() {
            let records = first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            under_way.extend(parts.next().map(start));
            block.append(records)?;
        }
        Ok(())
    })
}

/// Writes one block with the new bodies of `changed`, and makes it durable if the options require
/// that. If that fails, nothing has changed. Records are made by up to `threads` threads.
pub(crate) fn append<'b>(
    turn: &mut Turn<'_>,
    changed: &[u32],
    page_count: u32,
    threads: usize,
    body_of: impl Fn(u32) -> &'b [u8] + Copy + Send,
) -> Result<Vec<Entry>, Error> {
    let versions = &turn.read.versions;
    let header = header_or_new(turn)?;
    let file = versions.log.existing()?;
    let offset = header.offset(turn.state.end);
    let mut block = BlockWriter::new(&versions.log, Arc::clone(&file), turn.state.end, offset, turn.state.reserved);
    write_records(turn, &mut block, changed, threads, body_of)?;
    let broken = "an earlier commit may or may not have reached the disk";
    turn.state.broken = Some(broken.into());
    let written = block.finish(page_count, turn.state.checksum);
    let synced = match (&written, turn.writer.durability) {
        (Ok(_), Durability::Commit) => file.sync().map_err(|error| versions.log.refused("sync", error)),
        _ => Ok(()),
    };
    // After a failed sync, it is unknown which bytes are on the disk, even if a later sync
    // succeeds.
    let is_in_doubt = synced.is_err();
    let (Written { length, checksum, reserved }, entries) = match synced.and(written) {
        Ok(written) => written,
        Err(error) => {
            let is_erased = block::erase(&*file, offset).is_ok();
            if is_erased && !is_in_doubt {
                turn.state.broken = None;
            }
            return Err(error);
        }
    };
    turn.state.broken = None;
    (turn.state.end, turn.state.checksum, turn.state.reserved) = (turn.state.end + length, checksum, reserved);
    turn.writer.log_bytes_written.fetch_add(length, Ordering::Relaxed);
    Ok(entries)
}

/// The header of a log whose commits count: a new log if there is none, named by page 0 of the
/// index.
fn header_or_new(turn: &mut Turn<'_>) -> Result<Header, Error> {
    let versions = &turn.read.versions;
    if turn.state.header.is_some() && versions.log.is_removed() {
        // Bytes that are written to it would be lost when this process ends. Its commits are still
        // written into the index.
        checkpoint(turn)?;
    }
    let header = match &turn.state.header {
        Some(header) => header.clone(),
        None => new_log(turn)?,
    };
    if turn.state.naming != Naming::Named {
        // The order matters: the log is on the disk before page 0 names it, and page 0 names it
        // before the commit is written.
        turn.name_log(header.tag)?;
    }
    Ok(header)
}

fn new_log(turn: &mut Turn<'_>) -> Result<Header, Error> {
    let versions = &turn.read.versions;
    let header = Header {
        identity: versions.identity,
        tag: header::new_log_tag(0),
        sequence: 1,
        start: turn.state.start,
        base_pages: versions.shared.base_pages(),
        base_position: turn.state.base_position,
    };
    versions.log.create(&header)?;
    turn.state.reserved = 0;
    turn.state.header = Some(header.clone());
    Ok(header)
}

/// Shows all readers the block that [`append`] wrote.
pub(crate) fn publish<'b>(
    turn: &mut Turn<'_>,
    entries: &[Entry],
    commit: u64,
    page_count: u32,
    body_of: impl Fn(u32) -> &'b [u8],
) {
    let (pool, versions) = (&turn.read.pool, &turn.read.versions);
    let shared = &versions.shared;
    shared.begin(commit);
    pool.grow(page_count);
    let mut left = Vec::with_capacity(RETIRED_AT_ONCE);
    // New pages come first, page 0 last: a reader that sees a page finds all pages that it
    // names.
    let committed = shared.page_count();
    let (new, old): (Vec<&Entry>, Vec<&Entry>) = entries.iter().partition(|entry| entry.page >= committed);
    for (at, entry) in new.iter().chain(&old).enumerate() {
        if at == new.len() {
            shared.set_page_count(page_count);
        }
        shared.set_newest(entry.page, entry.lsn);
        let frame = pool.take().map(|mut frame| {
            let bytes = pool.frames().bytes_mut(&mut frame);
            bytes[HOST_HEADER_BYTES..].copy_from_slice(body_of(entry.page));
            header::stamp(PageId(entry.page), entry.lsn, versions.identity, bytes);
            frame
        });
        pool.replace(entry.page, frame, &mut left);
        if left.len() == RETIRED_AT_ONCE {
            pool.retire(left.drain(..));
        }
        note(&mut turn.state.dirty, entry.page, entry.kind);
    }
    pool.retire(left);
    shared.publish(commit);
    turn.writer.commits.fetch_add(1, Ordering::Relaxed);
}
