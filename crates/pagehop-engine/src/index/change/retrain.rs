//! The operations that train the model of an index again, by themselves or with rows that are added
//! (`training.rs`).

use super::Change;
use super::training;
use crate::columns::{ColumnRows, Value};
use crate::index::open::Index;
use crate::page::{Pages, PagesMut};
use crate::row_ids::{self, IdKind};
use crate::{AddReport, Error, OnProgress};

impl<P: Pages> Index<P> {
    /// The largest number of rows that may be added together by a training of the model
    /// ([`Change::train_if_grown`]). That costs less than to insert them one by one, but other
    /// insertions wait for it. 0 if the index has too many rows, or if its model is kept.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`]; any error of the host.
    pub fn room_at_once(&self) -> Result<usize, Error> {
        let state = self.newest().renew(&mut self.pages().reader())?;
        Ok(training::room_at_once(&state.meta) as usize)
    }

    /// Whether the index has grown enough since its model was trained to train it again.
    ///
    /// # Errors
    ///
    /// As [`Index::room_at_once`].
    pub fn wants_training(&self) -> Result<bool, Error> {
        Ok(training::has_grown(&self.newest().renew(&mut self.pages().reader())?.meta, 0))
    }
}

impl<W: PagesMut> Change<'_, W> {
    /// Trains the model again, with the rows that the index has, and rebuilds the index. All
    /// vectors are in memory, as 32-bit numbers, and so is what a build of them needs.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] if the host has no room for the new pages ([`PagesMut::bytes_left`]); mostly
    /// before a row is read. [`Error::Interrupted`] if `progress` says so; any error of the host.
    /// The change must then be dropped.
    pub fn train(&mut self, progress: OnProgress<'_>) -> Result<(), Error> {
        training::refuse_large(&self.graph)?;
        training::rebuild(
            &mut self.graph,
            self.pending.map(),
            &[],
            &[],
            &ColumnRows::default(),
            &mut AddReport::default(),
            progress,
        )
    }

    /// Adds rows that the host owns by a training of the model, if one is due with them: the index
    /// is rebuilt once, with these rows in it. It takes all rows, or the first
    /// [`Index::room_at_once`] of them. Returns how many it took; the caller inserts the others. If
    /// no training is due, nothing is changed and the result is 0.
    ///
    /// If a row id repeats, its last row is used. `values` has the values of the index's columns,
    /// row after row.
    ///
    /// # Errors
    ///
    /// As [`Change::insert_hosted`].
    pub fn train_if_grown(
        &mut self,
        row_ids: &[u64],
        vectors: &[f32],
        values: &[Value],
        progress: OnProgress<'_>,
    ) -> Result<usize, Error> {
        let dim = self.graph.meta().dim;
        if row_ids.len() * dim != vectors.len() {
            let (rows, numbers) = (row_ids.len(), vectors.len());
            let what = format!("{rows} row ids and {numbers} numbers are not rows of {dim} dimensions");
            return Err(Error::argument(what));
        }
        self.expect(IdKind::HostOwned)?;
        let mut columns = ColumnRows::new(self.graph.columns().columns.clone())?;
        let count = columns.columns().len();
        if row_ids.len() * count != values.len() {
            let (rows, given) = (row_ids.len(), values.len());
            return Err(Error::argument(format!(
                "{given} values are not those of {rows} rows and {count} columns"
            )));
        }
        let taken = row_ids.len().min(training::room_at_once(self.graph.meta()) as usize);
        let (row_ids, vectors) = (&row_ids[..taken], &vectors[..taken * dim]);
        values.chunks_exact(count.max(1)).take(taken).try_for_each(|row| columns.push(row))?;
        row_ids.iter().try_for_each(|row_id| row_ids::check_hosted(*row_id))?;
        self.validate(row_ids, vectors)?;
        let trains = taken > 0 && training::trains_at_once(&self.graph, taken);
        if trains {
            training::rebuild(
                &mut self.graph,
                self.pending.map(),
                row_ids,
                vectors,
                &columns,
                &mut AddReport::default(),
                progress,
            )?;
        }
        Ok(if trains { taken } else { 0 })
    }
}
