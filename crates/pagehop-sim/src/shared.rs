//! Writers that change one index at the same time, as sessions of a server do. Each runs on its own
//! thread, and a seed decides whose turn it is.
//!
//! One thread runs at a time. It passes the turn on before each step, at the beginning and the end
//! of its sections, when it waits for a lock, and before some of its reads. So a seed always gives
//! the same schedule, and every state of the pages is one that a crash could leave.
//!
//! As in PostgreSQL, a writer holds the lock of the index during one [`SharedSession::insert`] or
//! [`SharedSession::alone`]: several writers may hold it to insert rows, or one to do anything
//! else.

use std::cell::Cell;
use std::ops::{Deref, Range};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use pagehop_engine::page::{ChangeStep, NumberedStep, Pages, PagesMut, Reader, STEP_PAGES};
use pagehop_engine::{BODY_BYTES, Error, PageId};

use crate::{MemPages, Rng};

/// One read in this number passes the turn on.
const READS_PER_TURN: usize = 8;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    ForTurn,
    ForSection,
    ToInsert,
    ToBeAlone,
    Ended,
}

struct Inner {
    pages: MemPages,
    rng: Rng,
    /// The thread whose turn it is.
    turn: usize,
    threads: Vec<Waits>,
    /// The number of steps at which the statement of each thread began; `None` between statements.
    began: Vec<Option<u64>>,
    section: Option<usize>,
    /// The number of writers that hold the lock to insert rows, and whether one writer holds it
    /// alone.
    inserting: usize,
    is_alone: bool,
    steps: u64,
    /// The number of the step that fails, as if its transaction was cancelled.
    fails: Option<u64>,
}

impl Inner {
    fn may_go_on(&self, thread: usize) -> bool {
        match self.threads[thread] {
            Waits::ForTurn => true,
            Waits::ForSection => self.section.is_none(),
            Waits::ToInsert => !self.is_alone,
            Waits::ToBeAlone => !self.is_alone && self.inserting == 0,
            Waits::Ended => false,
        }
    }

    /// Gives the turn to a thread that can continue.
    fn pass_on(&mut self) {
        let ready: Vec<usize> = (0..self.threads.len()).filter(|thread| self.may_go_on(*thread)).collect();
        if ready.is_empty() {
            let all_ended = self.threads.iter().all(|waits| *waits == Waits::Ended);
            assert!(all_ended, "the writers wait for each other: {:?}", self.threads);
            return;
        }
        self.turn = ready[self.rng.below(ready.len())];
    }
}

/// A function that is called after every step, with the pages as they are then.
pub type AfterSharedStep<'a> = &'a (dyn Fn(&MemPages) + Sync);

/// The pages of an index that several writers change.
pub struct SharedHost<'a> {
    inner: Mutex<Inner>,
    turns: Condvar,
    after_step: Option<AfterSharedStep<'a>>,
}

/// The work of one writer.
pub type Writes<'w> = Box<dyn FnOnce(&SharedSession<'_>) + Send + 'w>;

impl<'a> SharedHost<'a> {
    /// A host with a copy of `pages`. Its writers take turns as `seed` decides.
    pub fn new(pages: &MemPages, seed: u64) -> Self {
        let inner = Inner {
            pages: pages.clone(),
            rng: Rng::new(seed),
            turn: 0,
            threads: Vec::new(),
            began: Vec::new(),
            section: None,
            inserting: 0,
            is_alone: false,
            steps: 0,
            fails: None,
        };
        Self { inner: Mutex::new(inner), turns: Condvar::new(), after_step: None }
    }

    /// Calls `after_step` after every step.
    pub fn with_after_step(self, after_step: AfterSharedStep<'a>) -> Self {
        Self { after_step: Some(after_step), ..self }
    }

    /// Makes one step fail. Steps are counted from 0 over all writers.
    pub fn with_failure(self, step: u64) -> Self {
        self.lock().fails = Some(step);
        self
    }

    /// Runs the writers until all have ended.
    ///
    /// # Panics
    ///
    /// If a writer panics, or they wait for each other.
    pub fn run(&self, writers: Vec<Writes<'_>>) {
        self.lock().threads = vec![Waits::ForTurn; writers.len()];
        self.lock().began = vec![None; writers.len()];
        self.lock().pass_on();
        std::thread::scope(|scope| {
            for (thread, writes) in writers.into_iter().enumerate() {
                scope.spawn(move || {
                    let ends = Ends { host: self, thread };
                    self.wait(thread);
                    writes(&SharedSession { host: self, thread });
                    drop(ends);
                });
            }
        });
    }

    /// A copy of the pages as they are now.
    pub fn pages(&self) -> MemPages {
        self.lock().pages.clone()
    }

    /// The number of steps that were made so far.
    pub fn steps(&self) -> u64 {
        self.lock().steps
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A thread that panicked fails the test. The other threads must still end.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Waits until it is the turn of `thread`.
    fn wait(&self, thread: usize) {
        let mut inner = self.lock();
        while inner.turn != thread {
            inner = self.turns.wait(inner).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        inner.threads[thread] = Waits::ForTurn;
    }

    /// Passes the turn on. Returns when the thread has the turn again and what it `waits` for.
    fn pause(&self, thread: usize, waits: Waits) {
        let mut inner = self.lock();
        inner.threads[thread] = waits;
        inner.pass_on();
        drop(inner);
        self.turns.notify_all();
        self.wait(thread);
    }
}

/// Passes the turn on when a writer ends, also when it panics.
struct Ends<'h, 'a> {
    host: &'h SharedHost<'a>,
    thread: usize,
}

impl Drop for Ends<'_, '_> {
    fn drop(&mut self) {
        let mut inner = self.host.lock();
        inner.threads[self.thread] = Waits::Ended;
        if !std::thread::panicking() {
            inner.pass_on();
        } else if let Some(next) = (0..inner.threads.len()).find(|next| inner.threads[*next] != Waits::Ended) {
            // The thread continues without the lock or turn that it waits for: the test has failed,
            // and only has to end.
            inner.turn = next;
        }
        drop(inner);
        self.host.turns.notify_all();
    }
}

/// What a writer sees of the index between its changes.
pub struct SharedSession<'h> {
    host: &'h SharedHost<'h>,
    thread: usize,
}

impl SharedSession<'_> {
    /// Does `work` as one statement: until it ends, the pages of a graph that it may read are not
    /// reused.
    pub fn statement<T>(&self, work: impl FnOnce() -> T) -> T {
        let steps = self.host.steps();
        self.host.lock().began[self.thread] = Some(steps);
        let done = work();
        self.host.lock().began[self.thread] = None;
        done
    }

    /// Calls `work` with a writer that inserts rows, while other writers may do so too.
    pub fn insert<T>(&self, work: impl FnOnce(&mut SharedWriter<'_>) -> T) -> T {
        self.host.pause(self.thread, Waits::ToInsert);
        self.host.lock().inserting += 1;
        let done = work(&mut SharedWriter { session: self, is_shared: true });
        let mut inner = self.host.lock();
        inner.inserting -= 1;
        assert!(inner.section != Some(self.thread), "a writer ended within its section");
        done
    }

    /// Calls `work` with a writer that is the only one.
    pub fn alone<T>(&self, work: impl FnOnce(&mut SharedWriter<'_>) -> T) -> T {
        self.host.pause(self.thread, Waits::ToBeAlone);
        self.host.lock().is_alone = true;
        let done = work(&mut SharedWriter { session: self, is_shared: false });
        self.host.lock().is_alone = false;
        done
    }

    fn read(&self, page: PageId) -> Result<SharedPage, Error> {
        let passes_on = self.host.lock().rng.one_in(READS_PER_TURN);
        if passes_on {
            self.host.pause(self.thread, Waits::ForTurn);
        }
        let body = self.host.lock().pages.shared(page).cloned();
        body.map(SharedPage).ok_or_else(|| Error::corrupt(page, "the page does not exist"))
    }
}

impl Pages for SharedSession<'_> {
    type Reader<'p>
        = SharedReader<'p>
    where
        Self: 'p;

    fn reader(&self) -> SharedReader<'_> {
        SharedReader { session: self, reads: Cell::new(0) }
    }

    fn page_count(&self) -> u32 {
        self.host.lock().pages.page_count()
    }
}

/// A page as it was when it was read.
pub struct SharedPage(Arc<[u8]>);

impl Deref for SharedPage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A reader of a [`SharedSession`].
pub struct SharedReader<'s> {
    session: &'s SharedSession<'s>,
    reads: Cell<u64>,
}

impl Reader for SharedReader<'_> {
    type Guard<'r>
        = SharedPage
    where
        Self: 'r;

    fn start(&self, _page: PageId, _bytes: Range<usize>) {}

    fn finish(&self, page: PageId) -> Result<SharedPage, Error> {
        self.reads.set(self.reads.get() + 1);
        self.session.read(page)
    }

    fn release(&mut self) {}

    fn pages_missed(&self) -> u64 {
        self.reads.get()
    }
}

/// A writer of a [`SharedSession`].
pub struct SharedWriter<'s> {
    session: &'s SharedSession<'s>,
    is_shared: bool,
}

impl PagesMut for SharedWriter<'_> {
    type Reader<'w>
        = SharedReader<'w>
    where
        Self: 'w;

    fn reader(&self) -> SharedReader<'_> {
        self.session.reader()
    }

    fn page_count(&self) -> u32 {
        self.session.page_count()
    }

    fn commit_number(&self) -> u64 {
        self.session.host.steps() + 1
    }

    fn oldest_snapshot(&self) -> u64 {
        let inner = self.session.host.lock();
        inner.began.iter().flatten().copied().min().unwrap_or(inner.steps)
    }

    fn allocate(&mut self, count: u32) -> Result<PageId, Error> {
        assert!(!self.is_shared || count == 1, "a writer beside others asks for {count} pages");
        self.reserve(count)
    }

    fn reserve(&mut self, count: u32) -> Result<PageId, Error> {
        let mut inner = self.session.host.lock();
        let first = inner.pages.page_count();
        (first..first + count).for_each(|page| inner.pages.put(PageId(page), &[0; BODY_BYTES]));
        Ok(PageId(first))
    }

    fn step(&mut self, pages: &[PageId], change: ChangeStep<'_>) -> Result<(), Error> {
        self.step_numbered(pages, &mut |bodies, _| change(bodies))
    }

    fn step_numbered(&mut self, pages: &[PageId], change: NumberedStep<'_>) -> Result<(), Error> {
        assert!(pages.len() <= STEP_PAGES, "a step of {} pages", pages.len());
        let SharedSession { host, thread } = *self.session;
        host.pause(thread, Waits::ForTurn);
        let mut inner = host.lock();
        inner.steps += 1;
        if inner.fails == Some(inner.steps - 1) {
            return Err(Error::Interrupted);
        }
        let mut bodies = Vec::with_capacity(pages.len());
        for page in pages {
            let body = inner.pages.get(*page);
            bodies.push(body.ok_or_else(|| Error::corrupt(*page, "the page does not exist"))?.to_vec());
        }
        let mut changed: Vec<&mut [u8]> = bodies.iter_mut().map(Vec::as_mut_slice).collect();
        change(&mut changed, inner.steps)?;
        for (page, body) in pages.iter().zip(bodies) {
            inner.pages.put(*page, &body);
        }
        if let Some(after_step) = host.after_step {
            let pages = inner.pages.clone();
            drop(inner);
            after_step(&pages);
        }
        Ok(())
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn begin_section(&mut self) -> Result<(), Error> {
        if self.is_shared {
            let SharedSession { host, thread } = *self.session;
            host.pause(thread, Waits::ForSection);
            let before = host.lock().section.replace(thread);
            assert!(before.is_none(), "two writers are in a section");
        }
        Ok(())
    }

    fn end_section(&mut self) {
        if self.is_shared {
            let SharedSession { host, thread } = *self.session;
            let before = host.lock().section.take();
            assert_eq!(before, Some(thread), "the section of another writer is ended");
            host.pause(thread, Waits::ForTurn);
        }
    }
}
