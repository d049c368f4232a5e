//! The meta page and the model: what an index must know before it can read a node.

use crate::page::layout::{NODES_START, NodeId, NodeLayout, PageKind};
use crate::page::{BODY_BYTES, MAGIC, PageId, PageSink, Reader};
use crate::quantize::centroids::Centroids;
use crate::quantize::edge::EdgeShape;
use crate::quantize::estimate::{CENTROIDS_MAX, CoarseCodes};
use crate::quantize::prepare::{Space, inner_dim};
use crate::quantize::rotation::Rotation;
use crate::{Error, Metric};

/// Version this build writes, and the only one it reads.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// First byte of a model page's body that holds model bytes.
const MODEL_START: usize = 16;
const MODEL_BYTES_PER_PAGE: usize = BODY_BYTES - MODEL_START;
/// Most dimensions a user's vector may have.
pub(crate) const DIM_MAX: usize = 4096;

/// Page 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Meta {
    pub(crate) metric: Metric,
    pub(crate) dim: usize,
    pub(crate) layout: NodeLayout,
    pub(crate) centroids: usize,
    /// Digits to which a query is quantized, 1 or 2.
    pub(crate) query_digits: usize,
    pub(crate) seed: u64,
    pub(crate) rows: u64,
    pub(crate) page_count: u32,
    pub(crate) norm_sq_max: f32,
}

impl Meta {
    /// Pages of the model; they follow the meta page.
    pub(crate) fn model_pages(&self) -> u32 {
        model_bytes(self.layout.inner_dim, self.centroids).div_ceil(MODEL_BYTES_PER_PAGE) as u32
    }

    /// First page of nodes.
    pub(crate) fn first_node_page(&self) -> PageId {
        PageId(1 + self.model_pages())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let l = &self.layout;
        let mut body = Vec::with_capacity(BODY_BYTES);
        body.extend_from_slice(MAGIC);
        body.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        let metric = match self.metric {
            Metric::L2 => 0,
            Metric::InnerProduct => 1,
            Metric::Cosine => 2,
        };
        body.extend_from_slice(&[metric, l.edge.bits as u8, 12, self.query_digits as u8]);
        for number in [self.dim, l.edge.dims, l.degree, l.nodes_per_page, self.centroids] {
            body.extend_from_slice(&(number as u32).to_le_bytes());
        }
        body.extend_from_slice(&self.norm_sq_max.to_le_bytes());
        body.extend_from_slice(&self.seed.to_le_bytes());
        body.extend_from_slice(&self.rows.to_le_bytes());
        body.extend_from_slice(&self.page_count.to_le_bytes());
        body.resize(BODY_BYTES, 0);
        body
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, Error> {
        if !body.starts_with(MAGIC) {
            return Err(Error::Format { what: "this is not a Pagehop index".into() });
        }
        let mut fields = Fields { body, at: MAGIC.len() };
        let version = fields.u32();
        if version != FORMAT_VERSION {
            let what = format!("the index has format version {version}; this build reads version {FORMAT_VERSION}");
            return Err(Error::Format { what });
        }
        let [metric, bits, own_bits, query_digits] = fields.bytes();
        let [dim, dims, degree, nodes_per_page, centroids] = std::array::from_fn(|_| fields.u32() as usize);
        let bad = |what: &str| Error::corrupt(PageId(0), what);
        let metric = match metric {
            0 => Metric::L2,
            1 => Metric::InnerProduct,
            2 => Metric::Cosine,
            other => return Err(bad(&format!("metric {other} is not 0, 1 or 2"))),
        };
        if own_bits != 12 || !(1..=2).contains(&query_digits) {
            return Err(bad(&format!("own codes of {own_bits} bits and queries of {query_digits} digits")));
        }
        if !(1..=DIM_MAX).contains(&dim) {
            return Err(bad(&format!("{dim} dimensions are not between 1 and {DIM_MAX}")));
        }
        let edge = EdgeShape { dims, bits: bits.into() };
        let layout = NodeLayout { inner_dim: inner_dim(metric, dim), degree, edge, nodes_per_page };
        if !layout.is_valid() || !(1..=CENTROIDS_MAX).contains(&centroids) {
            return Err(bad(&format!("no node has the shape {layout:?} with {centroids} centroids")));
        }
        let norm_sq_max = f32::from_le_bytes(fields.bytes());
        let seed = fields.u64();
        let rows = fields.u64();
        let page_count = fields.u32();
        let meta = Self {
            metric,
            dim,
            layout,
            centroids,
            query_digits: query_digits.into(),
            seed,
            rows,
            page_count,
            norm_sq_max,
        };
        let node_pages = u64::from(page_count).saturating_sub(u64::from(meta.first_node_page().0));
        if fields.u32() != 0 {
            let what = "the index has filter columns or edge signatures, which this build does not read";
            return Err(Error::Format { what: what.into() });
        }
        if rows == 0 || rows > node_pages * nodes_per_page as u64 {
            return Err(bad(&format!("{rows} rows do not fit {node_pages} node pages")));
        }
        if !norm_sq_max.is_finite() || norm_sq_max < 0.0 {
            return Err(bad(&format!("largest squared length {norm_sq_max}")));
        }
        Ok(meta)
    }
}

/// Numbers from a page, one after the other. The body is long enough for every field there is.
struct Fields<'a> {
    body: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let bytes = self.body[self.at..self.at + N].try_into().expect("a slice of N bytes");
        self.at += N;
        bytes
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
}

/// What the model pages hold, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) space: Space,
    pub(crate) centroids: Centroids,
    /// The centroids once more, as edge codes, to choose entry points by.
    pub(crate) coarse: CoarseCodes,
    /// For each centroid the node nearest to it: where a search may begin.
    pub(crate) entries: Vec<Entry>,
}

/// Where a search may begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) node: NodeId,
    /// Squared distance from the node to the centroid it stands for.
    pub(crate) from_centroid_sq: f32,
}

/// Bytes of the model: mean, centroids as 8-bit codes (step, plane), entries (node, distance).
fn model_bytes(inner_dim: usize, centroids: usize) -> usize {
    4 * inner_dim + centroids * (4 + inner_dim + 4 + 4)
}

/// Writes the model pages, from page 1 on.
pub(crate) fn write_model(
    mean: &[f32],
    centroids: &Centroids,
    entries: &[Entry],
    sink: &mut dyn PageSink,
) -> Result<(), Error> {
    let mut bytes = Vec::with_capacity(model_bytes(mean.len(), centroids.len()));
    for x in mean {
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    for i in 0..centroids.len() {
        bytes.extend_from_slice(&centroids.step(i).to_le_bytes());
        bytes.extend_from_slice(bytemuck::cast_slice(centroids.plane(i)));
    }
    for entry in entries {
        bytes.extend_from_slice(&entry.node.to_le_bytes());
        bytes.extend_from_slice(&entry.from_centroid_sq.to_le_bytes());
    }
    for (page, part) in bytes.chunks(MODEL_BYTES_PER_PAGE).enumerate() {
        let mut body = vec![0; BODY_BYTES];
        body[0] = PageKind::Model as u8;
        body[MODEL_START..MODEL_START + part.len()].copy_from_slice(part);
        sink.write(PageId(1 + page as u32), &body)?;
    }
    Ok(())
}

/// Reads the model pages.
pub(crate) fn read_model(meta: &Meta, reader: &mut impl Reader) -> Result<Model, Error> {
    let dim = meta.layout.inner_dim;
    let mut bytes = Vec::new();
    for page in 1..=meta.model_pages() {
        let guard = reader.finish(PageId(page))?;
        if guard[0] != PageKind::Model as u8 {
            return Err(Error::corrupt(PageId(page), format!("a model page has kind 1, this one {}", guard[0])));
        }
        bytes.extend_from_slice(&guard[MODEL_START..]);
        drop(guard);
        reader.release();
    }
    let floats = |part: &[u8]| -> Vec<f32> { part.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect() };
    let bad = |what| Error::corrupt(PageId(1), what);
    let (mean, rest) = bytes.split_at(4 * dim);
    let mean = floats(mean);
    let (codes, rest) = rest.split_at(meta.centroids * (4 + dim));
    let mut centroids = Centroids::new(dim);
    for code in codes.chunks_exact(4 + dim) {
        let (step, plane) = code.split_at(4);
        let step = f32::from_le_bytes(step.try_into().expect("four bytes"));
        if !step.is_finite() || !(0.0..f32::MAX / 4096.0).contains(&step) {
            return Err(bad("a centroid's step is not a number"));
        }
        centroids.push(step, bytemuck::cast_slice(plane));
    }
    if mean.iter().any(|v| !v.is_finite()) {
        return Err(bad("the mean holds a number that is not finite"));
    }
    let coarse = CoarseCodes::new(meta.layout.edge, &centroids);
    let first = meta.first_node_page().0;
    let pages = first..meta.page_count;
    let entries = rest.as_chunks::<8>().0[..meta.centroids].iter().map(|bytes| {
        let mut fields = Fields { body: bytes, at: 0 };
        let entry = Entry { node: fields.u32(), from_centroid_sq: f32::from_le_bytes(fields.bytes()) };
        if !pages.contains(&meta.layout.place(entry.node).0.0) || !entry.from_centroid_sq.is_finite() {
            return Err(bad("an entry point lies outside the node pages, or nowhere"));
        }
        Ok(entry)
    });
    let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
    let rotation = Rotation::new(dim, meta.seed);
    let space = Space { metric: meta.metric, dim: meta.dim, mean, norm_sq_max: meta.norm_sq_max, rotation };
    Ok(Model { space, centroids, coarse, entries })
}

/// A body for a page of nodes, without any.
pub(crate) fn node_page() -> Vec<u8> {
    let mut body = vec![0; BODY_BYTES];
    body[0] = PageKind::Node as u8;
    body
}

const _: () = assert!(MODEL_START <= NODES_START);
