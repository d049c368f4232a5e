//! The second pass over a partition: what other partitions offer its rows, and their pages.

use super::files::Letters;
use super::partition::Partition;
use crate::Error;
use crate::graph::prune::{Cover, prune};
use crate::graph::{Adjacency, equal, key, key_distance, key_id};
use crate::index::build::order::{PageOrder, page_order};
use crate::threads;

/// Rows whose letters are read as one unit of work.
const BLOCK_LETTERS: usize = 256;
/// Stands for a row that is not in the partition.
pub(super) const ABSENT: u32 = u32::MAX;

/// Gives the rows of a partition the best of their own edges and of those that letters offer.
/// `places` has [`ABSENT`] for every row, and has it again at the end.
pub(super) fn read_letters(
    graph: &mut Adjacency,
    partition: &Partition,
    letters: &Letters,
    places: &mut [u32],
    workers: usize,
) {
    for (place, row) in partition.rows.iter().enumerate() {
        places[*row as usize] = place as u32;
    }
    let all: Vec<(u32, &[u64])> = letters.iter().collect();
    let merged = threads::map(workers, all.len().div_ceil(BLOCK_LETTERS), |block| {
        let some = &all[block * BLOCK_LETTERS..all.len().min((block + 1) * BLOCK_LETTERS)];
        some.iter().map(|(row, offers)| merge(graph, partition, places, *row, offers)).collect::<Vec<_>>()
    });
    for ((row, _), edges) in all.iter().zip(merged.into_iter().flatten()) {
        graph.set(*row as usize, &edges);
    }
    partition.rows.iter().for_each(|row| places[*row as usize] = ABSENT);
}

/// The edges of one row, chosen from those that it has and those that a letter offers.
fn merge(graph: &Adjacency, partition: &Partition, places: &[u32], row: u32, offers: &[u64]) -> Vec<u32> {
    let codes = &partition.codes;
    let at = places[row as usize] as usize;
    let mut keys = Vec::with_capacity(2 * graph.degree);
    keys.extend(graph.neighbors(row as usize).iter().map(|other| {
        let place = places[*other as usize];
        key(codes.hi_distance(at, place as usize), place)
    }));
    // Rows outside the partition get numbers beyond the codes. None covers them.
    let mut strangers = Vec::new();
    for offer in offers {
        let place = match places[key_id(*offer) as usize] {
            ABSENT => {
                strangers.push(key_id(*offer));
                (codes.len() + strangers.len() - 1) as u32
            }
            place if graph.neighbors(row as usize).contains(&key_id(*offer)) => {
                debug_assert!(keys.iter().any(|key| key_id(*key) == place));
                continue;
            }
            place => place,
        };
        keys.push(key(key_distance(*offer), place));
    }
    keys.sort_unstable();
    let mut kept = Vec::with_capacity(graph.degree);
    prune(&keys, graph.degree, &Cover { codes, norm_sq: codes.hi_norm_sq[at] }, &mut kept);
    let name = |place: &u32| match (*place as usize).checked_sub(codes.len()) {
        Some(stranger) => strangers[stranger],
        None => partition.rows[*place as usize],
    };
    kept.iter().map(name).collect()
}

/// Links duplicates, and puts the rows of the partition on pages. `look` may end the work.
///
/// # Errors
///
/// Those of `look`.
pub(super) fn add_pages(
    graph: &mut Adjacency,
    partition: &Partition,
    (firsts, places): (&[u32], &mut [u32]),
    (per_page, workers): (usize, usize),
    order: &mut PageOrder,
    look: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    equal::link_duplicates(graph, firsts, partition.duplicates.iter().copied());
    let own = &partition.rows[..partition.own_count];
    for (place, row) in own.iter().enumerate() {
        places[*row as usize] = place as u32;
    }
    let mut within = Adjacency::with_capacity(own.len(), graph.degree);
    let mut edges = Vec::new();
    for row in own {
        edges.clear();
        let others = graph.neighbors(*row as usize).iter().map(|other| places[*other as usize]);
        edges.extend(others.filter(|place| *place != ABSENT));
        within.push_row(&edges);
    }
    own.iter().for_each(|row| places[*row as usize] = ABSENT);
    for page in page_order(&within, &partition.codes, (per_page, workers), look)?.pages() {
        let rows: Vec<u32> = page.iter().map(|place| own[*place as usize]).collect();
        order.push(&rows);
    }
    // Duplicates of one row share pages. A better choice could take more memory than there is.
    let mut duplicates = partition.duplicates.clone();
    duplicates.sort_by_key(|row| (firsts[*row as usize], *row));
    duplicates.chunks(per_page).for_each(|page| order.push(page));
    Ok(())
}
