//! Trains the model of an index again while other writers insert rows, for a host that owns the
//! rows and has their vectors.
//!
//! ```text
//! beside others   read the rows, train, connect: no page is touched, which is nearly all the work
//! alone           write the new graph behind the old one, as an index of its own (shadow.rs)
//!                 insert into it the rows that came since
//!                 step: its meta page becomes that of the index
//! ```
//!
//! Searches go on with the old graph until that step, and find all rows before and after it. If the
//! change ends before, the pages are free for the next one, as those of any training
//! (`sweep.rs`).

use super::Change;
use super::retrain::{has_grown, replace};
use super::shadow::Shadow;
use super::steps::Steps;
use crate::columns::Value;
use crate::index::build;
use crate::index::open::Index;
use crate::index::state::State;
use crate::page::layout::COMMIT_END;
use crate::page::meta::Meta;
use crate::page::{PageId, PageSink, Pages, PagesMut, Scratch};
use crate::row_ids::{self, RowIds};
use crate::{BuildOptions, Error, OnProgress, VectorSource};

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
    type Pages: PagesMut;

    /// The pages, once no other writer is at them. They are given back when the training is over.
    ///
    /// # Errors
    ///
    /// Those of the host.
    fn alone(&mut self) -> Result<Self::Pages, Error>;

    /// The rows of these ids, in ascending order, that any reader may still see.
    ///
    /// # Errors
    ///
    /// Those of the host.
    fn rows(&mut self, row_ids: &[u64]) -> Result<HostRows, Error>;

    /// See [`PageSink::scratch`].
    fn scratch(&self) -> Option<&dyn Scratch>;
}

impl<P: Pages> Index<P> {
    /// The ids of all rows of the index, in ascending order; of rows that are inserted at the same
    /// time some.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`]; any error of the host.
    pub fn host_row_ids<W: PagesMut>(&self, pages: &mut W) -> Result<Vec<u64>, Error> {
        let state = State::read(&mut pages.reader(), Some(&self.newest().known()))?;
        let end = pages.page_count();
        known_row_ids(pages, &state, end)
    }

    /// Trains the model again with the rows of `source`, which are those of the index that `known`
    /// names, in ascending order; the others are asked of the host in the end. Returns false, and
    /// does nothing, if another writer has trained it since.
    ///
    /// # Errors
    ///
    /// Those of a build; [`Error::Argument`] if the index has no rows of a host.
    pub fn train_beside<H: TrainingHost>(
        &self,
        source: &mut dyn VectorSource,
        known: &[u64],
        memory_bytes: u64,
        host: &mut H,
        progress: OnProgress<'_>,
    ) -> Result<bool, Error> {
        let Meta { metric, seed, row_ids, vectors, .. } = self.newest().renew(&mut self.pages().reader())?.meta;
        row_ids::check_kind(row_ids, RowIds::HostOwned)?;
        let options = BuildOptions { metric, memory_bytes, threads: 1, seed, row_ids, vectors, calibrate: false };
        let mut sink = LateSink { host, pages: None, root: PageId(0), is_late: false };
        let built = match build::build_from(source, &options, None, &mut sink, progress) {
            Err(_) if sink.is_late => return Ok(false),
            built => built?,
        };
        let LateSink { host, pages, root, .. } = sink;
        let mut pages = pages.expect("a build writes pages");
        hide(&mut pages, built, root)?;
        catch_up(&mut pages, root, known, host, progress)?;
        show(&mut pages, root)?;
        Ok(true)
    }
}

/// Takes the pages of a graph, which come behind the page `root`, once it is computed.
struct LateSink<'h, H: TrainingHost> {
    host: &'h mut H,
    pages: Option<H::Pages>,
    /// The page that is the meta page of the new graph first.
    root: PageId,
    /// Whether another writer has trained the model since, so that no page was taken.
    is_late: bool,
}

impl<H: TrainingHost> PageSink for LateSink<'_, H> {
    fn first(&mut self) -> Result<PageId, Error> {
        let mut pages = self.host.alone()?;
        // Frees what an earlier change left.
        drop(Change::begin(&mut pages, None)?);
        let meta = Meta::read(&mut pages.reader())?;
        self.is_late = !has_grown(&meta, 0);
        if self.is_late {
            return Err(Error::Interrupted);
        }
        self.root = pages.allocate(1)?;
        let root = self.root.0;
        Steps::new(&mut pages, meta).step_meta(&[], &mut |meta, _| {
            meta.change.unfinished = root;
            Ok(())
        })?;
        self.pages = Some(pages);
        Ok(PageId(root + 1))
    }

    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        let pages = self.pages.as_mut().expect("the first page was asked for");
        let allocated = pages.allocate(1)?;
        if allocated != page {
            let what = format!("page {} was allocated where page {} was expected", allocated.0, page.0);
            return Err(Error::corrupt(page, what));
        }
        pages.step(&[page], &mut |bodies| {
            bodies[0].copy_from_slice(body);
            Ok(())
        })
    }

    fn scratch(&self) -> Option<&dyn Scratch> {
        self.host.scratch()
    }
}

/// Makes `root` the meta page of a graph that was `built` behind it.
fn hide<W: PagesMut>(pages: &mut W, built: Meta, root: PageId) -> Result<(), Error> {
    let mut meta = built;
    meta.page_count = pages.page_count();
    // The pages before it are those of the old graph, which is not retired yet.
    (meta.change.retired_end, meta.change.retired_at) = (root.0 + 1, COMMIT_END - 1);
    let body = meta.encode();
    pages.step(&[root], &mut |bodies| {
        bodies[0].copy_from_slice(&body);
        Ok(())
    })
}

/// Inserts into the graph of `root` the rows of the index that are not `known`.
fn catch_up<H: TrainingHost>(
    pages: &mut H::Pages,
    root: PageId,
    known: &[u64],
    host: &mut H,
    progress: OnProgress<'_>,
) -> Result<(), Error> {
    let state = State::read(&mut pages.reader(), None)?;
    let mut missing = known_row_ids(pages, &state, root.0)?;
    missing.retain(|row_id| known.binary_search(row_id).is_err());
    if missing.is_empty() {
        return Ok(());
    }
    let HostRows { row_ids, vectors, values } = host.rows(&missing)?;
    let (dim, columns) = (state.meta.dim, state.columns.columns.len());
    let mut shadow = Shadow { pages, root };
    let mut change = Change::begin(&mut shadow, None)?;
    for (at, row_id) in row_ids.into_iter().enumerate() {
        let (vector, values) = (&vectors[at * dim..][..dim], &values[at * columns..][..columns]);
        change.insert_hosted(row_id, vector, values, false, progress)?;
    }
    change.finish()
}

/// Makes the graph of `root` that of the index.
fn show<W: PagesMut>(pages: &mut W, root: PageId) -> Result<(), Error> {
    let new = Meta::read(&mut Shadow { pages, root }.reader())?;
    let (before, commit) = (Meta::read(&mut pages.reader())?, pages.commit_number());
    Steps::new(pages, before).step_meta(&[], &mut |meta, _| {
        replace(meta, &new);
        meta.change.retired_at = commit;
        Ok(())
    })
}

/// The ids of the rows on pages up to `end`, in ascending order.
fn known_row_ids<W: PagesMut>(pages: &mut W, state: &State, end: u32) -> Result<Vec<u64>, Error> {
    let rows = Steps::new(pages, state.meta.clone()).host_rows(state.pending.as_deref(), end)?;
    let mut row_ids: Vec<u64> = rows.into_iter().map(|(row_id, _)| row_id).collect();
    row_ids.sort_unstable();
    row_ids.dedup();
    Ok(row_ids)
}
