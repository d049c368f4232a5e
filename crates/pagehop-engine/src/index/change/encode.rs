//! Encodes a row for a node, and a node for the edges that point to it.

use crate::Error;
use crate::columns::RowValues;
use crate::columns::tags::TagSets;
use crate::ids::NodeId;
use crate::index::model::Model;
use crate::page::meta::Meta;
use crate::page::node::{Edge, NodeRef};
use crate::quantize::edge::{self, EdgeFactors};
use crate::quantize::own::{self, OwnCode};
use crate::quantize::point::RoundedPoint;

/// A row's codes.
#[derive(Clone, Debug, Default)]
pub(crate) struct EncodedRow {
    pub(crate) own: OwnCode,
    pub(crate) hi: Vec<i8>,
    pub(crate) lo: Vec<u8>,
    /// The row in the inner space.
    pub(crate) exact: Vec<f32>,
    /// The vector that the own code decodes to.
    pub(crate) point: Vec<f32>,
    pub(crate) centroid: u8,
    pub(crate) factors: EdgeFactors,
    pub(crate) code: Vec<u64>,
    /// The values of its columns, as a node has them.
    pub(crate) values: Vec<u8>,
    /// The tags that the values do not have; empty in an index without columns of tags.
    pub(crate) sets: TagSets,
    /// The bytes of the vector that are kept; empty if none are.
    pub(crate) kept: Vec<u8>,
}

/// The content of every edge to one node.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) node: NodeId,
    pub(crate) generation: u8,
    pub(crate) centroid: u8,
    pub(crate) factors: EdgeFactors,
    pub(crate) code: Vec<u64>,
}

impl Target {
    pub(crate) fn edge(&self, anchor: bool) -> Edge<'_> {
        Edge {
            neighbor: self.node,
            generation: self.generation,
            anchor,
            centroid: self.centroid,
            factors: self.factors,
            code: &self.code,
        }
    }
}

impl EncodedRow {
    /// Encodes the user's vector.
    ///
    /// # Errors
    ///
    /// [`Error::Dimension`] or [`Error::Argument`] if the metric cannot place it.
    pub(crate) fn new(meta: &Meta, model: &Model, row: &[f32]) -> Result<Self, Error> {
        let mut encoded = Self::uncoded(meta, model, row)?;
        encoded.complete(meta, model);
        Ok(encoded)
    }

    /// Maps the vector into the inner space, which is enough to find its place. There is no code
    /// yet.
    ///
    /// # Errors
    ///
    /// As [`EncodedRow::new`].
    pub(crate) fn uncoded(meta: &Meta, model: &Model, row: &[f32]) -> Result<Self, Error> {
        if row.len() != meta.dim {
            return Err(Error::Dimension { expected: meta.dim, got: row.len() });
        }
        let dim = meta.layout.inner_dim;
        let mut x = vec![0.0; dim];
        model.space.row(row, &mut x)?;
        let kept = meta.kept().map_or_else(Vec::new, |shape| shape.encode(row));
        Ok(Self { own: own::measure(&x), exact: x, kept, ..Self::default() })
    }

    /// Computes the own code, unless it is computed.
    pub(crate) fn encode_own(&mut self) {
        if self.hi.is_empty() {
            let dim = self.exact.len();
            (self.hi, self.lo) = (vec![0; dim], vec![0; own::lo_bytes(dim)]);
            self.own = own::encode(&self.exact, &mut vec![0; dim], &mut self.hi, &mut self.lo);
        }
    }

    /// Computes the own code and the edge code.
    pub(crate) fn complete(&mut self, meta: &Meta, model: &Model) {
        self.encode_own();
        let mut x = vec![0.0; self.exact.len()];
        // From the code, not from the user's vector: any reader of the node then computes the same
        // edge code.
        own::decode(self.own.step, &self.hi, &self.lo, &mut vec![0; x.len()], &mut x);
        self.centroid = nearest_centroid(model, &x);
        self.code = vec![0; meta.layout.edge.words()];
        self.factors = encode_edge(meta, model, &x, self.centroid, &mut self.code);
        self.point = x;
        self.sign(model);
    }

    /// Gives the row other values.
    pub(crate) fn set_values(&mut self, model: &Model, values: &[u8]) {
        self.values = values.to_vec();
        self.sign(model);
    }

    /// Writes the signature of the values, once there are some, into the factors.
    fn sign(&mut self, model: &Model) {
        if !self.values.is_empty() {
            self.factors = model.signed(self.factors, RowValues(&self.values));
        }
    }

    /// The content of an edge to this row once it is in `node`.
    pub(crate) fn target(&self, node: NodeId, generation: u8) -> Target {
        let (centroid, factors, code) = (self.centroid, self.factors, self.code.clone());
        Target { node, generation, centroid, factors, code }
    }

    /// The content of an edge to a node that has the codes of this row, and values of its own.
    pub(crate) fn target_of(&self, model: &Model, id: NodeId, node: &NodeRef<'_>) -> Target {
        let factors = model.signed(self.factors, node.values());
        Target { factors, ..self.target(id, node.header().generation) }
    }
}

/// The content of an edge to the node, made from its own code.
pub(crate) fn target(meta: &Meta, model: &Model, id: NodeId, node: &NodeRef<'_>) -> Option<Target> {
    let header = node.header();
    if usize::from(header.centroid) >= model.centroids.len() {
        return None;
    }
    let mut x = Vec::new();
    node.decode(&header, &mut x);
    let mut code = vec![0; meta.layout.edge.words()];
    let factors = encode_edge(meta, model, &x, header.centroid, &mut code);
    let factors = model.signed(factors, node.values());
    Some(Target { node: id, generation: header.generation, centroid: header.centroid, factors, code })
}

/// The content of the edge in a place of `node`.
pub(crate) fn copy(node: &NodeRef<'_>, place: usize) -> Option<Target> {
    let link = node.links().nth(place)?;
    let ((centroid, factors), code) = (node.edge_factors(place), node.edge_code(place));
    Some(Target { node: link.node, generation: link.generation, centroid, factors, code })
}

/// Whether the edge in a place of `node` has the content of an edge to `target`, whatever the
/// values of both rows are: then both lead to equal rows.
pub(crate) fn is_edge_to(node: &NodeRef<'_>, place: usize, target: &Target) -> bool {
    let (centroid, factors) = node.edge_factors(place);
    let are_signed = !node.values().0.is_empty();
    let bits = |factors: EdgeFactors| {
        let EdgeFactors { add, factor } = if are_signed { factors.signed(0) } else { factors };
        (add.to_bits(), factor.to_bits())
    };
    centroid == target.centroid && bits(factors) == bits(target.factors) && node.edge_code(place) == target.code
}

fn encode_edge(meta: &Meta, model: &Model, x: &[f32], centroid: u8, code: &mut [u64]) -> EdgeFactors {
    let step = model.centroids.step(centroid.into());
    let center: Vec<f32> = model.centroids.plane(centroid.into()).iter().map(|v| step * f32::from(*v)).collect();
    edge::encode(meta.layout.edge, x, &center, code)
}

/// The nearest centroid; the first of equally near ones.
fn nearest_centroid(model: &Model, x: &[f32]) -> u8 {
    let point = RoundedPoint::new(x);
    let distances = (0..model.centroids.len()).map(|i| (model.centroids.distance(i, &point), i));
    distances.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |nearest| nearest.1 as u8)
}

/// The error for a node that names a centroid the model does not have.
pub(super) fn unknown_centroid(meta: &Meta, node: NodeId) -> Error {
    let (page, slot) = meta.layout.place(node);
    Error::corrupt(page, format!("slot {slot} names an unknown centroid"))
}
