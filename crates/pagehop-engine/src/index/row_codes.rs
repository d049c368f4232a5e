//! Reads a finer code of every row into memory: `quantize/row_codes.rs`.

use std::ops::Range;
use std::sync::Arc;

use crate::index::open::Index;
use crate::index::state::State;
use crate::page::node::{FLAGS_FREE, NodeRef};
use crate::page::{PageId, Pages, Reader, read_ahead, with_reader};
use crate::quantize::edge;
use crate::quantize::row_codes::{RowCodes, RowCodesMut};
use crate::threads::{self, Look};
use crate::{Error, OnProgress, Progress};

/// Pages between two calls of the progress callback.
const LOOK_PAGES: u32 = 64;
/// Fewest pages that are worth a thread.
const PAGES_PER_THREAD: u64 = 16;

/// Reads every page once, and keeps a code of each row in memory that is finer than those of
/// edges: 106 bytes a row in 384 dimensions. From then on searches without a filter estimate
/// the distances of candidates by these codes, and read fewer pages: at ten million rows about
/// half at the same recall. With the same settings they find about as much, or more. Answers have
/// the same distances. Cursors, searches with a filter and calibrations do not use the codes.
///
/// Rows that are added later have no codes, until another call. An index that is trained again
/// loses them. Returns their bytes. `threads` of 0 are all cores; few pages take fewer.
///
/// # Errors
///
/// [`Error::Memory`] if the system does not give the memory; [`Error::Interrupted`] if
/// `progress` breaks; [`Error::Corrupt`] if a page contradicts the format; any error of the
/// host.
pub fn load_row_codes<P: Pages>(
    index: &Index<P>,
    threads: usize,
    progress: OnProgress<'_>,
) -> Result<usize, Error> {
    let state = index.newest().renew(&mut index.pages().reader())?;
    let (layout, range) = (&state.meta.layout, state.node_pages(index.pages()));
    let total = u64::from(range.end.saturating_sub(range.start));
    let parts = u64::min(threads::available(threads) as u64, (total / PAGES_PER_THREAD).max(1));
    let begin = |part: u64| range.start + (total * part / parts) as u32;
    let mut codes = RowCodes::new(layout.edge, range.end as usize * layout.nodes_per_page)?;
    let firsts: Vec<_> = (0..parts).map(|part| layout.node_id(PageId(begin(part)), 0)).collect();
    let split = (0..parts).map(|part| begin(part)..begin(part + 1)).zip(codes.split(&firsts));
    let mut go_on = |done| progress(Progress { phase: "row codes", done: total.min(done * parts), total });
    let centers = state.model.centroids.decode();
    threads::each(split, &mut go_on, |(pages, codes), look| {
        with_reader(index.pages(), |reader| encode((&state, &centers), reader, pages, codes, look))
    })?;
    let bytes = codes.bytes();
    index.newest().take_row_codes(&state, Arc::new(codes));
    Ok(bytes)
}

/// Encodes the nodes on some pages.
fn encode<R: Reader>(
    (state, centers): (&State, &[f32]),
    reader: &mut R,
    pages: Range<u32>,
    mut codes: RowCodesMut<'_>,
    look: Look<'_>,
) -> Result<(), Error> {
    let (meta, layout) = (&state.meta, &state.meta.layout);
    let mut x = Vec::new();
    for page in pages.clone() {
        if (page - pages.start).is_multiple_of(LOOK_PAGES) {
            look(u64::from(page - pages.start))?;
        }
        read_ahead(reader, page, &pages);
        let body = reader.finish(PageId(page))?;
        for slot in 0..layout.nodes_per_page * usize::from(meta.has_nodes(&body)) {
            let node = NodeRef::new(layout, &body, slot);
            let header = node.header();
            if header.flags == FLAGS_FREE {
                continue;
            }
            let center = usize::from(header.centroid) * layout.inner_dim;
            let Some(center) = centers.get(center..center + layout.inner_dim).filter(|_| header.is_valid(layout))
            else {
                let what = format!("slot {slot} has flags {} and centroid {}", header.flags, header.centroid);
                return Err(Error::corrupt(PageId(page), what));
            };
            node.decode(&header, &mut x);
            let origin = (header.centroid, header.generation);
            codes.set(layout.node_id(PageId(page), slot), origin, |shape, code| {
                edge::encode(shape, &x, center, code)
            });
        }
        drop(body);
        reader.release();
    }
    Ok(())
}
