//! Trains the model of an index again while other writers insert rows, for a host that owns the
//! rows and has their vectors.
//!
//! ```text
//! beside others   read the rows, train, connect: no page is touched, which is nearly all the work
//! alone           step: the index says that another graph is made, on pages that are reserved
//! beside others   write its pages, with a meta page of its own (graph_pages.rs)
//! alone           step: from now on each writer inserts a row into that graph, then into this one
//! beside others   insert the rows into it that came between the first line and this step
//! alone           step: its meta page becomes that of the index
//! ```
//!
//! Searches go on with the old graph until the last step, and find all rows before and after it. A
//! row that only the new graph has is one whose transaction ended between the two insertions; its
//! host removes it like any dead row.
//!
//! A training that ends earlier leaves its graph, and writers go on to insert rows there if they
//! had begun to. The next vacuum gives it up ([`Change::give_up_training`]). Its pages then become
//! free with those of retired graphs (`sweep.rs`).

use std::ops::ControlFlow;

use super::Change;
use super::training::{begin_graph, has_grown, replace};
use crate::columns::Value;
use crate::index::build;
use crate::index::change::pages::graph_pages::GraphReader;
use crate::index::change::pages::rows;
use crate::index::change::pages::steps::Steps;
use crate::index::change::pages::sweep;
use crate::index::open::Index;
use crate::index::state::{ShadowState, State};
use crate::page::kind;
use crate::page::meta::{GraphNumbers, Making, Meta};
use crate::page::{PageId, PageSink, Pages, PagesMut, Scratch};
use crate::row_ids::{self, IdKind};
use crate::{BuildOptions, Error, OnProgress, Progress, VectorSource};

/// Pages that are written in one turn.
const PAGES_PER_TURN: usize = 32;
/// Pages whose rows are listed in one turn.
const LISTED_PER_TURN: u32 = 128;
/// Rows that the host is asked for at once, and how many of them are inserted in one turn.
const ROWS_AT_ONCE: usize = 64;
const ROWS_PER_TURN: usize = 4;

/// Rows that a host has: ids, vectors, and the values of the columns of the index, each one row
/// after the other.
#[derive(Clone, Debug, Default)]
pub struct HostRows {
    /// The ids.
    pub row_ids: Vec<u64>,
    /// The vectors.
    pub vectors: Vec<f32>,
    /// The values.
    pub values: Vec<Value>,
}

/// What a host does for [`Index::train_beside`].
pub trait TrainingHost {
    /// A writer's pages.
    type Pages<'p>: PagesMut;

    /// Passes the pages of a writer to `work`. If it `is_alone`, there is no other writer in this
    /// turn; if not, others may insert rows. Each turn is short.
    ///
    /// # Errors
    ///
    /// Those of the host, and of `work`.
    fn turn<T>(
        &mut self,
        is_alone: bool,
        work: impl FnOnce(&mut Self::Pages<'_>) -> Result<T, Error>,
    ) -> Result<T, Error>;

    /// The rows with these ids that a reader may still see, by ascending id.
    ///
    /// # Errors
    ///
    /// Those of the host.
    fn rows(&mut self, row_ids: &[u64]) -> Result<HostRows, Error>;

    /// The largest commit number at which a row may have been deleted that the host left out, of
    /// the rows of the index; 0 if it gave all that any reader sees. A reader elsewhere may still
    /// see such a row. Before it gets the new graph, which lacks the row, the host informs it
    /// ([`PagesMut::reuse`]).
    fn left_out(&self) -> u64 {
        0
    }

    /// See [`PageSink::scratch`].
    fn scratch(&self) -> Option<&dyn Scratch>;
}

impl<P: Pages> Index<P> {
    /// The ids of all rows of the index, in ascending order. Rows that are inserted at the same
    /// time may be missing.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if `progress` breaks; [`Error::Corrupt`]; any error of the host.
    pub fn host_row_ids<H: TrainingHost>(&self, host: &mut H, progress: OnProgress<'_>) -> Result<Vec<u64>, Error> {
        listed(host, PageId(0), progress)
    }

    /// Trains the model again with the rows of `source`, which are those of the index; the host is
    /// asked for rows that come later. Returns false, and leaves the index as it is, if another
    /// writer has trained it, or readers keep the pages of too many graphs. An index has at most
    /// one training at a time.
    ///
    /// # Errors
    ///
    /// Those of a build; [`Error::Argument`] if the index has no rows of a host.
    pub fn train_beside<H: TrainingHost>(
        &self,
        source: &mut dyn VectorSource,
        memory_bytes: u64,
        host: &mut H,
        progress: OnProgress<'_>,
    ) -> Result<bool, Error> {
        let Meta { metric, seed, id_kind, vectors, .. } = self.newest().renew(&mut self.pages().reader())?.meta;
        row_ids::check_kind(id_kind, IdKind::HostOwned)?;
        let options = BuildOptions { metric, id_kind, vectors, memory_bytes, threads: 1, seed, calibrate: false };
        let mut sink = ShadowSink { host, shadow: None, waiting: Vec::new(), is_late: false };
        let trained = build::build_from(source, &options, None, &mut sink, progress).and_then(|built| {
            let shadow = sink.finish(built)?;
            shadow.join(sink.host)?;
            let missing = missing(sink.host, shadow, progress)?;
            catch_up(sink.host, shadow, &missing, &self.newest().shadow(), progress)?;
            shadow.show(sink.host)
        });
        let ShadowSink { host, shadow, is_late, .. } = sink;
        let Err(error) = trained else { return Ok(true) };
        match shadow {
            _ if is_late => Ok(false),
            // If it cannot be given up, the next vacuum does so.
            Some(shadow) if shadow.give_up(host).is_ok_and(|was_own| !was_own) => Ok(false),
            _ => Err(error),
        }
    }
}

impl<W: PagesMut> Change<'_, W> {
    /// Gives up a training of this index that did not end, and whose writer is gone. There must be
    /// no other writer.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`]; any error of the host.
    pub fn give_up_training(&mut self) -> Result<(), Error> {
        match self.graph.meta().change.making {
            Making::None => Ok(()),
            _ => sweep::abandon_graph(self.graph.steps_mut()),
        }
    }

    /// Frees up to `most` pages of graphs that were replaced or given up, while others insert rows.
    /// Returns whether there may be more that no reader can use.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`]; any error of the host.
    pub fn sweep(&mut self, most: usize) -> Result<bool, Error> {
        sweep::sweep_beside(self.graph.steps_mut(), most)
    }
}

/// The new graph, beside the graph of the index.
#[derive(Clone, Copy)]
struct Shadow {
    /// Its meta page.
    root: PageId,
    number: u8,
}

impl Shadow {
    /// Begins a graph with `pages` pages behind its root; `None` if there is nothing to train.
    fn begin<W: PagesMut>(host: &mut W, pages: u32) -> Result<Option<Self>, Error> {
        let meta = Meta::read(&mut host.reader())?;
        let is_made = meta.change.making != Making::None;
        let mut steps = Steps::new(host, meta);
        if is_made {
            sweep::abandon_graph(&mut steps)?;
        }
        if !has_grown(steps.meta(), 0) || steps.meta().change.numbers.next().is_none() {
            return Ok(None);
        }
        // The step comes first: after a crash between the two, the index still knows of the pages.
        let root = PageId(steps.page_count());
        let number = begin_graph(&mut steps, Some([root.0, root.0.saturating_add(1).saturating_add(pages)]))?;
        let reserved = steps.host_mut().reserve(1 + pages).and_then(|first| match first == root {
            true => Ok(()),
            false => Err(Error::corrupt(first, format!("page {} was to be reserved first", root.0))),
        });
        if let Err(error) = reserved {
            sweep::abandon_graph(&mut steps)?;
            return Err(error);
        }
        Ok(Some(Self { root, number }))
    }

    /// Whether the index still names this graph as its new graph.
    fn is_own(self, meta: &Meta) -> bool {
        meta.change.shadow == self.root.0
    }

    /// Takes a turn while the graph is this writer's. `work` gets the meta page of the index.
    fn turn<H: TrainingHost, T>(
        self,
        host: &mut H,
        is_alone: bool,
        work: impl FnOnce(&mut H::Pages<'_>, Meta) -> Result<T, Error>,
    ) -> Result<T, Error> {
        host.turn(is_alone, |pages| {
            let meta = Meta::read(&mut pages.reader())?;
            if !self.is_own(&meta) {
                return Err(Error::busy("another writer has begun to train the index"));
            }
            work(pages, meta)
        })
    }

    /// Makes writers insert rows into this graph, too.
    fn join<H: TrainingHost>(self, host: &mut H) -> Result<(), Error> {
        self.turn(host, true, |pages, meta| {
            Steps::new(pages, meta).step_meta(&[], &mut |meta, _| {
                meta.change.making = Making::Joined;
                Ok(())
            })
        })
    }

    /// Makes this graph the graph of the index.
    fn show<H: TrainingHost>(self, host: &mut H) -> Result<(), Error> {
        let left_out = host.left_out();
        self.turn(host, true, |pages, meta| {
            let new = Meta::read(&mut GraphReader::new(pages.reader(), self.root))?;
            let end = pages.page_count();
            if left_out > 0 {
                pages.reuse(left_out)?;
            }
            Steps::new(pages, meta).step_meta_numbered(|meta, commit| {
                let before = replace(meta, &new);
                meta.change.show_graph(&before, end, commit);
                // A reader that has cached the pending list of the old graph reads that of the new
                // one.
                meta.change.pending_since = meta.change.commit + 1;
            })
        })
    }

    /// Gives the graph up if it is still this writer's, and returns whether it was.
    fn give_up<H: TrainingHost>(self, host: &mut H) -> Result<bool, Error> {
        host.turn(true, |pages| {
            let meta = Meta::read(&mut pages.reader())?;
            let is_own = self.is_own(&meta);
            if is_own {
                sweep::abandon_graph(&mut Steps::new(pages, meta))?;
            }
            Ok(is_own)
        })
    }
}

/// Takes the pages of a graph once it is computed.
struct ShadowSink<'h, H: TrainingHost> {
    host: &'h mut H,
    shadow: Option<Shadow>,
    /// Pages that are to be written in the next turn.
    waiting: Vec<(PageId, Vec<u8>)>,
    /// Whether the index no longer needed the training when its pages were computed.
    is_late: bool,
}

impl<H: TrainingHost> ShadowSink<'_, H> {
    fn shadow(&self) -> Shadow {
        self.shadow.expect("the first page was asked for")
    }

    fn write_waiting(&mut self) -> Result<(), Error> {
        let (shadow, waiting) = (self.shadow(), std::mem::take(&mut self.waiting));
        shadow.turn(self.host, false, |pages, _| waiting.iter().try_for_each(|(page, body)| pages.put(*page, body)))
    }

    /// Writes the rest, and the meta page of the graph that was `built`.
    fn finish(&mut self, built: Meta) -> Result<Shadow, Error> {
        self.write_waiting()?;
        let (shadow, mut meta) = (self.shadow(), built);
        let number = shadow.number;
        meta.change.numbers = GraphNumbers { current: number, last: number, oldest: number };
        shadow.turn(self.host, false, |pages, _| {
            meta.page_count = pages.page_count();
            pages.put(shadow.root, &meta.encode())
        })?;
        Ok(shadow)
    }
}

impl<H: TrainingHost> PageSink for ShadowSink<'_, H> {
    fn first(&mut self, pages: u32) -> Result<PageId, Error> {
        self.shadow = self.host.turn(true, |host| Shadow::begin(host, pages))?;
        self.is_late = self.shadow.is_none();
        let shadow = self.shadow.ok_or(Error::Interrupted)?;
        Ok(PageId(shadow.root.0 + 1))
    }

    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        let mut body = body.to_vec();
        kind::set_graph(&mut body, self.shadow().number);
        self.waiting.push((page, body));
        if self.waiting.len() < PAGES_PER_TURN { Ok(()) } else { self.write_waiting() }
    }

    fn scratch(&self) -> Option<&dyn Scratch> {
        self.host.scratch()
    }
}

/// The ids of the rows of the graph with the meta page `root`, in ascending order. Others may
/// insert rows during this time; all rows that were there before are found.
fn listed<H: TrainingHost>(host: &mut H, root: PageId, progress: OnProgress<'_>) -> Result<Vec<u64>, Error> {
    let state = host.turn(false, |pages| State::read(&mut GraphReader::new(pages.reader(), root), None))?;
    let (mut row_ids, mut next) = (Vec::new(), root.0.max(1));
    loop {
        let found = host.turn(false, |pages| {
            let end = pages.page_count().min(next + LISTED_PER_TURN);
            let steps = Steps::at(pages, root, state.meta.clone());
            Ok((next < end).then_some((end, rows::host_rows(&steps, state.pending.as_deref(), next..end)?)))
        })?;
        let Some((end, rows)) = found else { break };
        if progress(Progress { phase: "list rows", done: u64::from(next), total: u64::from(end) }).is_break() {
            return Err(Error::Interrupted);
        }
        row_ids.extend(rows.into_iter().map(|(row_id, _)| row_id));
        next = end;
    }
    row_ids.sort_unstable();
    row_ids.dedup();
    Ok(row_ids)
}

/// The rows of the index that the graph lacks. Rows that others insert during this time are not
/// missing: they come into the graph before the index, and the graph is listed later.
fn missing<H: TrainingHost>(host: &mut H, shadow: Shadow, progress: OnProgress<'_>) -> Result<Vec<u64>, Error> {
    let mut missing = listed(host, PageId(0), progress)?;
    let there = listed(host, shadow.root, progress)?;
    missing.retain(|row_id| there.binary_search(row_id).is_err());
    Ok(missing)
}

/// Inserts rows into the graph.
fn catch_up<H: TrainingHost>(
    host: &mut H,
    shadow: Shadow,
    missing: &[u64],
    known: &ShadowState,
    progress: OnProgress<'_>,
) -> Result<(), Error> {
    let (mut done, total) = (0, missing.len() as u64);
    for some in missing.chunks(ROWS_AT_ONCE) {
        let HostRows { row_ids, vectors, values } = host.rows(some)?;
        let count = row_ids.len().max(1);
        let (dim, columns) = (vectors.len() / count, values.len() / count);
        for first in (0..row_ids.len()).step_by(ROWS_PER_TURN) {
            if progress(Progress { phase: "catch up", done: done + first as u64, total }).is_break() {
                return Err(Error::Interrupted);
            }
            let part = first..row_ids.len().min(first + ROWS_PER_TURN);
            shadow.turn(host, false, |pages, _| {
                let state = known.read(&mut GraphReader::new(pages.reader(), shadow.root))?;
                let mut change = Change::begin(pages, shadow.root, state, ShadowState::default())?;
                for at in part.clone() {
                    let (vector, values) = (&vectors[at * dim..][..dim], &values[at * columns..][..columns]);
                    change.insert_hosted(row_ids[at], vector, values, false, &mut |_| ControlFlow::Continue(()))?;
                }
                change.finish()
            })?;
        }
        done += some.len() as u64;
    }
    Ok(())
}
