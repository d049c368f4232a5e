//! E4: which rows should share a page? Distinct pages per query under three placements of one
//! graph.
//!
//! `PAGEHOP_DATA=folder cargo bench -p pagehop-engine --features experiments --bench e4_placement`;
//! the answer is `docs/decisions/0004-placement.md`. `PAGEHOP_DEGREE` sets the degree of the graph
//! (24).

#[path = "sets/mod.rs"]
mod sets;

use pagehop_engine::experiment::{Guide, Placement, SharedCodes, Steps, connect, walk};
use sets::{SLACKS, cell};

/// Pages of a run: 128 KiB, what a disk or a read-ahead takes at once.
const RUN_PAGES: u32 = 16;

fn main() {
    let bed = sets::load();
    let degree = std::env::var("PAGEHOP_DEGREE").map_or(24, |n| n.parse().expect("PAGEHOP_DEGREE is a number"));
    let shared = SharedCodes::new(&bed, 256, 1);
    let net = connect(&bed, &shared, &Steps { workers: 2, ..Steps::engine(degree) });
    let per_page = [2, 3, 8];
    let orders = |n: usize| {
        [
            ("built", Placement::built(&net, n)),
            ("leaves", Placement::leaves(&bed, n)),
            ("random", Placement::random(bed.rows(), n)),
        ]
    };
    let mut placements = Vec::new();
    for n in per_page {
        for (name, placement) in orders(n) {
            let runs = placement.runs(RUN_PAGES);
            placements.push((format!("{n} per page, {name}"), placement, runs));
        }
    }
    let all: Vec<&Placement> = placements.iter().flat_map(|(_, pages, runs)| [pages, runs]).collect();
    let points = walk(&bed, &net, &shared, Guide::Shared(&shared, shared.digits()), &SLACKS, &all);
    println!("degree {degree}; distinct pages, and distinct runs of {RUN_PAGES} pages, per query");
    println!("{:<22} {:>9} {:>9} {:>9} {:>9}", "placement", "pages.95", "pages.99", "runs.95", "runs.99");
    let [a, b] = [0.95, 0.99].map(|recall| cell(&points, recall, |point| point.hops));
    println!("{:<22} {a:>9} {b:>9}", "hops");
    for (i, (name, ..)) in placements.iter().enumerate() {
        let [pages, runs] = [2 * i, 2 * i + 1].map(|at| {
            let [a, b] = [0.95, 0.99].map(|recall| cell(&points, recall, |point| point.pages[at]));
            format!("{a:>9} {b:>9}")
        });
        println!("{name:<22} {pages} {runs}");
    }
}
