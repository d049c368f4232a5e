//! Re-ranking by kept vectors: exact distances of the last candidates of a search.
//!
//! Codes decide which rows are candidates: the `k` nearest, and up to [`SPARE_ROWS`] more, because
//! codes may exchange rows at nearly equal distances. Their vectors decide which of them are the
//! answer, and in which order.

use crate::index::search::nearest::NearRow;
use crate::index::state::State;
use crate::page::kept_vectors::{self, KeptShape};
use crate::page::{PageId, Reader};
use crate::quantize::prepare::ToDistance;
use crate::{Error, Hit};

/// Most candidates beyond `k` whose vectors are read.
const SPARE_ROWS: usize = 2;
/// A spare candidate is read if it would be in the answer with an error of its code that is this
/// multiple of the largest error of the codes of the first `k`.
const SPARE_ERRORS: f32 = 4.0;

/// Candidates beyond `k` that a search of the index keeps.
pub(crate) fn spare(state: &State) -> usize {
    if state.meta.kept().is_some() { SPARE_ROWS } else { 0 }
}

/// The `k` nearest of `found`, which codes have sorted, by the vectors that are kept; if no vectors
/// are kept, the first `k`. Equal distances are in order of row id. Reads the vectors of `k` rows,
/// and of up to [`SPARE_ROWS`] more if their codes are too close to decide: at most one page each,
/// or as many as a vector takes. Adds these pages to `pages`.
///
/// # Errors
///
/// [`Error::Corrupt`] if a page contradicts the format; any error of the reader.
pub(crate) fn rerank<R: Reader>(
    state: &State,
    reader: &mut R,
    query: &[f32],
    k: usize,
    found: &[NearRow],
    to_distance: ToDistance,
    pages: &mut Vec<PageId>,
) -> Result<Vec<Hit>, Error> {
    let first = &found[..found.len().min(k)];
    let by_code = first.iter().map(|near| near.hit(to_distance));
    let Some(shape) = state.meta.kept() else {
        let mut hits: Vec<Hit> = by_code.collect();
        sort(&mut hits);
        return Ok(hits);
    };
    let mut hits = exact(state, reader, &shape, query, first, pages)?;
    let error = hits.iter().zip(by_code).map(|(hit, code)| (hit.distance - code.distance).abs());
    let error = SPARE_ERRORS * error.fold(0.0, f32::max);
    let last = hits.iter().map(|hit| hit.distance).fold(f32::NEG_INFINITY, f32::max);
    let spare = found[first.len()..].iter().take(SPARE_ROWS);
    let near = spare.take_while(|near| near.hit(to_distance).distance - error <= last).count();
    hits.extend(exact(state, reader, &shape, query, &found[first.len()..][..near], pages)?);
    sort(&mut hits);
    hits.truncate(k);
    Ok(hits)
}

/// Puts rows in order of their distances, ties in order of id. Two distances that differ in the
/// inner space may be one under the metric.
fn sort(hits: &mut [Hit]) {
    hits.sort_by(|a, b| a.distance.total_cmp(&b.distance).then(a.row_id.cmp(&b.row_id)));
}

/// The rows with their exact distances, in the same order. Their pages are read at the same time.
fn exact<R: Reader>(
    state: &State,
    reader: &mut R,
    shape: &KeptShape,
    query: &[f32],
    found: &[NearRow],
    pages: &mut Vec<PageId>,
) -> Result<Vec<Hit>, Error> {
    let mut places = Vec::with_capacity(found.len());
    for near in found {
        let place = shape.place_of(&state.meta.layout, reader, near.node)?;
        reader.release();
        for (page, at, _) in shape.parts(place) {
            reader.start(page, at);
            pages.push(page);
        }
        places.push(place);
    }
    let (mut bytes, mut vector) = (Vec::new(), Vec::new());
    let mut hits = Vec::with_capacity(found.len());
    for (near, place) in found.iter().zip(places) {
        shape.read(reader, place, &mut bytes)?;
        reader.release();
        shape.decode(&bytes, &mut vector);
        let distance = kept_vectors::distance(state.meta.metric, query, &vector);
        hits.push(Hit { row_id: near.row_id, distance, node: near.node });
    }
    Ok(hits)
}

/// Sorts the pages, keeps each once, and counts them.
pub(crate) fn distinct(pages: &mut Vec<PageId>) -> u64 {
    pages.sort_unstable();
    pages.dedup();
    pages.len() as u64
}
