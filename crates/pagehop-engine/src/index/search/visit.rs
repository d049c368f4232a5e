//! One hop of a search: read a node, compute its distance, estimate its neighbors' distances.

use crate::Error;
use crate::ids::NodeId;
use crate::index::model::Model;
use crate::page::kind::{self, PageKind};
use crate::page::meta::Meta;
use crate::page::model_pages::Entry;
use crate::page::node::{FLAGS_FREE, NodeHeader, NodeRef};
use crate::page::{PageId, Reader};
use crate::quantize::estimate::{DEGREE_MAX, EdgeCodes, Estimator};
use crate::quantize::landmarks::Start;
use crate::quantize::own::OwnCode;
use crate::quantize::point::RoundedPoint;
use crate::quantize::prepare::ToDistance;

/// A prepared query, which visits nodes. Reusable: `prepare` starts a new query.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    /// The user's query in the inner space, before it is rounded.
    query: Vec<f32>,
    estimator: Estimator,
}

/// The result of a visit for the node itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visited {
    pub(crate) header: NodeHeader,
    /// Squared distance in the inner space; infinite if it was not asked for.
    pub(crate) distance: f32,
}

/// A node whose neighbors were scored.
pub(crate) struct Scored<'a> {
    pub(crate) node: NodeRef<'a>,
    pub(crate) header: NodeHeader,
    /// Estimated squared distance of each neighbor.
    pub(crate) estimates: &'a mut [f32],
}

impl Scored<'_> {
    /// Estimate and id of each neighbor.
    pub(crate) fn neighbors(&self) -> impl Iterator<Item = (f32, NodeId)> {
        self.estimates.iter().copied().zip(self.node.neighbors())
    }
}

impl Visited {
    /// The number of edges that were scored.
    pub(crate) fn degree(&self) -> usize {
        self.header.degree.into()
    }
}

impl Probe {
    /// Prepares the user's query. Returns the conversion from inner distances to distances of the
    /// metric.
    pub(crate) fn prepare(&mut self, meta: &Meta, model: &Model, query: &[f32]) -> Result<ToDistance, Error> {
        self.query.resize(model.space.inner_dim(), 0.0);
        let filled_sq = meta.filled_sq();
        let to_distance = model.space.query(query, filled_sq, &mut self.query)?;
        self.estimator.prepare(meta.layout.edge, meta.query_digits, &self.query, filled_sq);
        if let Some(codes) = &model.row_codes {
            self.estimator.prepare_refinement(codes, meta.query_digits, &self.query);
        }
        Ok(to_distance)
    }

    /// The query in the inner space, rounded.
    pub(crate) fn point(&self) -> &RoundedPoint {
        self.estimator.point()
    }

    /// Prepares a point of the inner space as the query.
    pub(crate) fn prepare_inner(&mut self, meta: &Meta, point: &[f32]) {
        self.estimator.prepare(meta.layout.edge, meta.query_digits, point, meta.filled_sq());
    }

    /// Prepares a point of the inner space, from which distances are Euclidean under every metric:
    /// those of equal points are 0.
    pub(crate) fn prepare_euclidean(&mut self, meta: &Meta, point: &[f32]) {
        self.estimator.prepare(meta.layout.edge, meta.query_digits, point, None);
    }

    /// The estimated distance of each entry point. `coarse` has the distances of the centroids.
    pub(crate) fn entries<'a>(
        &self,
        coarse: &'a [f32],
        entries: &'a [Entry],
    ) -> impl Iterator<Item = f32> + use<'a> {
        // Under the inner product, the part of a row beyond its centroid may increase the product.
        let weight = if self.estimator.is_filled() { 0.0 } else { 1.0 };
        coarse.iter().zip(entries).map(move |(estimate, entry)| estimate + weight * entry.from_centroid_sq)
    }

    /// Writes the estimated distance of each centroid to `coarse`.
    pub(crate) fn coarse(&self, model: &Model, coarse: &mut Vec<f32>) {
        self.estimator.coarse(&model.coarse, coarse);
    }

    /// Writes the landmarks nearest to the query to `nearest`, nearest first. `nearest` stays empty
    /// if the index has none.
    pub(crate) fn landmarks(&mut self, model: &Model, coarse: &[f32], nearest: &mut Vec<Start>) {
        model.landmarks.nearest(&mut self.estimator, &model.centroids, coarse, nearest);
    }

    /// Estimates the distances of landmarks again, by their row codes.
    pub(crate) fn refine(&mut self, model: &Model, starts: &mut [Start]) {
        let Some(codes) = &model.row_codes else { return };
        for start in starts {
            let node = |_| (start.node, start.generation);
            let estimate = std::slice::from_mut(&mut start.estimate);
            self.estimator.refine((&model.centroids, codes), node, f32::INFINITY, estimate);
        }
    }

    /// Visits `node`: estimates the distances of its neighbors, passes them to `scored`, then
    /// computes the distance of the node itself if `scored` asks for it; if not, it is infinite.
    /// The slot may be free by now, or hold another row than when the edge was made. The visit then
    /// describes the current content.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the slot is invalid or an edge is impossible; any error of the reader.
    #[inline]
    pub(crate) fn visit<R: Reader>(
        &mut self,
        meta: &Meta,
        model: &Model,
        reader: &R,
        node: NodeId,
        scored: impl FnOnce(&Scored<'_>) -> bool,
    ) -> Result<Visited, Error> {
        let (page, slot) = meta.layout.place(node);
        self.visit_in(meta, model, &reader.finish(page)?, (page, slot), None, |neighbors| scored(neighbors))
    }

    /// [`Probe::visit`] of the node in a slot of a page, whose body was read. With a `limit`,
    /// estimates of up to that are by row codes, where there are some.
    #[inline]
    pub(crate) fn visit_in(
        &mut self,
        meta: &Meta,
        model: &Model,
        body: &[u8],
        (page, slot): (PageId, usize),
        limit: Option<f32>,
        scored: impl FnOnce(&mut Scored<'_>) -> bool,
    ) -> Result<Visited, Error> {
        let node = NodeRef::new(&meta.layout, body, slot);
        let header = node.header();
        let degree = usize::from(header.degree);
        if !header.is_valid(&meta.layout) {
            let what =
                format!("an edge leads to slot {slot}, which has flags {} and degree {degree}", header.flags);
            return Err(Error::corrupt(page, what));
        }
        let mut estimates = [0.0; DEGREE_MAX];
        let estimates = &mut estimates[..degree];
        if self.estimator.score(&model.centroids, node.edges(), estimates).is_none() {
            return Err(Error::corrupt(page, format!("an edge of slot {slot} names an unknown centroid")));
        }
        if let (Some(limit), Some(codes)) = (limit, &model.row_codes) {
            let target = |at| (node.neighbor(at), node.generation(at));
            self.estimator.refine((&model.centroids, codes), target, limit, estimates);
        }
        let is_wanted = scored(&mut Scored { node, header, estimates });
        if header.flags == FLAGS_FREE {
            // A page of zeros looks like free slots, and no edge leads to one.
            kind::expect_kind(page, body, PageKind::Node)?;
            return Ok(Visited { header, distance: f32::INFINITY });
        }
        let distance = if is_wanted { self.distance(&node, &header) } else { f32::INFINITY };
        Ok(Visited { header, distance })
    }

    /// Estimates the distances of the first `estimates.len()` neighbors of a node. `None` if an
    /// edge names an unknown centroid.
    pub(crate) fn estimate(&mut self, model: &Model, node: &NodeRef<'_>, estimates: &mut [f32]) -> Option<()> {
        self.estimator.score(&model.centroids, node.edges(), estimates)
    }

    /// Estimates the distances of the first `estimates.len()` of some edges. `None` if one names an
    /// unknown centroid.
    pub(crate) fn estimate_edges(
        &mut self,
        model: &Model,
        edges: EdgeCodes<'_>,
        estimates: &mut [f32],
    ) -> Option<()> {
        self.estimator.score(&model.centroids, edges, estimates)
    }

    /// Squared distance of a node's own code in the inner space.
    #[inline]
    pub(crate) fn distance(&self, node: &NodeRef<'_>, header: &NodeHeader) -> f32 {
        let own = OwnCode { step: header.step, norm_sq: header.norm_sq };
        self.point().distance(own, node.hi(), node.lo())
    }
}
