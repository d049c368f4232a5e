//! Kept vectors: pages that hold the vectors that rows were given with, apart from their nodes, so
//! that a walk does not read them.
//!
//! A page of nodes names the place of the first vector of its slots; those of its other slots
//! follow. So a slot and the place of its vector always belong together, and are free at the same
//! time. The place is in bytes of the page's header that are unused otherwise.

use std::borrow::Cow;
use std::ops::Range;

use super::fields::{Fields, FieldsMut};
use super::kind::{self, PageKind, kind};
use super::layout::NodeLayout;
use super::{BODY_BYTES, PageId, Reader};
use crate::ids::NodeId;
use crate::row_ids::{self, IdKind};
use crate::vectors::Vectors;
use crate::{Error, Metric};
use pagehop_kernels as kernels;

/// First byte of the body that a vector may use.
const VECTORS_START: usize = 40;
/// Bytes of vectors on a page.
const ROOM: usize = BODY_BYTES - VECTORS_START;
/// Where a page of nodes names the place of its first vector.
const PLACE_AT: usize = 8;
/// Places that are allocated together, in pages of one vector or more: pages of nodes rarely use
/// whole pages of vectors, and so they share them.
const GROUP_PAGES: u32 = 16;

/// The shape of an index's kept vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptShape {
    vectors: Vectors,
    dim: usize,
    /// Vectors on a page; 1 where a vector takes several pages.
    per_page: u32,
    /// Pages of a vector.
    pages_each: u32,
    nodes_per_page: u32,
}

/// The place of a vector: its first page, and its number on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) page: u32,
    pub(crate) number: u16,
}

impl Place {
    /// The place that a page of nodes names.
    pub(crate) fn read(body: &[u8]) -> Self {
        let mut fields = Fields::at(body, PLACE_AT);
        let page = fields.u32();
        Self { page, number: u16::from_le_bytes(fields.bytes()) }
    }

    pub(crate) fn write(self, body: &mut [u8]) {
        let mut fields = FieldsMut::at(body, PLACE_AT);
        fields.u32(self.page);
        fields.bytes(&self.number.to_le_bytes());
    }
}

impl KeptShape {
    /// `None` if the index keeps no vectors.
    pub(crate) fn new(vectors: Vectors, dim: usize, layout: &NodeLayout) -> Option<Self> {
        let bytes = vectors.component_bytes() * dim;
        (bytes > 0).then(|| Self {
            vectors,
            dim,
            per_page: (ROOM / bytes).max(1) as u32,
            pages_each: bytes.div_ceil(ROOM) as u32,
            nodes_per_page: layout.nodes_per_page as u32,
        })
    }

    /// Bytes of a vector.
    pub(crate) fn bytes(&self) -> usize {
        self.vectors.component_bytes() * self.dim
    }

    /// Pages for the vectors of this number of slots.
    pub(crate) fn pages(&self, slots: u64) -> u64 {
        slots.div_ceil(self.per_page.into()) * u64::from(self.pages_each)
    }

    /// Pages of a vector.
    pub(crate) fn pages_each(&self) -> u32 {
        self.pages_each
    }

    /// Pages of a group, and the places on them.
    pub(crate) fn group(&self) -> (u32, u32) {
        let places = (GROUP_PAGES * self.per_page).max(self.nodes_per_page);
        (self.pages(places.into()) as u32, places)
    }

    /// The place of vector number `number`, counted from page `first`.
    pub(crate) fn place(&self, first: u32, number: u32) -> Place {
        let page = first.wrapping_add(number / self.per_page * self.pages_each);
        Place { page, number: (number % self.per_page) as u16 }
    }

    /// The place of the vector of a slot of a page of nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the page of nodes, which is `page`, names no place.
    pub(crate) fn of_slot(&self, page: PageId, body: &[u8], slot: usize) -> Result<Place, Error> {
        let first = Place::read(body);
        if first.page == 0 || u32::from(first.number) >= self.per_page {
            return Err(Error::corrupt(page, format!("it names {first:?} as the place of its first vector")));
        }
        Ok(self.place(first.page, u32::from(first.number) + slot as u32))
    }

    /// The places of a page of nodes, as numbers that differ for different places.
    pub(crate) fn numbers(&self, first: Place) -> Range<u64> {
        let (page, each) = (u64::from(first.page), u64::from(self.pages_each));
        let start = page * u64::from(self.per_page) + u64::from(first.number);
        start..start + u64::from(self.nodes_per_page) * each
    }

    /// The parts of a vector, and where each is in the body of its page.
    pub(crate) fn parts(&self, place: Place) -> impl Iterator<Item = (PageId, Range<usize>, Range<usize>)> {
        let (bytes, shape) = (self.bytes(), *self);
        (0..self.pages_each as usize).map(move |part| {
            let within = part * ROOM..((part + 1) * ROOM).min(bytes);
            let start =
                VECTORS_START + usize::from(place.number) * shape.bytes() * usize::from(shape.pages_each == 1);
            (PageId(place.page.wrapping_add(part as u32)), start..start + within.len(), within)
        })
    }

    /// Writes the part of a vector that belongs on a page.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the page is not a page of vectors.
    pub(crate) fn write(page: PageId, body: &mut [u8], at: Range<usize>, part: &[u8]) -> Result<(), Error> {
        if kind(body) == Some(PageKind::Empty) {
            kind::clear(body, PageKind::Vectors);
        }
        kind::expect_kind(page, body, PageKind::Vectors)?;
        body[at].copy_from_slice(part);
        Ok(())
    }

    /// The bytes of a vector, which [`KeptShape::rounded`] has rounded.
    pub(crate) fn encode(&self, vector: &[f32]) -> Vec<u8> {
        match self.vectors {
            Vectors::Float16 => {
                let mut halves = vec![0; vector.len()];
                kernels::f32_to_f16(vector, &mut halves);
                halves.iter().flat_map(|half| half.to_le_bytes()).collect()
            }
            _ => vector.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }

    /// The vector of these bytes.
    pub(crate) fn decode(&self, bytes: &[u8], vector: &mut Vec<f32>) {
        vector.clear();
        match self.vectors {
            Vectors::Float16 => {
                let halves = bytes.as_chunks().0.iter().map(|half| u16::from_le_bytes(*half));
                let halves: Vec<u16> = halves.collect();
                vector.resize(halves.len(), 0.0);
                kernels::f16_to_f32(&halves, vector);
            }
            _ => vector.extend(bytes.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x))),
        }
    }

    /// The place of the vector of a node.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if there is none; any error of the reader.
    pub(crate) fn place_of<R: Reader>(
        &self,
        layout: &NodeLayout,
        reader: &R,
        node: NodeId,
    ) -> Result<Place, Error> {
        let (page, slot) = layout.place(node);
        let body = reader.finish(page)?;
        kind::expect_kind(page, &body, PageKind::Node)?;
        self.of_slot(page, &body, slot)
    }

    /// Reads the bytes of the vector in a place.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the page holds no vectors; any error of the reader.
    pub(crate) fn read<R: Reader>(&self, reader: &R, place: Place, bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.clear();
        for (page, at, _) in self.parts(place) {
            let body = reader.finish(page)?;
            kind::expect_kind(page, &body, PageKind::Vectors)?;
            bytes.extend_from_slice(&body[at]);
        }
        Ok(())
    }
}

/// The vectors as an index has them: rounded, if it keeps half precision. The error for one that
/// is too large has the position of its row, counted from `first`, and its id.
///
/// # Errors
///
/// [`Error::Argument`] for a component beyond half precision.
pub(crate) fn rounded<'v>(
    vectors: Vectors,
    (id_kind, ids): (IdKind, &[u64]),
    components: &'v [f32],
    first: usize,
) -> Result<Cow<'v, [f32]>, Error> {
    if vectors != Vectors::Float16 {
        return Ok(Cow::Borrowed(components));
    }
    let (mut halves, mut rounded) = (vec![0; components.len()], vec![0.0; components.len()]);
    kernels::f32_to_f16(components, &mut halves);
    kernels::f16_to_f32(&halves, &mut rounded);
    let beyond = components.iter().zip(&rounded).position(|(given, half)| given.is_finite() && !half.is_finite());
    if let Some(at) = beyond {
        let dim = components.len() / ids.len().max(1);
        let (row, component, value) = (at / dim, at % dim, components[at]);
        let what = format!("component {component} is {value}, float16 holds up to 65504: keep float32");
        return Err(Error::argument(what).of_row(first + row, row_ids::known_number(id_kind, ids[row])));
    }
    Ok(Cow::Owned(rounded))
}

/// The distance of the metric between a query and a row, both as the user gave them.
pub(crate) fn distance(metric: Metric, query: &[f32], row: &[f32]) -> f32 {
    match metric {
        Metric::L2 => kernels::l2sq_f32(query, row),
        Metric::InnerProduct => -kernels::dot_f32(query, row),
        Metric::Cosine => {
            let lengths = kernels::dot_f32(query, query).sqrt() * kernels::dot_f32(row, row).sqrt();
            (1.0 - kernels::dot_f32(query, row) / lengths).max(0.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_group_are_different_and_hold_a_vector() {
        for (vectors, dim) in
            [(Vectors::Float32, 1), (Vectors::Float32, 384), (Vectors::Float16, 4096), (Vectors::Float32, 4096)]
        {
            let layout = NodeLayout::choose(dim.max(64), 0);
            let shape = KeptShape::new(vectors, dim, &layout).expect("vectors are kept");
            let (pages, places) = shape.group();
            let mut taken = Vec::new();
            for number in 0..places {
                let mut bytes = 0;
                for (page, at, within) in shape.parts(shape.place(7, number)) {
                    assert!((7..7 + pages).contains(&page.0) && at.end <= BODY_BYTES && at.start >= VECTORS_START);
                    assert_eq!(at.len(), within.len());
                    bytes += at.len();
                    taken.push((page.0, at.start, at.end));
                }
                assert_eq!(bytes, shape.bytes());
            }
            taken.sort_unstable();
            assert!(
                taken.windows(2).all(|pair| pair[0].0 < pair[1].0 || pair[0].2 <= pair[1].1),
                "{vectors:?} {dim}"
            );
            let vector: Vec<f32> = (0..dim).map(|at| (at % 2048) as f32 / 4.0).collect();
            let mut again = Vec::new();
            shape.decode(&shape.encode(&vector), &mut again);
            assert_eq!(vector, again);
        }
    }
}
