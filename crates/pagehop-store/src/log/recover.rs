//! Recovery: the state of an index from its file and its log, when no process has them open.
//!
//! **Whether the log counts** depends on page 0 of the index: before the first commit since a
//! checkpoint, the writer puts the log's tag on it, and the checkpoint takes it off again. A log
//! that page 0 names must be there; one that it does not name has nothing that the index lacks.
//! Otherwise one of the two was removed, or is a copy from another time. That is an error, because
//! going on without the log would lose its commits.
//!
//! **Nothing is applied**: the log's whole blocks fill the table of newest changes, and pages are
//! made from both files as they are read, those that a checkpoint left half written like the others
//! (`versions.rs`). Only a writer changes a file: it cuts off the bytes behind the log's last whole
//! block, so that they never count.

use std::io;

use pagehop_engine::{Error, PAGE_BYTES, PageId};

use crate::log::block::{self, End, Entry};
use crate::log::dirty::{Dirty, note};
use crate::log::found::Found;
use crate::log::log_file::{Header, Log};
use crate::process::shared_words::Shared;

/// The result of recovery; the table of newest changes has the rest.
pub(crate) struct Recovered {
    /// The log's header; `None` if there is no log that counts.
    pub(crate) header: Option<Header>,
    pub(crate) end: End,
    pub(crate) dirty: Dirty,
    pub(crate) page_count: u32,
    /// The newest commit.
    pub(crate) commit: u64,
    pub(crate) base_pages: u32,
}

/// The first position that is above `position`, and above all positions in an index whose page 0
/// has it.
fn position_above(position: u64) -> u64 {
    const ROUND: u64 = 8192;
    (position / ROUND + 1) * ROUND
}

/// Reads the log and fills the table of `shared`. If a checkpoint or a first commit ran between the
/// `look` at page 0 and the read of the log, both are read again.
pub(crate) fn recover(
    look: impl Fn() -> Result<Found, Error>,
    log: &Log,
    shared: &Shared,
) -> Result<(Found, Recovered), Error> {
    let mut found = look()?;
    loop {
        match recover_found(&found, log, shared) {
            Ok(recovered) => return Ok((found, recovered)),
            Err(error) => {
                let now = look()?;
                if now == found {
                    return Err(error);
                }
                found = now;
                log.forget();
            }
        }
    }
}

fn recover_found(found: &Found, log: &Log, shared: &Shared) -> Result<Recovered, Error> {
    // A log of another index does not count.
    let header = log.read_header()?.filter(|header| header.identity == found.identity);
    match (found.position, header) {
        (Some(position), Some(header)) if found.tag == header.tag => {
            with_log(found, Some(position), header, log, shared)
        }
        (Some(_), None) if found.tag != 0 => Err(log_is_missing(found, log)),
        (Some(_), Some(_)) if found.tag != 0 => Err(log_is_another(found, log)),
        (Some(position), Some(header)) => {
            let end = block::scan(log, &header, |_| {})?;
            match end.last {
                Some((commit, _)) if position < commit => Err(index_is_older(found, log)),
                // A checkpoint wrote all of the log into the index, and was then cut short.
                _ => without_log(found, shared),
            }
        }
        // A torn page 0 has its identity, which never changes. The log will make it whole.
        (None, Some(header)) if found.tag == header.tag || found.tag == 0 => {
            with_log(found, None, header, log, shared)
        }
        (_, None) | (None, Some(_)) => without_log(found, shared),
    }
}

/// Fills the table from a log that counts. `position` is that of page 0, if it is whole.
fn with_log(
    found: &Found,
    position: Option<u64>,
    header: Header,
    log: &Log,
    shared: &Shared,
) -> Result<Recovered, Error> {
    if position.is_some_and(|position| position < header.base_position) {
        return Err(index_is_older(found, log));
    }
    let mut dirty = Dirty::default();
    let mut refused = None;
    // Other processes may be reading, and they may not have seen the newest of these commits.
    shared.begin(u64::MAX);
    let end = block::scan(log, &header, |block| {
        match shared.cover(block.page_count, true) {
            Ok(()) => {}
            Err(error) => refused = Some(error),
        }
        if refused.is_some() {
            return;
        }
        // The order of a commit: new pages, their count, pages that name them.
        let known = shared.page_count();
        let raise = |entry: &Entry| shared.raise_newest(entry.page, entry.lsn);
        block.entries.iter().filter(|entry| entry.page >= known).for_each(raise);
        shared.raise_page_count(block.page_count);
        block.entries.iter().filter(|entry| entry.page < known).for_each(raise);
        block.entries.iter().for_each(|entry| note(&mut dirty, entry.page, entry.kind));
    })?;
    if let Some(error) = refused {
        return Err(no_table(found, error));
    }
    if position.is_some_and(|position| position > header.base_position && position >= end.lsn) {
        dirty.keys().for_each(|&page| shared.set_newest(page, 0));
        return Err(log_is_another(found, log));
    }
    let pages = u32::try_from(found.length / PAGE_BYTES as u64).unwrap_or(u32::MAX);
    if pages < header.base_pages {
        let what = format!("{} is truncated: {pages} of {} pages are left", found.name, header.base_pages);
        return Err(Error::corrupt(PageId(pages), what));
    }
    let (commit, page_count) = end.last.unwrap_or((position.unwrap_or(header.base_position), header.base_pages));
    shared.cover(page_count, true).map_err(|error| no_table(found, error))?;
    Ok(Recovered { end, dirty, page_count, commit, base_pages: header.base_pages, header: Some(header) })
}

fn without_log(found: &Found, shared: &Shared) -> Result<Recovered, Error> {
    let page_count = whole_pages(found)?;
    let commit = found.position.unwrap_or(0);
    let end = End { lsn: position_above(commit), checksum: 0, last: None };
    shared.cover(page_count, true).map_err(|error| no_table(found, error))?;
    Ok(Recovered { header: None, end, dirty: Dirty::default(), page_count, commit, base_pages: page_count })
}

/// Pages of a file that must be whole.
fn whole_pages(found: &Found) -> Result<u32, Error> {
    let name = &found.name;
    let Ok(page_count) = u32::try_from(found.length / PAGE_BYTES as u64) else {
        let what = format!("{name} has {} bytes, more than an index can have", found.length);
        return Err(Error::Format { what });
    };
    if !found.length.is_multiple_of(PAGE_BYTES as u64) {
        let what = format!("{name} is truncated: {} bytes are not whole pages", found.length);
        return Err(Error::corrupt(PageId(page_count), what));
    }
    Ok(page_count)
}

impl Recovered {
    /// Shows all processes the recovered state.
    pub(crate) fn show(&self, shared: &Shared) {
        shared.set_base(self.end_start(), self.base_pages);
        shared.set_page_count(self.page_count);
        shared.publish(self.commit);
    }

    /// Position where the log begins, or will begin.
    pub(crate) fn end_start(&self) -> u64 {
        self.header.as_ref().map_or(self.end.lsn, |header| header.start)
    }
}

fn no_table(found: &Found, error: io::Error) -> Error {
    Error::io(format!("memory for the table of changes of {}", found.name), error)
}

fn log_is_missing(found: &Found, log: &Log) -> Error {
    let (index, log) = (&found.name, log.name());
    let what = format!(
        "{index} has commits in its log, and {log} is missing or not that log. Bring the log back: an index that was \
         not closed is renamed, moved or copied together with its log"
    );
    Error::Format { what }
}

fn log_is_another(found: &Found, log: &Log) -> Error {
    let (index, log) = (&found.name, log.name());
    let what = format!(
        "{index} and its log {log} do not belong together: one of them is a copy from another time, or of another \
         copy of the index. Bring back both of the same time"
    );
    Error::Format { what }
}

fn index_is_older(found: &Found, log: &Log) -> Error {
    let (index, log) = (&found.name, log.name());
    let what = format!(
        "{index} is older than its log {log}: one of them is a copy from another time. Bring back both of the same \
         time, or remove the log if its commits are not wanted"
    );
    Error::Format { what }
}
