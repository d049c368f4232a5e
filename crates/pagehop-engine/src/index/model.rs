//! The model: what an index learned from its first rows. Mean, coarse centroids, and where a search may begin.

use super::meta::{Fields, Meta};
use crate::Error;
use crate::page::layout::{NODES_START, NodeId, PageKind};
use crate::page::{BODY_BYTES, PageId, PageSink, Reader};
use crate::quantize::centroids::Centroids;
use crate::quantize::estimate::CoarseCodes;
use crate::quantize::prepare::Space;
use crate::quantize::rotation::Rotation;

/// First byte of a model page's body that holds model bytes.
pub(crate) const MODEL_START: usize = 16;
const MODEL_BYTES_PER_PAGE: usize = BODY_BYTES - MODEL_START;
const ENTRY_BYTES: usize = 8;

/// What the model pages hold, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) space: Space,
    pub(crate) centroids: Centroids,
    /// The centroids once more, as edge codes, to choose entry points by.
    pub(crate) coarse: CoarseCodes,
}

/// Where a search may begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) node: NodeId,
    /// Squared distance from the node to the centroid it stands for.
    pub(crate) from_centroid_sq: f32,
}

/// Bytes of mean and centroids, the latter as 8-bit codes (step, plane).
fn model_bytes(inner_dim: usize, centroids: usize) -> usize {
    4 * inner_dim + centroids * (4 + inner_dim)
}

/// Pages that mean and centroids take; the entry points lie on one more.
fn model_pages(meta: &Meta) -> u32 {
    model_bytes(meta.layout.inner_dim, meta.centroids).div_ceil(MODEL_BYTES_PER_PAGE) as u32
}

/// Writes the model from page `meta.change.model_start` on, the entry points' page behind it; returns the page
/// after that.
pub(crate) fn write_model(
    meta: &mut Meta,
    mean: &[f32],
    centroids: &Centroids,
    sink: &mut dyn PageSink,
) -> Result<PageId, Error> {
    let mut bytes = Vec::with_capacity(model_bytes(mean.len(), centroids.len()));
    for x in mean {
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    for i in 0..centroids.len() {
        bytes.extend_from_slice(&centroids.step(i).to_le_bytes());
        bytes.extend_from_slice(bytemuck::cast_slice(centroids.plane(i)));
    }
    let mut page = meta.change.model_start;
    for part in bytes.chunks(MODEL_BYTES_PER_PAGE) {
        let mut body = vec![0; BODY_BYTES];
        body[0] = PageKind::Model as u8;
        body[MODEL_START..MODEL_START + part.len()].copy_from_slice(part);
        sink.write(PageId(page), &body)?;
        page += 1;
    }
    meta.change.entries_page = page;
    Ok(PageId(page + 1))
}

/// The page of the entry points.
pub(crate) fn entries_page(entries: &[Entry]) -> Vec<u8> {
    let mut body = vec![0; BODY_BYTES];
    body[0] = PageKind::Model as u8;
    entries.iter().enumerate().for_each(|(i, entry)| set_entry(&mut body, i, entry));
    body
}

/// Changes one entry point on the body of their page.
pub(crate) fn set_entry(body: &mut [u8], index: usize, entry: &Entry) {
    let at = MODEL_START + ENTRY_BYTES * index;
    body[at..at + 4].copy_from_slice(&entry.node.to_le_bytes());
    body[at + 4..at + ENTRY_BYTES].copy_from_slice(&entry.from_centroid_sq.to_le_bytes());
}

fn read_run(reader: &mut impl Reader, first: u32, pages: u32) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    for page in first..first + pages {
        let guard = reader.finish(PageId(page))?;
        if guard[0] != PageKind::Model as u8 {
            return Err(Error::corrupt(PageId(page), format!("a model page has kind 1, this one {}", guard[0])));
        }
        bytes.extend_from_slice(&guard[MODEL_START..]);
        drop(guard);
        reader.release();
    }
    Ok(bytes)
}

/// Reads mean and centroids. An empty index has neither.
pub(crate) fn read_model(meta: &Meta, reader: &mut impl Reader) -> Result<Model, Error> {
    let dim = meta.layout.inner_dim;
    let (mut mean, mut centroids) = (vec![0.0; dim], Centroids::new(dim));
    let first = meta.change.model_start;
    if first > 0 {
        let bytes = read_run(reader, first, model_pages(meta))?;
        let bad = |what| Error::corrupt(PageId(first), what);
        let (means, rest) = bytes.split_at(4 * dim);
        mean = means.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        for code in rest[..meta.centroids * (4 + dim)].chunks_exact(4 + dim) {
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
    }
    let coarse = CoarseCodes::new(meta.layout.edge, &centroids);
    let rotation = Rotation::new(dim, meta.seed);
    let space = Space { metric: meta.metric, dim: meta.dim, mean, norm_sq_max: meta.norm_sq_max, rotation };
    Ok(Model { space, centroids, coarse })
}

/// Reads the entry points, one for each centroid.
pub(crate) fn read_entries(meta: &Meta, reader: &mut impl Reader) -> Result<Vec<Entry>, Error> {
    if meta.centroids == 0 {
        return Ok(Vec::new());
    }
    let (page, bytes, at) = match meta.change.entries_page {
        // In version 1 they follow the centroids.
        0 => {
            let at = model_bytes(meta.layout.inner_dim, meta.centroids);
            let pages = (at + ENTRY_BYTES * meta.centroids).div_ceil(MODEL_BYTES_PER_PAGE) as u32;
            (meta.change.model_start, read_run(reader, meta.change.model_start, pages)?, at)
        }
        page => (page, read_run(reader, page, 1)?, 0),
    };
    let entries = bytes[at..].as_chunks::<ENTRY_BYTES>().0[..meta.centroids].iter().map(|bytes| {
        let mut fields = Fields { body: bytes, at: 0 };
        let entry = Entry { node: fields.u32(), from_centroid_sq: f32::from_le_bytes(fields.bytes()) };
        if !entry.from_centroid_sq.is_finite() || meta.layout.place(entry.node).0 == PageId(0) {
            return Err(Error::corrupt(PageId(page), "an entry point is nowhere"));
        }
        Ok(entry)
    });
    entries.collect()
}

/// A body for a page of nodes, without any.
pub(crate) fn node_page() -> Vec<u8> {
    let mut body = vec![0; BODY_BYTES];
    body[0] = PageKind::Node as u8;
    body
}

const _: () = assert!(MODEL_START <= NODES_START);
