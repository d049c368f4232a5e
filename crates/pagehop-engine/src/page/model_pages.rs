//! The pages of the model: mean, coarse centroids and the signatures of columns, and the page of
//! the entry points.

use crate::Error;
use crate::columns::signatures::{COLUMN_WORDS, Signatures};
use crate::ids::NodeId;
use crate::page::fields::{Fields, FieldsMut};
use crate::page::kind::{self, PageKind};
use crate::page::layout::NODES_START;
use crate::page::meta::Meta;
use crate::page::{BODY_BYTES, PageId, PageSink, Reader};
use crate::quantize::centroids::Centroids;

/// First byte of a model page's body that holds model bytes.
pub(crate) const MODEL_START: usize = 16;
const MODEL_BYTES_PER_PAGE: usize = BODY_BYTES - MODEL_START;
const ENTRY_BYTES: usize = 8;

/// A node at which a search may begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) node: NodeId,
    /// Squared distance from the node to the centroid it stands for.
    pub(crate) from_centroid_sq: f32,
}

/// Bytes of the mean and the centroids as 8-bit codes (step, plane).
fn vector_bytes(meta: &Meta) -> usize {
    let inner = meta.layout.inner_dim;
    4 * inner + meta.centroids * (4 + inner)
}

/// Bytes of these and of the signatures of columns.
fn model_bytes(meta: &Meta) -> usize {
    vector_bytes(meta) + meta.columns() * COLUMN_WORDS * size_of::<u64>()
}

/// Number of pages of the model; the entry points lie on one more.
pub(crate) fn model_pages(meta: &Meta) -> u32 {
    model_bytes(meta).div_ceil(MODEL_BYTES_PER_PAGE) as u32
}

/// Writes the model from page `meta.change.model_start` on: [`model_pages`] pages. The entry
/// points' page follows.
pub(crate) fn write_model(
    meta: &Meta,
    mean: &[f32],
    centroids: &Centroids,
    signatures: &Signatures,
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
    signatures.words().iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
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

/// Reads the mean, the centroids and the signatures. An index without rows has no centroids and no
/// signatures, and a mean of zeros.
///
/// # Errors
///
/// [`Error::Corrupt`] if they are not numbers; any error of the reader.
pub(crate) fn read_model(
    meta: &Meta,
    reader: &mut impl Reader,
) -> Result<(Vec<f32>, Centroids, Signatures), Error> {
    let dim = meta.layout.inner_dim;
    let (mut mean, mut centroids) = (vec![0.0; dim], Centroids::new(dim));
    let mut signatures = Signatures::default();
    let first = meta.change.model_start;
    if first > 0 {
        let bytes = read_run(reader, first, model_pages(meta))?;
        let bad = |what| Error::corrupt(PageId(first), what);
        let (means, rest) = bytes.split_at(4 * dim);
        mean = means.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        for code in rest.chunks_exact(4 + dim).take(meta.centroids) {
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
        let words = bytes[vector_bytes(meta)..model_bytes(meta)].as_chunks().0;
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        signatures = Signatures::of_words(&words).ok_or_else(|| bad("the buckets of a column are damaged"))?;
    }
    Ok((mean, centroids, signatures))
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
            return Err(Error::corrupt(PageId(page), "an entry point names no page"));
        }
        Ok(entry)
    });
    entries.collect()
}

const _: () = assert!(MODEL_START <= NODES_START);
