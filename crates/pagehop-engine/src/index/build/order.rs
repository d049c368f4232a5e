//! Chooses which rows share a page: near rows, so that one page read serves several hops.

use crate::Error;
use crate::graph::{Adjacency, key, key_distance, key_id, keys_of};
use crate::quantize::codes::Codes;
use crate::threads;

/// Rows, or groups of them, between two looks at whether to go on; edges between two such looks.
const BATCH_ROWS: usize = 1 << 16;
const BATCH_EDGES: usize = 1 << 20;

/// The rows of each page.
#[derive(Debug, Default)]
pub(super) struct PageOrder {
    rows: Vec<u32>,
    /// For each page, where its rows end.
    ends: Vec<u32>,
}

impl PageOrder {
    /// The number of pages.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The rows of one page.
    pub(super) fn page(&self, page: usize) -> &[u32] {
        let start = if page == 0 { 0 } else { self.ends[page - 1] };
        &self.rows[start as usize..self.ends[page] as usize]
    }

    /// The rows of each page.
    pub(super) fn pages(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.len()).map(|page| self.page(page))
    }

    /// Adds a page.
    pub(super) fn push(&mut self, rows: &[u32]) {
        self.rows.extend_from_slice(rows);
        self.ends.push(self.rows.len() as u32);
    }
}

/// Puts rows on pages, `per_page` each, except on the last pages.
///
/// Groups grow along the edges of the graph, the shortest edge first, as in Kruskal's algorithm,
/// until they fill a page. What is left is joined in order. Then the groups are put in the order of
/// their first rows' neighborhoods, so that a neighborhood is also close together in the file.
///
/// `look` is called before each batch of rows, edges or groups, and may end the work.
///
/// # Errors
///
/// Those of `look`.
pub(super) fn page_order(
    graph: &Adjacency,
    codes: &Codes,
    (per_page, workers): (usize, usize),
    mut look: impl FnMut() -> Result<(), Error>,
) -> Result<PageOrder, Error> {
    let mut groups = Groups::new(graph.len());
    if per_page > 1 {
        for (at, [a, b]) in edges_by_length(graph, codes, workers, &mut look)?.into_iter().enumerate() {
            if at.is_multiple_of(BATCH_EDGES) {
                look()?;
            }
            groups.join(a, b, per_page);
        }
    }
    let mut pages = PageOrder::default();
    let mut rest = Vec::new();
    // Groups from large to small: single rows fill up the pages of larger groups.
    let mut left: Vec<Vec<u32>> = Vec::new();
    for group in groups.in_order(graph, &mut look)? {
        match group.len() == per_page {
            true => pages.push(&group),
            false => left.push(group),
        }
    }
    left.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let mut last = left.len();
    for at in 0..left.len() {
        let mut page = std::mem::take(&mut left[at]);
        while last > at + 1 && page.len() + left[last - 1].len() <= per_page && !page.is_empty() {
            last -= 1;
            page.append(&mut left[last]);
        }
        match page.len() == per_page {
            true => pages.push(&page),
            false => rest.append(&mut page),
        }
    }
    rest.chunks(per_page).for_each(|page| pages.push(page));
    Ok(pages)
}

/// The edges of the graph, each once, the shortest first.
fn edges_by_length(
    graph: &Adjacency,
    codes: &Codes,
    workers: usize,
    look: &mut impl FnMut() -> Result<(), Error>,
) -> Result<Vec<[u32; 2]>, Error> {
    // Shortest edges of a row that may join groups. When a longer one would be tried, shorter ones
    // have filled the groups of both rows.
    const SHORTEST: usize = 8;
    // Rows that a thread takes at once.
    const BLOCK_ROWS: usize = 1024;
    let of_row = |row: usize| {
        let nearest = keys_of(codes, row, graph.neighbors(row)).into_iter().take(SHORTEST);
        nearest.map(move |near| {
            let (row, other) = (row as u32, key_id(near));
            (key(key_distance(near), row.min(other)), row.max(other))
        })
    };
    let mut edges: Vec<(u64, u32)> = Vec::with_capacity(graph.len() * SHORTEST);
    for start in (0..graph.len()).step_by(BATCH_ROWS) {
        look()?;
        let end = graph.len().min(start + BATCH_ROWS);
        let blocks = threads::map(workers, (end - start).div_ceil(BLOCK_ROWS), |block| {
            let first = start + block * BLOCK_ROWS;
            (first..end.min(first + BLOCK_ROWS)).flat_map(of_row).collect::<Vec<_>>()
        });
        blocks.into_iter().for_each(|block| edges.extend(block));
    }
    look()?;
    edges.sort_unstable();
    edges.dedup();
    Ok(edges.into_iter().map(|(near, other)| [key_id(near), other]).collect())
}

/// A partition of the rows. The members of a group are a ring of `next`.
struct Groups {
    group: Vec<u32>,
    next: Vec<u32>,
    sizes: Vec<u8>,
}

impl Groups {
    fn new(rows: usize) -> Self {
        let each: Vec<u32> = (0..rows as u32).collect();
        Self { group: each.clone(), next: each, sizes: vec![1; rows] }
    }

    /// Joins the groups of two rows, unless they are one or would have more than `most` rows.
    fn join(&mut self, a: u32, b: u32, most: usize) {
        let [into, from] = [a, b].map(|row| self.group[row as usize] as usize);
        if into == from || usize::from(self.sizes[into]) + usize::from(self.sizes[from]) > most {
            return;
        }
        self.sizes[into] += self.sizes[from];
        let mut row = b;
        loop {
            self.group[row as usize] = into as u32;
            row = self.next[row as usize];
            if row == b {
                break;
            }
        }
        self.next.swap(a as usize, b as usize);
    }

    fn members(&self, row: u32) -> Vec<u32> {
        let ring = std::iter::successors(Some(row), |at| Some(self.next[*at as usize]).filter(|next| *next != row));
        ring.collect()
    }

    /// All groups. If possible, a group follows one that has a neighbor of it.
    fn in_order(
        &self,
        graph: &Adjacency,
        look: &mut impl FnMut() -> Result<(), Error>,
    ) -> Result<Vec<Vec<u32>>, Error> {
        let mut placed = vec![false; self.group.len()];
        let (mut ordered, mut scan, mut next) = (Vec::new(), 0, None);
        loop {
            while scan < placed.len() && placed[scan] {
                scan += 1;
            }
            if ordered.len().is_multiple_of(BATCH_ROWS) {
                look()?;
            }
            let Some(row) = next.take().or((scan < placed.len()).then_some(scan as u32)) else {
                return Ok(ordered);
            };
            let members = self.members(row);
            members.iter().for_each(|row| placed[*row as usize] = true);
            let neighbors = members.iter().flat_map(|row| graph.neighbors(*row as usize));
            next = neighbors.copied().find(|row| !placed[*row as usize]);
            ordered.push(members);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn every_row_has_one_place_and_near_rows_share_a_page() {
        let mut random = Random::new(3, 0);
        // Pairs of equal rows that are far from all other rows.
        let mut codes = Codes::new(8);
        for row in 0..400 {
            let at = (row / 2) as f32;
            codes.push(&[at, 1.0, at * at, 0.5, 3.0, 0.0, 1.0, 2.0]);
        }
        let mut graph = Adjacency::new(400, 4);
        for row in 0..400u32 {
            let others =
                [0; 3].map(|_| random.below(400) as u32).map(|other| if other == row { row ^ 1 } else { other });
            graph.set(row as usize, &[row ^ 1, others[0], others[1], others[2]]);
        }
        for per_page in [1, 2, 3, 7] {
            let mut looks = 0i32;
            let mut look = || {
                looks += 1;
                Ok(())
            };
            let pages = page_order(&graph, &codes, (per_page, 2), &mut look).unwrap();
            for stop in 0..looks {
                let mut left = stop;
                let stopped = page_order(&graph, &codes, (per_page, 2), || {
                    left -= 1;
                    if left < 0 { Err(Error::Interrupted) } else { Ok(()) }
                });
                assert!(matches!(stopped, Err(Error::Interrupted)), "{stop} of {looks}");
            }
            let each = if per_page > 1 { 4 } else { 1 };
            assert_eq!(looks, each, "before rows, the sort, joins and groups");
            let mut rows = pages.rows.clone();
            assert!(pages.pages().all(|page| (1..=per_page).contains(&page.len())), "{per_page}");
            assert!(
                pages.len() <= 400_usize.div_ceil(per_page) + 1,
                "{per_page} rows a page: {} pages",
                pages.len()
            );
            rows.sort_unstable();
            assert!(rows.iter().copied().eq(0..400), "{per_page}");
            let together =
                pages.pages().filter(|page| page.iter().any(|row| row % 2 == 0 && page.contains(&(row ^ 1))));
            assert!(per_page != 2 || together.count() == 200);
        }
    }
}
