//! Stores what was measured of an index, and says when to measure again.

use std::sync::Arc;

use super::Change;
use crate::calibration::{CALIBRATED_ROWS_MIN, Calibration};
use crate::page::PagesMut;
use crate::{Audit, Error};

impl<W: PagesMut> Change<'_, W> {
    /// Whether to calibrate the index once this change is committed: the change makes it large
    /// enough, trains its model again, or doubles the rows that it was calibrated with. A host that
    /// owns the rows calibrates when it vacuums, so there doubling does not count. An index that
    /// was calibrated by a user's queries is not calibrated by rows.
    pub fn wants_calibration(&self) -> bool {
        let (before, after) = (self.rows_before, self.rows());
        let passes = |rows: u64| before < rows && after >= rows;
        let meta = self.graph.meta();
        let is_trained = meta.change.model_start != self.model_before;
        match meta.calibration.as_deref() {
            None => passes(CALIBRATED_ROWS_MIN) || is_trained && after >= CALIBRATED_ROWS_MIN,
            Some(known) if known.by_queries => false,
            Some(known) => {
                let is_doubled = !self.graph.steps().is_hosted() && passes(known.rows.saturating_mul(2));
                is_doubled || is_trained && after >= CALIBRATED_ROWS_MIN
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
