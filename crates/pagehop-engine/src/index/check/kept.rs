//! Checks kept vectors: no place belongs to two slots, and the vector of each node is the one that
//! its code was made from.

use std::ops::Range;

use crate::index::state::State;
use crate::page::kept_vectors::Place;
use crate::page::node::{FLAGS_FREE, NodeRef};
use crate::page::{PageId, Reader};
use crate::{Error, Metric};

/// Rounding error, relative to the squared lengths of row and mean, of a squared distance between
/// a point and its code. Half of the digits are lost in the dimension that the inner product adds.
const ROUNDING: f32 = 1e-5;

/// The places of vectors that pages of nodes name.
#[derive(Default)]
pub(crate) struct KeptCheck {
    /// Ranges of places as numbers, with the page of nodes that names them.
    places: Vec<(Range<u64>, PageId)>,
}

impl KeptCheck {
    /// Checks the vectors of a page of nodes, whose nodes were checked.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`]; any error of the reader.
    pub(crate) fn check<R: Reader>(
        &mut self,
        state: &State,
        reader: &R,
        page: PageId,
        body: &[u8],
    ) -> Result<(), Error> {
        let layout = &state.meta.layout;
        let Some(shape) = state.meta.kept() else { return Ok(()) };
        let (mut bytes, mut vector, mut code) = (Vec::new(), Vec::new(), Vec::new());
        let mut point = vec![0.0; layout.inner_dim];
        let space = &state.model.space;
        let mean_sq = pagehop_kernels::dot_f32(&space.mean, &space.mean);
        for slot in 0..layout.nodes_per_page {
            let place = shape.of_slot(page, body, slot)?;
            let last = shape.parts(place).map(|part| part.0).max().unwrap_or(PageId(0));
            if last.0 >= state.meta.page_count {
                return Err(Error::corrupt(
                    page,
                    format!("slot {slot} has its vector at {place:?}, beyond the end"),
                ));
            }
            let node = NodeRef::new(layout, body, slot);
            let header = node.header();
            if header.flags == FLAGS_FREE {
                continue;
            }
            shape.read(reader, place, &mut bytes)?;
            shape.decode(&bytes, &mut vector);
            let bad = |what: String| Error::corrupt(PageId(place.page), format!("vector {}: {what}", place.number));
            space.row(&vector, &mut point).map_err(|error| bad(error.to_string()))?;
            node.decode(&header, &mut code);
            let length = match space.metric {
                Metric::Cosine => 1.0,
                Metric::L2 | Metric::InnerProduct => pagehop_kernels::dot_f32(&vector, &vector),
            };
            let off = pagehop_kernels::l2sq_f32(&point, &code);
            // Each component of a code is at most half a step off.
            let most = 0.26 * header.step * header.step * point.len() as f32 + ROUNDING * (length + mean_sq);
            if off > most {
                let what = format!("it is {off} from the code of page {}, slot {slot}, not within {most}", page.0);
                return Err(bad(what));
            }
        }
        self.places.push((shape.numbers(Place::read(body)), page));
        Ok(())
    }

    /// Checks that no place belongs to two pages of nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`].
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.places.sort_unstable_by_key(|places| places.0.start);
        match self.places.windows(2).find(|pair| pair[1].0.start < pair[0].0.end) {
            Some(pair) => {
                let what = format!("its vectors are in places of those of page {}", pair[0].1.0);
                Err(Error::corrupt(pair[1].1, what))
            }
            None => Ok(()),
        }
    }
}
