//! What searches with calibrated settings cost, compared with other settings that find as much.

use crate::support;
use crate::support::{Rows, calibrated, index, no_progress};
use pagehop_engine::{Metric, RecallReport, SearchOptions};

const DIM: usize = 48;

/// A search that expands its whole list.
pub fn fixed(list: usize) -> SearchOptions {
    SearchOptions { search_list: list, slack: f32::INFINITY, ..SearchOptions::default() }
}

/// Hops with the shortest fixed list that finds `wanted`.
pub fn hops_of_list(wanted: f32, audit: impl Fn(usize) -> RecallReport) -> f32 {
    let (mut short, mut long) = (9, 512);
    while long - short > 1 {
        let middle = (short + long) / 2;
        if audit(middle).recall < wanted { short = middle } else { long = middle }
    }
    audit(long).hops
}

/// The slack is a share of the distance to the k-th row. In a narrow cluster that is short, and any
/// finite slack that is enough there is far too much in a wide one.
#[test]
fn clusters_of_different_widths_are_searched_at_a_fair_price() {
    let mut noise = support::Noise(3);
    let mut gauss = |count: usize| (0..count).map(|_| noise.gauss()).collect::<Vec<f32>>();
    let (centers, widths) = (gauss(300 * DIM), gauss(300));
    let mut vectors = |count: usize| -> Vec<f32> {
        let row = |at: usize| {
            let cluster = at * 7 % 300;
            let (center, width) = (&centers[cluster * DIM..][..DIM], 0.3 * widths[cluster].exp());
            center.iter().zip(gauss(DIM)).map(|(x, noise)| x + width * noise).collect::<Vec<f32>>()
        };
        (0..count).flat_map(row).collect()
    };
    let (rows, queries) = (Rows::new(DIM, vectors(8000)), vectors(600));
    let index = index(&rows, Metric::L2);
    let calibration = calibrated(&index);
    let measure =
        |options: &SearchOptions| index.recall(10, 0, Some(&queries), options, 2, &mut no_progress()).unwrap();
    for wanted in [0.95, 0.98, 0.99] {
        let own = measure(&calibration.plan(10, wanted).options.unwrap());
        let plain = hops_of_list(own.recall, |list| measure(&fixed(list)));
        println!("{wanted}: {own:?}, {plain} hops with a list");
        assert!(own.hops < 1.15 * plain, "{wanted}: {own:?}, {plain} hops with a list");
    }
}

#[test]
fn settings_for_recalls_that_short_lists_do_not_reach_are_cheap_too() {
    // Noise without clusters: with a list of 400 and any slack, recall stays below 0.98.
    let mut noise = support::Noise(5);
    let dim = 64;
    let mut vectors = |count| (0..count * dim).map(|_| noise.gauss()).collect::<Vec<f32>>();
    let (rows, queries) = (Rows::new(dim, vectors(12_000)), vectors(200));
    let index = index(&rows, Metric::L2);
    let calibration = calibrated(&index);
    let measure =
        |options: &SearchOptions| index.recall(10, 0, Some(&queries), options, 2, &mut no_progress()).unwrap();
    let of = |search_list, slack| SearchOptions { search_list, slack, ..SearchOptions::default() };
    assert!(measure(&of(400, f32::INFINITY)).recall < 0.98);
    for wanted in [0.98, 0.99] {
        let options = calibration.plan(10, wanted).options.unwrap();
        let own = measure(&options);
        println!("{wanted}: {options:?}, {own:?}");
        assert!((own.recall - wanted).abs() < 0.01, "{wanted}: {own:?}");
        // A long list is not expanded to its end: its slack is one that short lists have too.
        assert!(options.search_list > 400 && options.slack < 0.56, "{wanted}: {options:?}");
        let pairs =
            [500, 700, 1000, 1400].into_iter().flat_map(|list| [0.3, 0.4, 0.5].map(|slack| of(list, slack)));
        let others: Vec<_> =
            pairs.map(|options| measure(&options)).filter(|one| one.recall >= own.recall).collect();
        let fewest = others.iter().map(|one| one.hops).fold(f32::INFINITY, f32::min);
        assert!(own.hops < 1.1 * fewest, "{wanted}: {own:?}, another setting takes {fewest} hops");
    }
}
