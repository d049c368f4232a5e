//! What an index file and its log say together when nobody has them open.
//!
//! Nothing is applied: the log's whole blocks fill the table of newest changes, and pages are made from both
//! as they are asked for, those that a checkpoint left half written like the others (`rebuild.rs`). Only a writer
//! changes a file: it cuts off what is behind the log's last whole block, so that it never comes to life again.

use pagehop_engine::{Error, PAGE_BYTES, PageId};

use crate::file::FilePages;
use crate::log::block::End;
use crate::log::record::Kind;
use crate::log::{Header, Identity, Log};
use crate::pread::PageBuffer;
use crate::shared::Shared;
use crate::write::Dirty;

/// The file of an index, as it was found.
pub(crate) struct Found {
    pub(crate) identity: Identity,
    /// Log position of page 0, unless the page is torn or damaged.
    pub(crate) position: Option<u64>,
    /// Bytes of the file.
    pub(crate) length: u64,
    /// What errors call it.
    pub(crate) name: String,
}

/// What was found out; the table of newest changes has the rest.
pub(crate) struct Recovered {
    /// The log's header; `None` if there is no log, or only one to be replaced.
    pub(crate) header: Option<Header>,
    pub(crate) end: End,
    pub(crate) dirty: Dirty,
    pub(crate) page_count: u32,
    /// The newest commit.
    pub(crate) commit: u64,
    pub(crate) base_pages: u32,
}

/// The first position that is above `position`, and above all in an index whose page 0 has it.
fn position_above(position: u64) -> u64 {
    const ROUND: u64 = 8192;
    (position / ROUND + 1) * ROUND
}

/// Reads the log of `found` and fills the table of `shared`.
pub(crate) fn recover(found: &Found, log: &Log, shared: &Shared) -> Result<Recovered, Error> {
    let header = log.read_header()?.filter(|header| header.identity == found.identity);
    let Some(header) = header else { return without_log(found, shared) };
    // A torn page 0 has its identity, which never changes, but says nothing of its age.
    let position = found.position;
    if position.is_some_and(|position| position < header.base_position) {
        let (index, log) = (&found.name, log.name());
        return Err(Error::Format {
            what: format!(
                "{index} is older than its log {log}: one of them is a copy from another time; bring back both of \
                 the same time, or remove the log if what it holds is not wanted"
            ),
        });
    }
    let mut dirty = Dirty::default();
    let mut refused = None;
    let end = log.scan(&header, |block| {
        match shared.cover(block.page_count, true) {
            Ok(()) => {}
            Err(error) => refused = Some(error),
        }
        if refused.is_some() {
            return;
        }
        for entry in &block.entries {
            shared.raise_newest(entry.page, entry.lsn);
            note(&mut dirty, entry.page, entry.kind);
        }
    })?;
    if let Some(error) = refused {
        return Err(Error::io(format!("memory for the changes of {}", found.name), error));
    }
    if position.is_some_and(|position| position >= end.lsn) {
        // The index has all of it, and more: the log of an older copy, or an older header of this one.
        dirty.keys().for_each(|&page| shared.set_newest(page, 0));
        return without_log(found, shared);
    }
    let pages = u32::try_from(found.length / PAGE_BYTES as u64).unwrap_or(u32::MAX);
    if pages < header.base_pages {
        let what = format!("{} is truncated: {pages} of {} pages are left", found.name, header.base_pages);
        return Err(Error::corrupt(PageId(pages), what));
    }
    let (commit, page_count) = end.last.unwrap_or((position.unwrap_or(header.base_position), header.base_pages));
    shared.cover(page_count, true).map_err(|error| Error::io("memory for the table of changes", error))?;
    Ok(Recovered { end, dirty, page_count, commit, base_pages: header.base_pages, header: Some(header) })
}

fn without_log(found: &Found, shared: &Shared) -> Result<Recovered, Error> {
    let page_count = whole_pages(found)?;
    let commit = found.position.unwrap_or(0);
    let end = End { lsn: position_above(commit), checksum: 0, last: None };
    shared.cover(page_count, true).map_err(|error| Error::io("memory for the table of changes", error))?;
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

/// Counts the records of a page since its last image.
pub(crate) fn note(dirty: &mut Dirty, page: u32, kind: Kind) {
    let records = dirty.entry(page).or_insert(0);
    *records = if kind == Kind::Delta { records.saturating_add(1) } else { 1 };
}

impl FilePages {
    /// Reads the log once more, where nobody says what it has got: in a directory that may not be written.
    pub(crate) fn catch_up(&self) -> Result<(), Error> {
        self.log.forget();
        let refused = |error| Error::io(format!("read of {}", self.path().display()), error);
        let mut page_0 = PageBuffer::new();
        let whole = self.file.read(PageId(0), &mut page_0.0).is_ok();
        let found = Found {
            identity: self.identity,
            position: whole.then(|| crate::header::log_position(&page_0.0)),
            length: self.file.length().map_err(refused)? / PAGE_BYTES as u64 * PAGE_BYTES as u64,
            name: self.path().display().to_string(),
        };
        let recovered = recover(&found, &self.log, &self.shared)?;
        self.shared.set_base(recovered.end_start(), recovered.base_pages);
        self.shared.set_page_count(recovered.page_count);
        self.shared.publish(recovered.commit);
        Ok(())
    }
}

impl Recovered {
    /// Position where the log begins, or will.
    pub(crate) fn end_start(&self) -> u64 {
        self.header.as_ref().map_or(self.end.lsn, |header| header.start)
    }
}
