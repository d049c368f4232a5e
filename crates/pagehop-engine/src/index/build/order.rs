//! Chooses which rows share a page: near rows, so that one page read serves several hops.

use crate::graph::Graph;

/// The rows of each page, `per_page` each, except on the last pages.
///
/// Pages are filled one after another: with a row that has no page yet and its nearest neighbors
/// without a page. The next page starts at a neighbor of this one, so a neighborhood is also close
/// together in the file.
pub(crate) fn page_order(graph: &Graph, per_page: usize) -> Vec<Vec<u32>> {
    let rows = graph.len();
    let mut placed = vec![false; rows];
    let mut pages = Vec::with_capacity(rows.div_ceil(per_page));
    let mut singles = Vec::new();
    let mut scan = 0;
    let mut next: Option<u32> = None;
    loop {
        let first = match next.take() {
            Some(row) => row,
            None => {
                while scan < rows && placed[scan] {
                    scan += 1;
                }
                if scan == rows {
                    break;
                }
                scan as u32
            }
        };
        let mut page = vec![first];
        placed[first as usize] = true;
        for &neighbor in graph.neighbors(first as usize) {
            if page.len() == per_page {
                break;
            }
            if !std::mem::replace(&mut placed[neighbor as usize], true) {
                page.push(neighbor);
            }
        }
        next = graph
            .neighbors(*page.last().expect("a page has a row") as usize)
            .iter()
            .copied()
            .find(|n| !placed[*n as usize]);
        if page.len() == per_page {
            pages.push(page);
        } else {
            singles.extend(page);
        }
    }
    pages.extend(singles.chunks(per_page).map(<[u32]>::to_vec));
    pages
}
