//! The model: what an index learned from its first rows (mean and centroids), and its landmarks.

use std::sync::Arc;

use crate::Error;
use crate::columns::RowValues;
use crate::columns::signatures::Signatures;
use crate::page::Reader;
use crate::page::meta::Meta;
use crate::page::{landmark_pages, model_pages};
use crate::quantize::centroids::Centroids;
use crate::quantize::edge::EdgeFactors;
use crate::quantize::estimate::CoarseCodes;
use crate::quantize::landmarks::{LandmarkLists, Landmarks};
use crate::quantize::prepare::Space;
use crate::quantize::rotation::Rotation;
use crate::quantize::row_codes::RowCodes;

/// Landmarks are read again once one of this many is missing, and at least [`MISSING_MIN`] are.
const MISSING_SHARE: usize = 4;
const MISSING_MIN: usize = 64;

/// The parameters that encode vectors, and where searches begin.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// Metric, mean and rotation.
    pub(crate) space: Arc<Space>,
    pub(crate) centroids: Arc<Centroids>,
    /// The centroids as edge codes, for choosing entry points.
    pub(crate) coarse: Arc<CoarseCodes>,
    /// How the signatures of rows are made.
    pub(crate) signatures: Arc<Signatures>,
    /// Where searches begin. Insertions add others to those on pages.
    pub(crate) landmarks: Landmarks,
    /// Finer codes of rows, if they were loaded.
    pub(crate) row_codes: Option<Arc<RowCodes>>,
    /// The number of landmarks that insertions had added when these were read.
    landmarks_made: u32,
    /// Equal in copies of the model with other landmarks.
    identity: Arc<()>,
}

impl Model {
    /// Reads the model of an index.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a page contradicts the format; any error of the reader.
    pub(crate) fn read(meta: &Meta, reader: &mut impl Reader) -> Result<Self, Error> {
        let (mean, centroids, signatures) = model_pages::read_model(meta, reader)?;
        let (centroids, signatures) = (Arc::new(centroids), Arc::new(signatures));
        let landmarks = read_landmarks(meta, reader)?;
        let coarse = CoarseCodes::new(meta.layout.edge, &centroids).into();
        let rotation = Rotation::new(meta.layout.inner_dim, meta.seed);
        let space = Space { metric: meta.metric, dim: meta.dim, mean, rotation }.into();
        let (landmarks_made, identity) = (meta.change.landmarks_made, Arc::default());
        Ok(Self { space, centroids, coarse, signatures, landmarks, row_codes: None, landmarks_made, identity })
    }

    /// The same model with finer codes of rows.
    pub(crate) fn with_row_codes(&self, codes: Arc<RowCodes>) -> Self {
        Self { row_codes: Some(codes), ..self.clone() }
    }

    /// The row codes that `other` lacks and could use.
    pub(crate) fn row_codes_of(&self, other: &Self) -> Option<Arc<RowCodes>> {
        self.row_codes.clone().filter(|_| other.row_codes.is_none() && self.encodes_as(other))
    }

    /// The factors of an edge to a row with these values.
    pub(crate) fn signed(&self, factors: EdgeFactors, values: RowValues<'_>) -> EdgeFactors {
        if self.signatures.is_empty() { factors } else { factors.signed(self.signatures.of(values)) }
    }

    /// Whether both models encode rows in the same way, because one is a copy of the other.
    pub(crate) fn encodes_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
    }

    /// Whether enough landmarks were added that they should be read again.
    pub(crate) fn lacks_landmarks(&self, meta: &Meta) -> bool {
        let missing = meta.change.landmarks_made.wrapping_sub(self.landmarks_made) as usize;
        missing >= MISSING_MIN.max(self.landmarks.len() / MISSING_SHARE)
    }

    /// The same model with the current landmarks.
    ///
    /// # Errors
    ///
    /// As [`Model::read`].
    pub(crate) fn with_new_landmarks(&self, meta: &Meta, reader: &mut impl Reader) -> Result<Self, Error> {
        let landmarks = read_landmarks(meta, reader)?;
        let Self { space, centroids, coarse, signatures, row_codes, identity, .. } = self;
        let (space, centroids, coarse) = (space.clone(), centroids.clone(), coarse.clone());
        let signatures = signatures.clone();
        let (landmarks_made, identity) = (meta.change.landmarks_made, identity.clone());
        let row_codes = row_codes.clone();
        Ok(Self { space, centroids, coarse, signatures, landmarks, row_codes, landmarks_made, identity })
    }
}

/// Most landmarks that memory is taken for at once: those of 262,144 inserted rows.
const LANDMARKS_RESERVED_MAX: usize = 1 << 16;

/// Reads all landmarks, except those on pages that `meta` does not know yet.
fn read_landmarks(meta: &Meta, reader: &mut impl Reader) -> Result<Landmarks, Error> {
    // The meta page may be damaged, so its count does not decide how much memory is taken at once.
    let count = LANDMARKS_RESERVED_MAX.min(meta.change.landmarks as usize);
    let mut lists = LandmarkLists::new(meta.layout.edge, meta.centroids, count);
    landmark_pages::scan(meta, reader, |_, found| {
        if meta.layout.place(found.node).0.0 < meta.page_count {
            lists.add(found);
        }
        Ok(())
    })?;
    Ok(lists.finish())
}
