//! Stores what was measured of an index, and says when to measure again.

use std::sync::Arc;

use super::Change;
use crate::calibration::{CALIBRATED_ROWS_MIN, Calibration};
use crate::index::search::plan::since;
use crate::page::PagesMut;
use crate::{Audit, Error};

impl<W: PagesMut> Change<'_, W> {
    /// Whether to calibrate the index once this change is committed: the change makes it large
    /// enough or trains its model again, or as many rows have changed since the last calibration as
    /// the index had then. A host that owns the rows calibrates when it vacuums, so there changed
    /// rows do not count. An index that was calibrated by a user's queries is not calibrated by
    /// rows.
    pub fn wants_calibration(&self) -> bool {
        let (rows_before, rows) = (self.rows_before, self.rows());
        let meta = self.graph.meta();
        let is_trained = meta.change.model_start != self.model_before;
        rows >= CALIBRATED_ROWS_MIN
            && match meta.calibration.as_deref() {
                None => is_trained || rows_before < CALIBRATED_ROWS_MIN,
                Some(known) if known.by_queries => false,
                Some(known) => {
                    let changes = since(meta, known.changes) + self.added + self.deleted;
                    is_trained || !self.graph.steps().is_hosted() && changes >= known.rows
                }
            }
    }

    /// Stores what [`Index::calibrate`](crate::Index::calibrate) measured, in place of an earlier
    /// calibration.
    ///
    /// # Errors
    ///
    /// Whatever the host reports. The change must then be dropped.
    pub fn set_calibration(&mut self, calibration: Calibration) -> Result<(), Error> {
        let calibration = Arc::new(calibration);
        self.graph.steps_mut().step_meta(&[], &mut |meta, _| {
            meta.calibration = Some(calibration.clone());
            // From now on only a row that is longer than all so far counts as longer than the
            // calibrated ones.
            meta.norm_sq_max = meta.norm_sq_max.max(std::mem::take(&mut meta.change.norm_sq_beyond));
            Ok(())
        })
    }

    /// Stores what [`Index::recall`](crate::Index::recall) measured, for [`Info`](crate::Info) to
    /// show.
    ///
    /// # Errors
    ///
    /// Whatever the host reports. The change must then be dropped.
    pub fn set_audit(&mut self, audit: Audit) -> Result<(), Error> {
        self.graph.steps_mut().step_meta(&[], &mut |meta, _| {
            meta.audit = Some(audit);
            Ok(())
        })
    }
}
