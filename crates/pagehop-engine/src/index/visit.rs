//! One hop: read a node, measure its own distance, estimate its neighbors'.

use crate::Error;
use crate::index::meta::Meta;
use crate::index::model::{Entry, Model};
use crate::page::Reader;
use crate::page::layout::{FLAGS_FREE, NodeHeader, NodeId, NodeRef};
use crate::quantize::estimate::{CENTROIDS_MAX, DEGREE_MAX, Estimator};
use crate::quantize::own::OwnCode;
use crate::quantize::prepare::ToDistance;
use pagehop_kernels as kernels;

/// One query, ready to visit nodes. Reusable: `prepare` starts over.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    query: Vec<f32>,
    estimator: Estimator,
}

/// What a visit tells of the node itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visited {
    pub(crate) header: NodeHeader,
    /// Squared distance in the inner space.
    pub(crate) distance: f32,
}

impl Visited {
    /// Edges that were scored.
    pub(crate) fn degree(&self) -> usize {
        self.header.degree.into()
    }
}

impl Probe {
    /// Takes the user's query; says how to read the distances it gets.
    pub(crate) fn prepare(&mut self, meta: &Meta, model: &Model, query: &[f32]) -> Result<ToDistance, Error> {
        self.query.resize(model.space.inner_dim(), 0.0);
        let to_distance = model.space.query(query, &mut self.query)?;
        self.estimator.prepare(meta.layout.edge, meta.query_digits, &self.query);
        Ok(to_distance)
    }

    /// The query in the inner space.
    pub(crate) fn query(&self) -> &[f32] {
        &self.query
    }

    /// Squared length of the query in the inner space.
    pub(crate) fn query_norm_sq(&self) -> f32 {
        self.estimator.query_norm_sq()
    }

    /// Takes a point of the inner space.
    pub(crate) fn prepare_inner(&mut self, meta: &Meta, point: &[f32]) {
        self.query.clear();
        self.query.extend_from_slice(point);
        self.estimator.prepare(meta.layout.edge, meta.query_digits, &self.query);
    }

    /// Where a search may begin: every entry point with its estimated distance, in no order. Centroids without
    /// rows share another's entry point, so a node may come twice.
    pub(crate) fn entries<'m>(
        &self,
        model: &Model,
        entries: &'m [Entry],
    ) -> impl Iterator<Item = (f32, NodeId)> + use<'m> {
        let mut estimates = [f32::INFINITY; CENTROIDS_MAX];
        self.estimator.coarse(&model.coarse, &mut estimates);
        let entries = estimates.into_iter().zip(entries);
        entries.map(|(estimate, entry)| (estimate + entry.from_centroid_sq, entry.node))
    }

    /// Visits `node` and calls `offer` with the place, estimate and id of each neighbor; `finished` runs once the
    /// neighbors are through and the node's own distance is still to be computed. The slot may be free by now,
    /// or hold another row than the edge meant: what is there is what is visited.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if no slot is there or an edge is impossible; whatever the reader reports.
    #[inline]
    pub(crate) fn visit<R: Reader>(
        &mut self,
        meta: &Meta,
        model: &Model,
        reader: &R,
        node: NodeId,
        mut offer: impl FnMut(usize, f32, NodeId),
        finished: impl FnOnce(&NodeRef<'_>, &NodeHeader),
    ) -> Result<Visited, Error> {
        let (page, slot) = meta.layout.place(node);
        let guard = reader.finish(page)?;
        let node = NodeRef::new(&meta.layout, &guard, slot);
        let header = node.header();
        let degree = usize::from(header.degree);
        if !header.is_valid(&meta.layout) {
            let what =
                format!("an edge leads to slot {slot}, which has flags {} and degree {degree}", header.flags);
            return Err(Error::corrupt(page, what));
        }
        let mut estimates = [0.0; DEGREE_MAX];
        let estimates = &mut estimates[..degree];
        if self.estimator.score(&model.centroids, &self.query, node.edges(), estimates).is_none() {
            return Err(Error::corrupt(page, format!("an edge of slot {slot} names an unknown centroid")));
        }
        for (place, (estimate, neighbor)) in estimates.iter().zip(node.neighbors()).enumerate() {
            offer(place, *estimate, NodeId::from_le_bytes(*neighbor));
        }
        finished(&node, &header);
        if header.flags == FLAGS_FREE {
            return Ok(Visited { header, distance: f32::INFINITY });
        }
        let distance = self.distance(&node, &header);
        Ok(Visited { header, distance })
    }

    /// Estimates the distances to a node's first `estimates.len()` neighbors. `None` if an edge names an unknown centroid.
    pub(crate) fn estimate(&mut self, model: &Model, node: &NodeRef<'_>, estimates: &mut [f32]) -> Option<()> {
        self.estimator.score(&model.centroids, &self.query, node.edges(), estimates)
    }

    /// Squared distance to a node's own code, in the inner space.
    #[inline]
    pub(crate) fn distance(&self, node: &NodeRef<'_>, header: &NodeHeader) -> f32 {
        self.distance_to(OwnCode { step: header.step, norm_sq: header.norm_sq }, node.hi(), node.lo())
    }

    /// Squared distance to an own code that was read before.
    #[inline]
    pub(crate) fn distance_to(&self, own: OwnCode, hi: &[i8], lo: &[u8]) -> f32 {
        let dot = kernels::dot_f32_i12(&self.query, hi, lo);
        (self.estimator.query_norm_sq() + own.norm_sq - 2.0 * own.step * dot).max(0.0)
    }
}
