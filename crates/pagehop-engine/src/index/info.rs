//! Facts about an index: its info and its calibration.

use crate::index::open::Index;
use crate::index::search::plan::{audited, calibrated};
use crate::page::Pages;
use crate::page::meta::FORMAT_VERSION;
use crate::quantize::own;
use crate::{Calibration, Error, Info};

/// The k of a search if its caller gives none.
const DEFAULT_K: usize = 10;

impl<P: Pages> Index<P> {
    /// Facts and counts of the index, as of its newest commit.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the meta page contradicts the format; any error of the host.
    pub fn info(&self) -> Result<Info, Error> {
        let state = self.newest().renew(&mut self.pages().reader())?;
        let (meta, layout) = (&state.meta, &state.meta.layout);
        Ok(Info {
            format_version: FORMAT_VERSION,
            metric: meta.metric,
            dim: meta.dim,
            vectors: meta.vectors,
            id_kind: meta.id_kind,
            payload: meta.keeps_payloads,
            columns: state.columns.columns.clone(),
            rows: meta.rows,
            pages: meta.page_count,
            max_degree: layout.degree,
            nodes_per_page: layout.nodes_per_page,
            edge_bits: layout.edge.bits,
            edge_dims: layout.edge.dims,
            own_bits: own::BITS,
            seed: meta.seed,
            commit: meta.change.commit,
            dead_rows: meta.change.dead_rows,
            free_slots: meta.change.free_slots.into(),
            trained_rows: meta.change.trained_rows,
            added_rows: meta.change.added_rows,
            deleted_rows: meta.change.deleted_rows,
            mark: meta.change.mark,
            default_recall: meta.calibration.as_ref().and_then(|known| known.default_recall(DEFAULT_K)),
            calibrated: calibrated(meta),
            audit: meta.audit,
            audited: audited(meta),
        })
    }

    /// The stored calibration, if there is one.
    ///
    /// # Errors
    ///
    /// Those of [`Index::info`].
    pub fn calibration(&self) -> Result<Option<Calibration>, Error> {
        Ok(self.newest().renew(&mut self.pages().reader())?.meta.calibration.as_deref().cloned())
    }
}
