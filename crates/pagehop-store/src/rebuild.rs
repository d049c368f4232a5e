//! A page as it is now: what the index file holds of it, and what the log says happened since.
//!
//! A page that the table of newest changes says nothing about is as it is in the file. Of others, the chain of
//! records is read back to an image, or to the version in the file (or in an older frame), and applied forward.
//!
//! Another process may be writing a checkpoint meanwhile, so a page may be half written when it is read, and
//! a record may be gone because the index has it by now. Both show in the shared words, and mean: once more.

use std::time::{Duration, Instant};

use pagehop_engine::{Error, HOST_HEADER_BYTES, PAGE_BYTES, PageId};

use crate::file::FilePages;
use crate::header;
use crate::log::record::{CHAIN_MAX, Kind};

/// How long to try to read a page that a checkpoint seems to be writing.
const PATIENCE: Duration = Duration::from_secs(1);

impl FilePages {
    /// Whether the index file has some version of `page` that may be needed.
    pub(crate) fn has_base(&self, page: u32) -> bool {
        page < self.shared.base_pages() || self.shared.newest(page) < self.shared.log_start()
    }

    /// Reads what the index file holds of `page`, which may be old.
    pub(crate) fn read_base(&self, page: u32, bytes: &mut [u8; PAGE_BYTES]) -> Result<(), Error> {
        if !self.has_base(page) {
            return Err(self.without_base(page));
        }
        self.file.read(PageId(page), bytes)
    }

    /// Makes `bytes` the newest version of `page`, given that reading an older one into it ended with `base`.
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
        self.rebuild(page, bytes, base)
    }

    /// Reads the newest version of `page`.
    pub(crate) fn read_newest(&self, page: u32, bytes: &mut [u8; PAGE_BYTES]) -> Result<(), Error> {
        let base = self.read_base(page, bytes);
        self.complete(page, bytes, base)
    }

    #[cold]
    fn rebuild(&self, page: u32, bytes: &mut [u8; PAGE_BYTES], base: Result<(), Error>) -> Result<(), Error> {
        let mut base = base;
        let mut since: Option<Instant> = None;
        loop {
            let (start, phase) = (self.shared.log_start(), self.shared.checkpoint_phase());
            let Err(error) = self.bring_up(page, bytes, base, start) else { return Ok(()) };
            // What was read before may be of before the last change.
            let again = self.read_base(page, bytes);
            let is_moving = |now: u64| now != phase || now % 2 == 1;
            let moves = start != self.shared.log_start() || is_moving(self.shared.checkpoint_phase());
            let first = since.is_none();
            let began = *since.get_or_insert_with(Instant::now);
            let goes_on = first || moves && began.elapsed() < PATIENCE;
            if !goes_on {
                // Nobody is at it: a checkpoint that was cut short, or damage.
                return if self.read_image(page, bytes)? {
                    self.bring_up(page, bytes, Ok(()), self.shared.log_start())
                } else if self.follows_by_itself() {
                    Err(error)
                } else {
                    self.catch_up_and(page, bytes, error)
                };
            }
            if !first {
                std::thread::yield_now();
            }
            base = again;
        }
    }

    /// Without shared words, nobody says that the log has moved on: it is read anew, once.
    fn catch_up_and(&self, page: u32, bytes: &mut [u8; PAGE_BYTES], error: Error) -> Result<(), Error> {
        if self.catch_up().is_err() {
            return Err(error);
        }
        let base = self.read_base(page, bytes);
        self.bring_up(page, bytes, base, self.shared.log_start())
    }

    /// Applies to `bytes` the records of `page` that are newer, in the log that begins at `start`.
    fn bring_up(
        &self,
        page: u32,
        bytes: &mut [u8; PAGE_BYTES],
        base: Result<(), Error>,
        start: u64,
    ) -> Result<(), Error> {
        let newest = self.shared.newest(page);
        let have = base.as_ref().ok().map(|()| header::log_position(bytes));
        if have.is_some_and(|have| have >= newest) {
            return Ok(());
        }
        if newest < start {
            base?;
            let found = header::log_position(bytes);
            let what = format!("expected its version {newest}, found {found}, in {}", self.path().display());
            return Err(Error::corrupt(PageId(page), what));
        }
        let file = self.log.existing()?;
        let mut records = Vec::new();
        let mut at = newest;
        loop {
            let record = self.log.read_record(&*file, page, at, start)?;
            let (kind, previous) = (record.header.kind, record.header.previous);
            records.push(record);
            if kind != Kind::Delta {
                break;
            }
            // A delta is of exactly one version; an older frame or an early read may be of another.
            if have == Some(previous) {
                break;
            }
            if previous < start || records.len() == usize::from(CHAIN_MAX) {
                let what = format!("its records in {} lead nowhere from position {at}", self.log.name());
                return base.and(Err(Error::corrupt(PageId(page), what)));
            }
            at = previous;
        }
        for record in records.iter().rev() {
            record.apply(&mut bytes[HOST_HEADER_BYTES..]).ok_or_else(|| {
                let what = format!("a record of it in {} makes no sense", self.log.name());
                Error::corrupt(PageId(page), what)
            })?;
        }
        header::stamp(PageId(page), newest, self.identity, bytes);
        Ok(())
    }

    /// Reads the image of `page` that a checkpoint left in the log; `false` if there is none.
    fn read_image(&self, page: u32, bytes: &mut [u8; PAGE_BYTES]) -> Result<bool, Error> {
        let Some(file) = self.log.file()? else { return Ok(false) };
        let Some(chunk) = self.log.read_chunk(&*file, self.identity)? else { return Ok(false) };
        let Some(place) = chunk.place_of(page) else { return Ok(false) };
        Ok(self.log.read_image(&*file, &chunk, place, bytes)?.is_some())
    }

    fn without_base(&self, page: u32) -> Error {
        let path = self.path().display();
        Error::corrupt(PageId(page), format!("neither {path} nor its log has a version of it"))
    }
}
