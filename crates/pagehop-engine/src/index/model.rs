//! The model: what an index learned from its first rows (mean, centroids, landmarks).

use crate::Error;
use crate::page::Reader;
use crate::page::meta::Meta;
use crate::page::model_pages::{self, ModelParts};
use crate::quantize::centroids::Centroids;
use crate::quantize::estimate::CoarseCodes;
use crate::quantize::landmarks::Landmarks;
use crate::quantize::prepare::Space;
use crate::quantize::rotation::Rotation;

/// The parameters that encode vectors.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// Metric, mean and rotation.
    pub(crate) space: Space,
    pub(crate) centroids: Centroids,
    /// The centroids as edge codes, for choosing entry points.
    pub(crate) coarse: CoarseCodes,
    /// Where searches begin.
    pub(crate) landmarks: Landmarks,
}

impl Model {
    /// Reads the model of an index.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a page contradicts the format; any error of the reader.
    pub(crate) fn read(meta: &Meta, reader: &mut impl Reader) -> Result<Self, Error> {
        let ModelParts { mean, centroids, landmarks } = model_pages::read_model(meta, reader)?;
        let landmarks = Landmarks::new(meta.layout.edge, &landmarks, centroids.len());
        let coarse = CoarseCodes::new(meta.layout.edge, &centroids);
        let rotation = Rotation::new(meta.layout.inner_dim, meta.seed);
        let space = Space { metric: meta.metric, dim: meta.dim, mean, rotation };
        Ok(Self { space, centroids, coarse, landmarks })
    }
}
