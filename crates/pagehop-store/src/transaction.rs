//! A transaction: pages of the writer's own until it commits.
//!
//! The first change of a page copies it. The copies are private: no reader sees them, and none
//! reaches the disk before the commit does. A rollback drops them.

use std::cell::OnceCell;

use pagehop_engine::page::ChangeStep;
use pagehop_engine::{
    BODY_BYTES, Error, HOST_HEADER_BYTES, PAGE_BYTES, PageId, PagesMut, Reader, STEP_PAGES, SharedPages,
};

use crate::changed_pages::{
    Body, Changes, TransactionReader, ZEROS, new_body, too_many_pages, transaction_is_full,
};
use crate::checkpoint::checkpoint;
use crate::commit;
use crate::process::snapshots;
use crate::reader::FileReader;
use crate::shared_transaction::{Member, Overlay};
use crate::writer::Turn;

/// A writer's changes to an index, which become visible and durable together with
/// [`Transaction::commit`], or not at all. Dropping it undoes it.
pub struct Transaction<'p> {
    turn: Turn<'p>,
    changes: Changes,
    page_count: u32,
    oldest: OnceCell<u64>,
    /// Bodies that a step works on before it is known to succeed.
    copies: Vec<Body>,
    /// The changes of several threads.
    overlay: Option<Overlay>,
    /// Number of threads that change it.
    threads: usize,
}

impl<'p> Transaction<'p> {
    pub(crate) fn begin(mut turn: Turn<'p>) -> Result<Self, Error> {
        turn.check()?;
        if turn.is_log_long() {
            checkpoint(&mut turn)?;
        }
        let page_count = turn.read.pool.page_count();
        let (changes, oldest) = (Changes::default(), OnceCell::new());
        Ok(Self { turn, changes, page_count, oldest, copies: Vec::new(), overlay: None, threads: 1 })
    }

    /// Makes all changes visible to every reader, and durable as the index was opened to be.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] if the disk is full and [`Error::Io`] if the system refuses; nothing has
    /// changed then. If it is unknown whether the log reached the disk, nothing can be committed
    /// until the index is opened again. The transaction may then be committed or not.
    pub fn commit(mut self) -> Result<(), Error> {
        let committed = self.committed();
        if self.changes.bodies.is_empty() && self.page_count == committed {
            return Ok(());
        }
        self.turn.writer.check_process(self.turn.read)?;
        // Page 0 is in every transaction: its log position is the highest in the file, and its
        // identity.
        if self.changes.get(0).is_none() {
            self.step(&[PageId(0)], &mut |_| Ok(()))?;
        }
        let allocated = (committed..self.page_count).filter(|&page| self.changes.get(page).is_none());
        let mut changed: Vec<u32> = self.changes.places.keys().copied().chain(allocated).collect();
        changed.sort_unstable();
        changed.rotate_left(1);
        let covered = self.turn.read.versions.shared.cover(self.page_count, true);
        covered.map_err(|error| {
            Error::io(format!("space for the table of changes of {}", self.turn.read.path().display()), error)
        })?;

        let commit = self.commit_number();
        let changes = &self.changes;
        let body_of = |page| changes.get(page).unwrap_or(&ZEROS);
        let entries = commit::append(&mut self.turn, &changed, self.page_count, self.threads, body_of)?;
        commit::publish(&mut self.turn, &entries, commit, self.page_count, body_of);
        Ok(())
    }

    fn committed(&self) -> u32 {
        self.turn.read.pool.page_count()
    }

    /// Copies the bodies of `pages`, as they are now, to the front of `copies`.
    fn copy(&mut self, pages: &[PageId]) -> Result<(), Error> {
        while self.copies.len() < pages.len() {
            self.copies.push(new_body());
        }
        let committed = self.committed();
        let mut reader = None;
        for (&page, copy) in pages.iter().zip(&mut self.copies) {
            if let Some(body) = self.changes.get(page.0) {
                copy.copy_from_slice(body);
            } else if page.0 >= committed && page.0 < self.page_count {
                copy.fill(0);
            } else {
                let reader = reader.get_or_insert_with(|| FileReader::new(self.turn.read));
                copy.copy_from_slice(reader.finish(page)?);
            }
        }
        Ok(())
    }

    fn make_room(&self, pages: &[PageId]) -> Result<(), Error> {
        let more = pages.iter().filter(|page| self.changes.get(page.0).is_none()).count();
        let bytes = (self.changes.bodies.len() + more) as u64 * PAGE_BYTES as u64;
        if bytes > self.turn.writer.transaction_bytes {
            return Err(transaction_is_full(self.turn.writer.transaction_bytes));
        }
        Ok(())
    }
}

impl PagesMut for Transaction<'_> {
    type Reader<'w>
        = TransactionReader<'w>
    where
        Self: 'w;

    fn reader(&self) -> TransactionReader<'_> {
        let allocated = self.committed()..self.page_count;
        TransactionReader::new(&self.changes, allocated, FileReader::new(self.turn.read))
    }

    fn page_count(&self) -> u32 {
        self.page_count
    }

    fn commit_number(&self) -> u64 {
        self.turn.state.end
    }

    fn oldest_snapshot(&self) -> u64 {
        // The oldest snapshot only grows, so the first answer stays true.
        *self.oldest.get_or_init(|| snapshots::oldest(&self.turn.read.versions.shared))
    }

    fn bytes_left(&self) -> u64 {
        let held = self.changes.bodies.len() as u64 * PAGE_BYTES as u64;
        self.turn.writer.transaction_bytes.saturating_sub(held)
    }

    fn allocate(&mut self, count: u32) -> Result<PageId, Error> {
        let first = self.page_count;
        let most = self.turn.read.pool.capacity().min(u32::MAX - 1);
        match first.checked_add(count) {
            Some(pages) if pages <= most => {
                self.page_count = pages;
                Ok(PageId(first))
            }
            _ => Err(too_many_pages(self.turn.read, first, count)),
        }
    }

    fn step(&mut self, pages: &[PageId], change: ChangeStep<'_>) -> Result<(), Error> {
        assert!(pages.len() <= STEP_PAGES, "a step has at most {STEP_PAGES} pages");
        assert!((1..pages.len()).all(|at| !pages[..at].contains(&pages[at])), "a step's pages are distinct");
        self.make_room(pages)?;
        self.copy(pages)?;
        let mut bodies: [&mut [u8]; STEP_PAGES] = Default::default();
        for (body, copy) in bodies.iter_mut().zip(&mut self.copies[..pages.len()]) {
            *body = &mut copy[..];
        }
        change(&mut bodies[..pages.len()])?;
        for (&page, copy) in pages.iter().zip(&mut self.copies) {
            let place = self.changes.place(page.0);
            std::mem::swap(&mut self.changes.bodies[place], copy);
        }
        Ok(())
    }
}

impl SharedPages for Transaction<'_> {
    type Member<'w>
        = Member<'w>
    where
        Self: 'w;

    fn members(&mut self, count: usize) -> Vec<Member<'_>> {
        self.threads = count;
        let (commit, oldest) = (self.commit_number(), self.oldest_snapshot());
        let Self { turn, changes, page_count, overlay, .. } = self;
        let overlay = &*overlay.insert(Overlay::new(*page_count, changes.bodies.len()));
        let member = |_| Member {
            read: turn.read,
            before: changes,
            overlay,
            commit,
            oldest,
            transaction_bytes: turn.writer.transaction_bytes,
            spare: Vec::new(),
            is_in_section: false,
        };
        (0..count).map(member).collect()
    }

    fn join(&mut self) {
        let Some(overlay) = self.overlay.take() else { return };
        self.page_count = overlay.page_count();
        for (page, body) in overlay.into_bodies() {
            let place = self.changes.place(page);
            self.changes.bodies[place] = body;
        }
    }
}

const _: () = assert!(BODY_BYTES + HOST_HEADER_BYTES == PAGE_BYTES);

#[cfg(test)]
mod tests {
    use pagehop_engine::{PageSink, Pages};

    use super::*;
    use crate::process::attach;
    use crate::{IndexFile, NewIndexFile, OpenOptions};

    fn write_all(transaction: &mut Transaction<'_>, version: u8) {
        for page in 1..10 {
            let step = &mut |bodies: &mut [&mut [u8]]| {
                bodies[0].fill(version);
                Ok(())
            };
            transaction.step(&[PageId(page)], step).unwrap();
        }
    }

    /// The state after a writer was killed while it made a commit visible: the log has the whole
    /// commit, the table of changes has `shown` of its pages, and the locks are free.
    fn die_showing(writer: IndexFile, shown: usize) -> u64 {
        let mut transaction = writer.begin().unwrap();
        write_all(&mut transaction, 2);
        let new = transaction.allocate(1).unwrap();
        transaction.step(&[PageId(0), new], &mut |_| Ok(())).unwrap();
        let (changes, page_count) = (&transaction.changes, transaction.page_count);
        let mut changed: Vec<u32> = changes.places.keys().copied().collect();
        changed.sort_unstable_by_key(|&page| std::cmp::Reverse(page));
        let body_of = |page| changes.get(page).unwrap_or(&ZEROS);
        let entries = commit::append(&mut transaction.turn, &changed, page_count, 1, body_of).unwrap();
        let (commit, shared) = (transaction.turn.state.end, &writer.read.versions.shared);
        shared.begin(commit);
        for (at, entry) in entries.iter().take(shown).enumerate() {
            if at == 1 {
                shared.set_page_count(page_count);
            }
            shared.set_newest(entry.page, entry.lsn);
        }
        attach::end_writing(shared);
        drop(transaction);
        std::mem::forget(writer);
        commit
    }

    #[test]
    fn a_reader_sees_all_of_a_commit_whose_writer_died_while_it_showed_it() {
        let folder = std::env::temp_dir().join(format!("pagehop-dead-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        for shown in 0..11 {
            let path = folder.join(shown.to_string());
            let mut sink = NewIndexFile::create(&path, true).unwrap();
            for page in (1..10).chain([0]) {
                let mut body = [1; BODY_BYTES];
                body[..8].copy_from_slice(b"PAGEHOP\0");
                sink.write(PageId(page), &body).unwrap();
            }
            sink.finish().unwrap();
            let writer = IndexFile::open(&path, &OpenOptions { write: true, ..OpenOptions::default() }).unwrap();
            let reader_of = IndexFile::open(&path, &OpenOptions::default()).unwrap();
            let mut reader = reader_of.reader();
            let before = reader.snapshot(true);
            assert_eq!(reader_of.page_count(), 10);
            let commit = die_showing(writer, shown);
            assert!(reader.snapshot(false) == before && reader.snapshot(true) > before, "{shown} shown");
            assert_eq!(reader_of.page_count(), 11, "{shown} shown");
            for page in 1..10 {
                assert_eq!(reader.finish(PageId(page)).unwrap()[100], 2, "page {page}, {shown} shown");
                reader.release();
            }
            let next = IndexFile::open(&path, &OpenOptions { write: true, ..OpenOptions::default() }).unwrap();
            assert_eq!(next.reader().snapshot(true), reader.snapshot(true), "{shown} shown, commit {commit}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
