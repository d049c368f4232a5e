//! The newest version of a page: its version in the index file, and the changes since then in the
//! log.
//!
//! A page without an entry in the table of newest changes is as it is in the file. For others, the
//! chain of records is read back to an image or to the version that the file has, and applied
//! forward. If the chain does not contain the file's version, because a checkpoint is writing the
//! page or was cut short by a loss of power, the chain is read back to the beginning of the log and
//! all of it is applied:
//!
//! - While a log lasts, only versions that it made are written over the page in the file. In any
//!   mixture of them, each byte is from one of them, or from the page as it was when the log began.
//! - Records are runs of bytes. Where these versions differ, a run of the chain has the newest
//!   value of the byte; where there is no run, they are all equal.
//!
//! So the result is the newest version of any mixture. A record also has the checksum of the body
//! after it: if the result has another, the page was damaged in some other way.
//!
//! This holds if the log began at the same position before the bytes were read and after the chain
//! was looked up. If another process ended a checkpoint in between, both are done again.

use pagehop_engine::{Error, HOST_HEADER_BYTES, PAGE_BYTES, PageId};
use pagehop_kernels::crc32c;

use crate::disk::base_file::BaseFile;
use crate::header::{self, Identity};
use crate::log::found::Found;
use crate::log::log_file::Log;
use crate::log::record::{self, CHAIN_MAX, Kind};
use crate::log::recover::recover;
use crate::process::attach;
use crate::process::shared_words::Shared;

/// The index file, its log, and the table with the newest version of each page.
pub(crate) struct Versions {
    pub(crate) base: BaseFile,
    pub(crate) log: Log,
    pub(crate) identity: Identity,
    pub(crate) shared: Box<Shared>,
    pub(crate) news: News,
}

/// How this process learns of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It makes the commits: it is the writer.
    Own,
    /// It reads the words that it shares with the writer.
    Shared,
    /// There are no shared words, so this process is not told of commits. It reads the log again
    /// when necessary.
    None,
}

/// The bytes that records are applied to.
enum Base {
    /// A whole page, which was read at some time.
    Whole,
    /// The bytes in the file, read since the log began; with the error, if they cannot be used as
    /// they are.
    Read(Result<(), Error>),
    /// No bytes, and the error that explains it.
    Nothing(Error),
}

impl Versions {
    /// Whether the index file has a version of `page` that may be needed.
    pub(crate) fn has_base(&self, page: u32) -> bool {
        page < self.shared.base_pages() || self.shared.newest(page) < self.shared.log_start()
    }

    /// Reads the version of `page` in the index file, which may be old.
    pub(crate) fn read_base(&self, page: u32, bytes: &mut [u8; PAGE_BYTES]) -> Result<(), Error> {
        if !self.has_base(page) {
            return Err(self.without_base(page));
        }
        self.base.read(PageId(page), bytes)
    }

    /// Makes `bytes` the newest version of `page`, given that reading an older one into it ended
    /// with `base`.
    #[inline]
    pub(crate) fn complete(
        &self,
        page: u32,
        bytes: &mut [u8; PAGE_BYTES],
        base: Result<(), Error>,
    ) -> Result<(), Error> {
        if base.is_ok() && header::log_position(bytes) >= self.shared.newest(page) {
            return Ok(());
        }
        self.rebuild(page, bytes, base.is_ok())
    }

    /// Reads the newest version of `page`.
    pub(crate) fn read_newest(&self, page: u32, bytes: &mut [u8; PAGE_BYTES]) -> Result<(), Error> {
        let base = self.read_base(page, bytes);
        self.complete(page, bytes, base)
    }

    /// [`Versions::complete`] for `bytes` that are not the newest version, though perhaps one that
    /// `is_whole`.
    #[cold]
    fn rebuild(&self, page: u32, bytes: &mut [u8; PAGE_BYTES], is_whole: bool) -> Result<(), Error> {
        // Usually the chain of records leads to the version that was read, or the page has no
        // records.
        if is_whole && self.bring_up(page, bytes, self.shared.log_start(), Base::Whole).is_ok() {
            return Ok(());
        }
        let mut has_looked_again = false;
        loop {
            let start = self.shared.log_start();
            let base = self.read_again(page, bytes);
            let Err(error) = self.bring_up(page, bytes, start, base) else { return Ok(()) };
            if start != self.shared.log_start() {
                continue;
            }
            if has_looked_again || !self.look_again() {
                return Err(error);
            }
            has_looked_again = true;
        }
    }

    fn read_again(&self, page: u32, bytes: &mut [u8; PAGE_BYTES]) -> Base {
        if !self.has_base(page) {
            return Base::Nothing(self.without_base(page));
        }
        match self.base.read_unverified(PageId(page), bytes) {
            Ok(()) => Base::Read(self.base.verify(PageId(page), bytes)),
            Err(error) => Base::Nothing(error),
        }
    }

    /// Applies to `bytes`, which is a `base`, the records of `page` that it lacks, in the log that
    /// begins at `start`. If that fails, the content of `bytes` is undefined.
    fn bring_up(&self, page: u32, bytes: &mut [u8; PAGE_BYTES], start: u64, base: Base) -> Result<(), Error> {
        // This comes after the read of the base: the table now has all changes that the base may
        // lack.
        let newest = self.shared.newest(page);
        let have = match &base {
            Base::Whole | Base::Read(Ok(())) => Some(header::log_position(bytes)),
            Base::Read(Err(_)) | Base::Nothing(_) => None,
        };
        if have.is_some_and(|have| have >= newest) {
            return Ok(());
        }
        if newest < start {
            return Err(match base {
                Base::Nothing(error) | Base::Read(Err(error)) => error,
                Base::Whole | Base::Read(Ok(())) => self.other_version(page, newest, have.unwrap_or(0)),
            });
        }
        let file = self.log.existing()?;
        let mut records = Vec::new();
        let mut at = newest;
        loop {
            let record = record::read(&self.log, &*file, page, at, start)?;
            let (kind, previous) = (record.header.kind, record.header.previous);
            records.push(record);
            if kind != Kind::Delta || have == Some(previous) {
                break;
            }
            if previous < start {
                match base {
                    Base::Whole => return Err(self.other_version(page, previous, have.unwrap_or(0))),
                    Base::Nothing(error) => return Err(error),
                    // The chain is complete, so it may be applied to any base.
                    Base::Read(_) => break,
                }
            }
            if records.len() == usize::from(CHAIN_MAX) {
                let what =
                    format!("its records in {} do not reach a base version from position {at}", self.log.name());
                return Err(Error::corrupt(PageId(page), what));
            }
            at = previous;
        }
        if start != self.shared.log_start() {
            let what = format!("{} began again while its records were read", self.log.name());
            return Err(Error::corrupt(PageId(page), what));
        }
        let body = &mut bytes[HOST_HEADER_BYTES..];
        for record in records.iter().rev() {
            record.apply(body).ok_or_else(|| {
                let what = format!("a record of it in {} cannot be decoded", self.log.name());
                Error::corrupt(PageId(page), what)
            })?;
        }
        if crc32c(body, 0) != records[0].header.body_checksum {
            return Err(self.beyond_repair(page, newest, base));
        }
        header::stamp(PageId(page), newest, self.identity, bytes);
        Ok(())
    }

    /// Refreshes the state that may have changed without notice. Returns whether there was such
    /// state. The log may have been replaced by another file. Without shared words it may also be
    /// longer than this process knows.
    fn look_again(&self) -> bool {
        match self.news {
            News::Own => false,
            News::Shared => {
                self.log.forget();
                true
            }
            News::None => self.catch_up().is_ok(),
        }
    }

    /// Reads the log again, if commits of other processes are not announced.
    pub(crate) fn catch_up(&self) -> Result<(), Error> {
        self.log.forget();
        let (_, recovered) = recover(|| Found::in_file(&self.base), &self.log, &self.shared)?;
        recovered.show(&self.shared);
        Ok(())
    }

    /// Shows all of a commit that a writer was showing when it died; the commit is in the log. Does
    /// nothing while the writer lives, or while another process opens the index. The log is not
    /// changed: the next writer repairs it.
    #[cold]
    pub(crate) fn finish_commit(&self) {
        if self.news != News::Shared {
            return;
        }
        // If the log cannot be read, readers of pages report it.
        let _ = attach::without_writer(&self.shared, || {
            if self.shared.is_between_commits() { self.catch_up() } else { Ok(()) }
        });
    }

    fn without_base(&self, page: u32) -> Error {
        let path = self.base.path().display();
        Error::corrupt(PageId(page), format!("neither {path} nor its log has a version of it"))
    }

    fn other_version(&self, page: u32, expected: u64, found: u64) -> Error {
        let path = self.base.path().display();
        Error::corrupt(PageId(page), format!("expected its version {expected}, found {found}, in {path}"))
    }

    /// The error for a page that is not the committed one after all of its records were applied.
    fn beyond_repair(&self, page: u32, newest: u64, base: Base) -> Error {
        let (path, log) = (self.base.path().display(), self.log.name());
        let fault = match base {
            Base::Read(Err(Error::Corrupt { what, .. })) => format!("{what}; "),
            _ => String::new(),
        };
        Error::corrupt(
            PageId(page),
            format!(
                "{fault}{path} is damaged, and with the records up to position {newest} of {log} it is still not \
                 what was committed: bring back a copy of both files of the same time, or build the index again"
            ),
        )
    }
}

#[cfg(test)]
mod tests;
