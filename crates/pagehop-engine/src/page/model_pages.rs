//! The pages of the model: mean, coarse centroids and landmarks, and the page of the entry points.

use crate::Error;
use crate::ids::NodeId;
use crate::page::fields::{Fields, FieldsMut};
use crate::page::kind::{self, PageKind};
use crate::page::layout::NODES_START;
use crate::page::meta::Meta;
use crate::page::{BODY_BYTES, PageId, PageSink, Reader};
use crate::quantize::centroids::Centroids;
use crate::quantize::edge::EdgeFactors;
use crate::quantize::landmarks::Landmark;

/// First byte of a model page's body that holds model bytes.
pub(crate) const MODEL_START: usize = 16;
const MODEL_BYTES_PER_PAGE: usize = BODY_BYTES - MODEL_START;
const ENTRY_BYTES: usize = 8;

/// Where a search may begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) node: NodeId,
    /// Squared distance from the node to the centroid it stands for.
    pub(crate) from_centroid_sq: f32,
}

/// Bytes of a landmark: node, factors, centroid, code.
fn landmark_bytes(meta: &Meta) -> usize {
    4 + 4 + 4 + 1 + meta.layout.edge.code_bytes()
}

/// Bytes of mean, centroids as 8-bit codes (step, plane), and landmarks.
fn model_bytes(meta: &Meta) -> usize {
    let inner = meta.layout.inner_dim;
    4 * inner + meta.centroids * (4 + inner) + meta.change.landmarks as usize * landmark_bytes(meta)
}

/// Pages that these take; the entry points lie on one more.
pub(crate) fn model_pages(meta: &Meta) -> u32 {
    model_bytes(meta).div_ceil(MODEL_BYTES_PER_PAGE) as u32
}

/// Writes the model from page `meta.change.model_start` on: [`model_pages`] pages. The entry
/// points' page follows.
pub(crate) fn write_model(
    meta: &Meta,
    mean: &[f32],
    centroids: &Centroids,
    landmarks: &[Landmark],
    sink: &mut dyn PageSink,
) -> Result<(), Error> {
    let mut bytes = Vec::with_capacity(model_bytes(meta));
    for x in mean {
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    for i in 0..centroids.len() {
        bytes.extend_from_slice(&centroids.step(i).to_le_bytes());
        bytes.extend_from_slice(bytemuck::cast_slice(centroids.plane(i)));
    }
    for landmark in landmarks {
        bytes.extend_from_slice(&landmark.node.to_le_bytes());
        bytes.extend_from_slice(&landmark.factors.add.to_le_bytes());
        bytes.extend_from_slice(&landmark.factors.factor.to_le_bytes());
        bytes.push(landmark.centroid);
        landmark.code.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    }
    debug_assert_eq!(bytes.len(), model_bytes(meta));
    for (page, part) in (meta.change.model_start..).zip(bytes.chunks(MODEL_BYTES_PER_PAGE)) {
        let mut body = vec![0; BODY_BYTES];
        kind::clear(&mut body, PageKind::Model);
        body[MODEL_START..MODEL_START + part.len()].copy_from_slice(part);
        sink.write(PageId(page), &body)?;
    }
    Ok(())
}

/// The page of the entry points.
pub(crate) fn entries_page(entries: &[Entry]) -> Vec<u8> {
    let mut body = vec![0; BODY_BYTES];
    kind::clear(&mut body, PageKind::Model);
    entries.iter().enumerate().for_each(|(i, entry)| set_entry(&mut body, i, entry));
    body
}

/// Changes one entry point on the body of their page.
pub(crate) fn set_entry(body: &mut [u8], index: usize, entry: &Entry) {
    let at = MODEL_START + ENTRY_BYTES * index;
    let mut fields = FieldsMut::at(body, at);
    fields.u32(entry.node);
    fields.f32(entry.from_centroid_sq);
}

fn read_run(reader: &mut impl Reader, first: u32, pages: u32) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    for page in first..first + pages {
        let guard = reader.finish(PageId(page))?;
        kind::expect_kind(PageId(page), &guard, PageKind::Model)?;
        bytes.extend_from_slice(&guard[MODEL_START..]);
        drop(guard);
        reader.release();
    }
    Ok(bytes)
}

/// Mean, centroids and landmarks.
pub(crate) struct ModelParts {
    pub(crate) mean: Vec<f32>,
    pub(crate) centroids: Centroids,
    pub(crate) landmarks: Vec<Landmark>,
}

/// Reads the model. An index without rows has no centroids and no landmarks, and a mean of zeros.
///
/// # Errors
///
/// [`Error::Corrupt`] if the parts are no numbers, or a landmark is nowhere; any error of the
/// reader.
pub(crate) fn read_model(meta: &Meta, reader: &mut impl Reader) -> Result<ModelParts, Error> {
    let dim = meta.layout.inner_dim;
    let (mut mean, mut centroids, mut landmarks) = (vec![0.0; dim], Centroids::new(dim), Vec::new());
    let first = meta.change.model_start;
    if first > 0 {
        let bytes = read_run(reader, first, model_pages(meta))?;
        let bad = |what| Error::corrupt(PageId(first), what);
        let (means, rest) = bytes.split_at(4 * dim);
        mean = means.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let (codes, rest) = rest.split_at(meta.centroids * (4 + dim));
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
        let stored = rest.chunks_exact(landmark_bytes(meta)).take(meta.change.landmarks as usize);
        for landmark in stored.map(read_landmark) {
            let page = meta.layout.place(landmark.node).0;
            if page == PageId(0) || page.0 >= meta.page_count || usize::from(landmark.centroid) >= meta.centroids {
                return Err(bad("a landmark is nowhere"));
            }
            landmarks.push(landmark);
        }
    }
    Ok(ModelParts { mean, centroids, landmarks })
}

fn read_landmark(bytes: &[u8]) -> Landmark {
    let mut fields = Fields::at(bytes, 0);
    let (node, factors) = (fields.u32(), EdgeFactors { add: fields.f32(), factor: fields.f32() });
    let (centroid, code) = bytes[12..].split_first().expect("a landmark has a centroid");
    let code = code.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Landmark { node, centroid: *centroid, factors, code }
}

/// Reads the entry points, one for each centroid.
pub(crate) fn read_entries(meta: &Meta, reader: &mut impl Reader) -> Result<Vec<Entry>, Error> {
    if meta.centroids == 0 {
        return Ok(Vec::new());
    }
    let page = meta.change.entries_page;
    let bytes = read_run(reader, page, 1)?;
    let entries = bytes.as_chunks::<ENTRY_BYTES>().0[..meta.centroids].iter().map(|bytes| {
        let mut fields = Fields::at(bytes, 0);
        let entry = Entry { node: fields.u32(), from_centroid_sq: fields.f32() };
        if !entry.from_centroid_sq.is_finite() || meta.layout.place(entry.node).0 == PageId(0) {
            return Err(Error::corrupt(PageId(page), "an entry point is nowhere"));
        }
        Ok(entry)
    });
    entries.collect()
}

const _: () = assert!(MODEL_START <= NODES_START);
