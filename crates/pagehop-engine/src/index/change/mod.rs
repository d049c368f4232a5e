//! Changes: rows that are added, replaced and deleted.
//!
//! ```text
//! add     insert the row into the graph (insert.rs)
//!         step: the map names its node; the node of the row that it replaces is dead
//!                                                     (map, old node's page, dead list, meta page)
//! delete  step: as above, without a new node
//! vacuum  takes dead nodes out of the graph (vacuum.rs)
//! ```
//!
//! Rows are stamped with the number of the commit, so a reader of an older snapshot sees none of a
//! transaction, even if some of its steps are already visible.
//!
//! | file or folder | subject |
//! |---|---|
//! | `encode.rs` | a row, encoded for its node, and a node, for the edges to it |
//! | `pages/` | pages that a change writes, apart from the edges of nodes |
//! | `graph/` | nodes and edges: insertion, postings, the removal of dead nodes |
//! | `records.rs` | records of rows |
//! | `add.rs` | rows that are added, by one thread or several |
//! | `training.rs` | the model, trained again: when, and how |
//! | `vacuum.rs` | [`Change`]: takes dead nodes out of the graph |
//! | `retrain.rs` | [`Change`]: trains the model again |
//! | `beside.rs` | trains the model again while others insert |
//! | `hosted.rs` | [`Change`]: rows that the host owns |
//! | `measured.rs` | [`Change`]: stores what was measured |
//! | `pop.rs` | [`Change`]: reads rows and deletes them |
//!
//! Each file uses only files and folders of the lines above it, and none uses the last six.

mod add;
pub(crate) mod beside;
mod encode;
pub(crate) mod graph;
pub(crate) mod hosted;
mod measured;
pub(crate) mod pages;
mod pop;
mod records;
mod retrain;
pub(crate) mod training;
mod vacuum;

use crate::columns::{ColumnRows, RowValues};
use crate::index::open::Index;
use crate::index::state::{ShadowState, State};
use crate::page::kept_vectors::rounded;
use crate::page::meta::Making;
use crate::page::{PageId, Pages, PagesMut, SharedPages};
use crate::quantize::prepare;
use crate::{AddReport, DeleteReport, Error, IdKind, OnProgress, RowId, row_ids};
use add::NewRows;
use graph::Graph;
use graph::in_edges::InEdges;
use graph::{insert, post};
use pages::pending::PendingRows;
use pages::steps::Steps;
use pages::{ids, rows, sweep};

/// Pages of retired graphs that a change of host-owned rows frees at its beginning: it needs at
/// most one for each row.
const SWEPT_AT_ONCE: usize = 8;

/// A transaction in progress. Nothing of it counts until [`Change::finish`] and the host's commit.
pub struct Change<'w, W: PagesMut> {
    graph: Graph<'w, W>,
    pending: PendingRows,
    /// What this process knows of the new graph beside the index.
    shadow: ShadowState,
    /// What is known of the edges that lead to dead nodes.
    in_edges: InEdges,
    /// Rows added and deleted so far; a replaced row is both.
    added: u64,
    deleted: u64,
    mark: Option<[u64; 2]>,
    /// Rows before the change, and the first page of the model then.
    rows_before: u64,
    model_before: u32,
}

impl<P: Pages> Index<P> {
    /// Starts a change of the index within a transaction of its host. It takes effect with
    /// [`Change::finish`] and the host's commit.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if pages contradict each other; any error of the host.
    pub fn change<'w, W: PagesMut>(&self, pages: &'w mut W) -> Result<Change<'w, W>, Error> {
        let state = State::read(&mut pages.reader(), Some(&self.newest().known()))?;
        Change::begin(pages, PageId(0), state, self.newest().shadow())
    }
}

impl<'w, W: PagesMut> Change<'w, W> {
    /// Begins with the graph whose meta page is `root`; `state` is what was read of it.
    fn begin(pages: &'w mut W, root: PageId, state: State, shadow: ShadowState) -> Result<Self, Error> {
        let State { meta, model, entries, columns, pending, .. } = state;
        let (rows_before, model_before) = (meta.rows, meta.change.model_start);
        let mut steps = Steps::at(pages, root, meta);
        let is_alone = !steps.is_shared();
        match steps.is_hosted() {
            true => {
                if is_alone && steps.meta().change.making == Making::Alone {
                    sweep::abandon_graph(&mut steps)?;
                }
                sweep::sweep_beside(&mut steps, SWEPT_AT_ONCE)?;
            }
            false => sweep::sweep_retired(&mut steps)?,
        }
        let mut graph = Graph::new(steps, model, entries, columns);
        if is_alone {
            post::post_unfinished(&mut graph)?;
        }
        Ok(Self {
            graph,
            pending: PendingRows::new(pending),
            shadow,
            in_edges: InEdges::default(),
            added: 0,
            deleted: 0,
            mark: None,
            rows_before,
            model_before,
        })
    }

    /// Whether `rows` rows can be inserted only while no other writer changes the index: they train
    /// its model, or an unfinished training must be given up first. For a host that lets several
    /// writers insert rows at the same time
    /// ([`PagesMut::is_shared`](crate::page::PagesMut::is_shared)).
    pub fn must_be_alone(&self, rows: usize) -> bool {
        training::trains_at_once(&self.graph, rows) || self.graph.meta().change.making == Making::Alone
    }

    /// Adds rows; `vectors` has their components, one row after the other. A row whose id is in the
    /// index replaces that row. If an id repeats, its last row is used.
    ///
    /// `ids` are numbers, or texts for an index whose ids are texts, which costs one page more for
    /// each row, and another for a row that is there. `columns` has values of columns, in the order
    /// of `ids`. A column of the index that it lacks has no values in these rows.
    ///
    /// The first rows of an index train its model. Each time the index has grown eightfold, up to
    /// about 100,000 rows, the model is trained again and the index is rebuilt within this call, if
    /// the host has room for the new pages ([`PagesMut::bytes_left`]).
    ///
    /// # Errors
    ///
    /// [`Error::Dimension`] or [`Error::Argument`] for a row that the index cannot place, named by
    /// its position and id, for ids of another kind, if `columns` has another number of rows, or a
    /// column that the index does not have. [`Error::Interrupted`] if `progress` says so. Whatever
    /// the host reports. The change must then be dropped.
    pub fn add<I: RowId>(
        &mut self,
        ids: &[I],
        vectors: &[f32],
        columns: Option<&ColumnRows>,
        progress: OnProgress<'_>,
    ) -> Result<AddReport, Error> {
        self.add_by(ids, vectors, columns, progress, add::in_order)
    }

    /// Adds rows. If they train the model, it rebuilds the index here; if not, `write` inserts
    /// them.
    fn add_by<I: RowId>(
        &mut self,
        ids: &[I],
        vectors: &[f32],
        columns: Option<&ColumnRows>,
        progress: OnProgress<'_>,
        write: impl FnOnce(&mut Graph<'w, W>, &NewRows<'_>, OnProgress<'_>) -> Result<AddReport, Error>,
    ) -> Result<AddReport, Error> {
        ids::check_kind::<I>(self.graph.meta())?;
        let payloads = columns.and_then(ColumnRows::payloads);
        records::check_payloads(self.graph.meta(), ids.len(), payloads)?;
        let (given, ids) = (ids, &*ids::new_numbers(self.graph.steps(), ids)?);
        let dim = self.graph.meta().dim;
        if ids.len() * dim != vectors.len() {
            let what = format!("{} ids and {} numbers are not rows of {dim} dimensions", ids.len(), vectors.len());
            return Err(Error::argument(what));
        }
        let id_kind = self.graph.meta().id_kind;
        let vectors = &*rounded(self.graph.meta().vectors, (id_kind, ids), vectors, 0)?;
        self.validate(ids, vectors)?;
        let mut values = self.arranged(columns, ids.len())?;
        let records = records::of_rows(self.graph.meta(), given, &values, payloads)?;
        let mut report = AddReport::default();
        if training::trains_at_once(&self.graph, ids.len()) {
            let replaced = records::keep_of_trained(&mut self.graph, ids, &mut values, records.as_deref())?;
            training::rebuild(&mut self.graph, self.pending.map(), ids, vectors, &values, &mut report, progress)?;
            report.replaced += replaced;
            report.added -= replaced;
        } else {
            training::note_length(&mut self.graph, vectors)?;
            let rows = NewRows { ids, vectors, dim, values: &values, payloads: records.as_deref() };
            report = write(&mut self.graph, &rows, progress)?;
        }
        self.added += report.added + report.replaced;
        self.deleted += report.replaced;
        Ok(report)
    }

    /// Deletes rows. An id that the index does not have is reported; it is not an error.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for ids of another kind than those of the index; whatever the host
    /// reports, and [`Error::Corrupt`]. The change must then be dropped.
    pub fn delete<I: RowId>(&mut self, ids: &[I]) -> Result<DeleteReport<I>, Error> {
        ids::check_kind::<I>(self.graph.meta())?;
        let mut report = DeleteReport { deleted: 0, unknown: Vec::new() };
        for id in ids {
            let found = ids::find_row(self.graph.steps(), id)?;
            match found {
                Some((number, node)) => rows::map_row(self.graph.steps_mut(), number, None, Some(node))?,
                None => report.unknown.push(id.clone()),
            }
            report.deleted += u64::from(found.is_some());
        }
        self.deleted += report.deleted;
        Ok(report)
    }

    /// Sets the caller's mark, which [`Info`](crate::Info) shows: for example the progress of an
    /// import. It changes if and only if the commit takes place.
    pub fn set_mark(&mut self, mark: [u64; 2]) {
        self.mark = Some(mark);
    }

    /// The number of rows after the commit.
    fn rows(&self) -> u64 {
        // Rows that the host owns are counted by each step, and never here.
        (self.graph.meta().rows + self.added).saturating_sub(self.deleted)
    }

    /// The last step: counts the rows and names the commit. The host's commit comes next. If the
    /// host owns the rows, each step has counted them, and this does nothing.
    ///
    /// # Errors
    ///
    /// Whatever the host reports.
    pub fn finish(mut self) -> Result<(), Error> {
        let steps = self.graph.steps_mut();
        if steps.is_hosted() {
            return Ok(());
        }
        let (commit, mark) = (steps.commit_number(), self.mark);
        let (added, deleted) = (self.added, self.deleted);
        steps.step_meta(&[], &mut |meta, _| {
            let rows = (meta.rows + added).checked_sub(deleted);
            meta.rows = rows.ok_or_else(|| Error::corrupt(PageId(0), "it counts fewer rows than were deleted"))?;
            meta.change.added_rows = meta.change.added_rows.wrapping_add(added);
            meta.change.deleted_rows = meta.change.deleted_rows.wrapping_add(deleted);
            meta.change.commit = commit;
            meta.change.mark = mark.unwrap_or(meta.change.mark);
            Ok(())
        })
    }

    fn expect(&self, id_kind: IdKind) -> Result<(), Error> {
        row_ids::check_kind(self.graph.meta().id_kind, id_kind)
    }

    fn validate(&self, ids: &[u64], vectors: &[f32]) -> Result<(), Error> {
        let meta = self.graph.meta();
        for (i, (id, row)) in ids.iter().zip(vectors.chunks_exact(meta.dim)).enumerate() {
            prepare::validate(meta.metric, row)
                .map_err(|error| error.of_row(i, row_ids::known_number(meta.id_kind, *id)))?;
        }
        Ok(())
    }

    /// Gives rows other values in the columns that `columns` has, in the order of `ids`, and other
    /// payloads if it has any; values of other columns and vectors stay. If an id repeats, its last
    /// values are used. Each row gets a node of its own beside its old one, which vacuum removes: a
    /// reader of an older snapshot sees the old values. Returns the number of rows that changed.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if an id is not in the index, which names it, `columns` has another
    /// number of rows, or a column that the index does not have; whatever the host reports. The
    /// change must then be dropped.
    pub fn update_columns<I: RowId>(&mut self, ids: &[I], columns: &ColumnRows) -> Result<u64, Error> {
        ids::check_kind::<I>(self.graph.meta())?;
        if columns.len() != ids.len() {
            let what = format!("there are {} ids, and columns of {} rows", ids.len(), columns.len());
            return Err(Error::argument(what));
        }
        records::check_payloads(self.graph.meta(), ids.len(), columns.payloads())?;
        let numbers = ids::numbers(self.graph.steps(), ids)?;
        self.update_rows(numbers, columns)
    }

    /// [`Change::update_columns`] of rows that are there, by their numbers.
    fn update_rows(&mut self, numbers: Vec<u64>, columns: &ColumnRows) -> Result<u64, Error> {
        let (given, of_tags) = (columns.columns(), columns.sets_of(&self.graph.columns().columns));
        let values = columns.arrange(&self.graph.columns().columns, self.graph.meta().has_places())?;
        let of_index = values.columns().iter();
        let is_given: Vec<bool> =
            of_index.map(|column| given.iter().any(|other| other.name == column.name)).collect();
        let mut changed = 0;
        for (row, id) in numbers.into_iter().enumerate() {
            let found = rows::find_row(self.graph.steps(), id)?;
            let old = found.ok_or_else(|| row_ids::unknown(&[id]))?;
            let mut encoded = post::encoded(&self.graph, old)?;
            let (before, after) = (RowValues(&encoded.values), RowValues(values.row(row)));
            let key = |(at, given): (usize, &bool)| if *given { after.key(at) } else { before.key(at) };
            let keys: Vec<Option<u64>> = is_given.iter().enumerate().map(key).collect();
            let payload = columns.payloads().map(|payloads| payloads[row].as_deref());
            for (at, set) in values.sets(row).iter().enumerate().filter(|(at, _)| of_tags[*at].is_some()) {
                encoded.sets[at].clone_from(set);
            }
            if !records::update(&mut self.graph, &mut encoded, keys, payload)? {
                continue;
            }
            let node = insert::insert(&mut self.graph, id, &encoded)?;
            rows::map_row(self.graph.steps_mut(), id, Some(node), Some(old))?;
            changed += 1;
        }
        self.added += changed;
        self.deleted += changed;
        Ok(changed)
    }

    /// The values of the index's columns of `rows` rows.
    fn arranged(&self, columns: Option<&ColumnRows>, rows: usize) -> Result<ColumnRows, Error> {
        let (of_index, has_places) = (&self.graph.columns().columns, self.graph.meta().has_places());
        let is_empty = |columns: &&ColumnRows| columns.columns().is_empty() && columns.payloads().is_none();
        let Some(columns) = columns.filter(|columns| !is_empty(columns)) else {
            let mut none = ColumnRows::of_index(of_index.clone(), has_places);
            none.push_empty(rows);
            return Ok(none);
        };
        if columns.len() != rows {
            let what = format!("there are {rows} ids, and columns or payloads of {} rows", columns.len());
            return Err(Error::argument(what));
        }
        columns.arrange(of_index, has_places)
    }
}

impl<W: SharedPages> Change<'_, W> {
    /// [`Change::add`] by up to `threads` threads; 0 for as many as the process may use. Which
    /// edges the nodes get depends on the turns that the threads take. With one thread the same
    /// rows always give the same pages.
    ///
    /// # Errors
    ///
    /// Those of [`Change::add`].
    pub fn add_on_threads<I: RowId>(
        &mut self,
        ids: &[I],
        vectors: &[f32],
        columns: Option<&ColumnRows>,
        threads: usize,
        progress: OnProgress<'_>,
    ) -> Result<AddReport, Error> {
        self.add_by(ids, vectors, columns, progress, |graph, rows, progress| {
            match add::threads_for(rows.ids, threads) {
                1 => add::in_order(graph, rows, progress),
                threads => add::side_by_side(graph, rows, threads, progress),
            }
        })
    }
}
