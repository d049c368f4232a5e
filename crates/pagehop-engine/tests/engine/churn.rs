//! The remains of changes: pages that were allocated and never used, edges to slots that had many
//! rows since, and edges to dead rows from far away.

use std::collections::BTreeSet;

use crate::support;
use crate::support::hosted::{built, check, insert, remove, vacuum};
use crate::support::{Noise, Rows, embeddings, no_progress};
use pagehop_engine::page::{Pages, PagesMut};
use pagehop_engine::{Error, Index, Metric, PageId};
use pagehop_sim::MemPages;

const DIM: usize = 24;

#[test]
fn pages_that_no_step_used_become_free() {
    let mut rows = Rows::new(DIM, embeddings(DIM, 600, 1));
    rows.ids = (1..=600).collect();
    let mut pages = built(&rows, Metric::L2);
    insert(&mut pages, 601, rows.row(1), false);
    let before = check(&pages).free_slots;
    // Sessions ended between the allocation of a page and the step that would have used it.
    (0..20).for_each(|_| assert!(pages.writer().allocate(1).is_ok()));
    insert(&mut pages, 602, rows.row(2), false);
    remove(&mut pages, &BTreeSet::new());
    let per_page = Index::open(&pages).unwrap().info().unwrap().nodes_per_page as u64;
    let (free, count) = (check(&pages).free_slots, pages.page_count());
    assert!(free >= before + 20 * per_page - 1, "{before} slots were free, now {free}");
    // The free slots are used before the index grows, as long as there is one for eight rows.
    let more = embeddings(DIM, 60, 3);
    more.chunks_exact(DIM).zip(5000..).for_each(|(vector, id)| insert(&mut pages, id, vector, false));
    assert_eq!((check(&pages).free_slots, pages.page_count()), (free - 60, count));
}

/// An edge has seven bits of the generation of its target. If a slot had 128 rows since, a stale
/// edge has the generation of its row again, but the edge code of another row. If this is rare, it
/// is not damage.
#[test]
fn a_check_takes_edges_to_much_used_slots_for_stale() {
    let mut rows = Rows::new(DIM, embeddings(DIM, 600, 4));
    rows.ids = (1..=600).collect();
    let mut pages = built(&rows, Metric::L2);
    let (sound, fresh) = (check(&pages), pages.clone());
    let gone: BTreeSet<u64> = (100..=240).collect();
    remove(&mut pages, &gone);
    vacuum(&mut pages);
    for id in &gone {
        insert(&mut pages, 1000 + id, rows.row(*id as usize), false);
    }
    let churned = check(&pages);
    assert!(churned.stale_edges > 1, "no edge is stale");
    let mut noise = Noise(7);
    let (mut taken, mut refused) = ([0, 0], [0, 0]);
    for _ in 0..600 {
        let (page, at) = (1 + noise.next() as u32 % (fresh.page_count() - 1), noise.next() as usize % 8000);
        for (which, (pages, stale)) in
            [(&fresh, sound.stale_edges), (&pages, churned.stale_edges)].iter().enumerate()
        {
            let mut pages = (*pages).clone();
            pages.body_mut(PageId(page))[at] ^= 4;
            match Index::open(&pages).and_then(|index| index.check(&mut no_progress())) {
                Ok(report) => taken[which] += usize::from(report.stale_edges > *stale),
                Err(_) => refused[which] += 1,
            }
        }
    }
    // An edge with a changed generation counts as stale in both indexes. An edge with a changed
    // code counts as stale only in the index from which rows were deleted. Changes of own codes,
    // headers and anchors are always damage.
    assert!(taken[1] > 4 * taken[0] && refused[0] > refused[1] && refused[1] > 0, "{taken:?} {refused:?}");
}

/// Rows whose lengths vary: short rows are near many others, and these are far from each other.
fn of_many_lengths(count: usize, seed: u64) -> Rows {
    let mut values = embeddings(DIM, count, seed);
    let mut noise = Noise(seed + 1);
    for row in values.chunks_exact_mut(DIM) {
        let length = (1.2 * noise.gauss()).exp();
        row.iter_mut().for_each(|x| *x *= length);
    }
    Rows::new(DIM, values)
}

#[test]
fn a_vacuum_finds_edges_to_dead_rows_from_anywhere() {
    let rows = of_many_lengths(3000, 11);
    let mut pages = support::built(&rows, &support::options(Metric::L2)).unwrap();
    let dead: Vec<u64> = rows.ids.iter().copied().step_by(5).collect();
    support::change(&mut pages, |change| change.delete(&dead).map(drop)).unwrap();
    let known = |pages: &MemPages, bytes| {
        Index::open(pages.clone()).unwrap().in_edges_of_dead(bytes, &mut no_progress()).unwrap()
    };
    let (mut walked, in_edges) = (pages.clone(), known(&pages, 1 << 20));
    assert_eq!(in_edges.nodes(), dead.len() as u64);
    assert_eq!(known(&pages, 10 * 512).nodes(), 10, "more do not fit in the memory");
    let mut stopped = |_| std::ops::ControlFlow::Break(());
    let found = Index::open(pages.clone()).unwrap().in_edges_of_dead(1 << 20, &mut stopped);
    assert!(matches!(found, Err(Error::Interrupted)), "{found:?}");

    support::change(&mut pages, |change| {
        change.use_in_edges(&in_edges);
        change.vacuum(u64::MAX, &mut no_progress()).unwrap()
    });
    assert_eq!(known(&pages, 1 << 20).nodes(), 0, "all have left the graph");
    support::vacuum(&mut pages);
    support::vacuum(&mut walked);
    let [known, walked] = [&pages, &walked].map(check);
    assert_eq!((known.dead_nodes, known.anchored), (0, 2400));
    // A node that is anchored to another parent, and then found dead, has an edge that is newer.
    let stale = [known.stale_edges, walked.stale_edges];
    println!("stale edges with and without a pass over all pages: {stale:?}");
    assert!(stale[0] * 20 < stale[1], "{stale:?}");
}

#[test]
fn few_dead_rows_are_not_worth_a_pass_over_all_pages() {
    let rows = Rows::new(DIM, embeddings(DIM, 2000, 12));
    let mut pages = support::built(&rows, &support::options(Metric::L2)).unwrap();
    for (gone, nodes) in [(0..19, 0), (19..20, 20)] {
        support::change(&mut pages, |change| change.delete(&rows.ids[gone]).map(drop)).unwrap();
        let index = Index::open(pages.clone()).unwrap();
        assert_eq!(index.in_edges_of_dead(1 << 20, &mut no_progress()).unwrap().nodes(), nodes);
    }
}

/// If most nodes are dead, none can leave the graph beside insertions, and the list of dead nodes
/// is not read in vain: a vacuum asks again and again.
#[test]
fn a_vacuum_beside_insertions_reads_no_list_of_mostly_dead_nodes() {
    let mut rows = Rows::new(DIM, embeddings(DIM, 3000, 8));
    rows.ids = (1..=3000).collect();
    let mut pages = built(&rows, Metric::L2);
    let mut looks = |dead: &BTreeSet<u64>, most: u64| {
        remove(&mut pages, dead);
        let known = Index::open(pages.clone()).unwrap();
        let mut writer = pages.writer();
        let mut change = known.change(&mut writer).unwrap();
        let has_most_dead = change.has_most_dead();
        let unlinked = if most > 0 { change.unlink_dead(most, &mut no_progress()).unwrap().unlinked } else { 0 };
        change.finish().unwrap();
        (has_most_dead, unlinked, writer.looks())
    };
    let (has_most_dead, unlinked, _) = looks(&(1..=1000).collect(), 4);
    assert_eq!((has_most_dead, unlinked), (false, 4));
    let (has_most_dead, _, without) = looks(&(1001..=1800).collect(), 0);
    assert!(has_most_dead);
    assert_eq!(looks(&BTreeSet::new(), 4), (true, 0, without));
}
