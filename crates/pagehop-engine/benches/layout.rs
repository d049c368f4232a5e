//! How to spend a page: degree against bits against nodes per page, and how precise an own code
//! must be.
//!
//! `PAGEHOP_DATA=folder cargo bench -p pagehop-engine --features experiments --bench layout`; the
//! answer is `docs/decisions/0005-layout.md`.

#[path = "sets/mod.rs"]
mod sets;

use pagehop_engine::experiment::{
    Bed, Guide, Placement, SharedCodes, Steps, connect, default_layout, nodes_per_page, walk,
};
use sets::{SLACKS, cell};

fn main() {
    let bed = sets::load();
    println!("recall of ranking all rows by own codes:");
    for bits in [4, 6, 8, 10, 12] {
        println!("  {bits:>2} bits {:.4}", bed.own_code_recall(bits));
    }
    let digits = SharedCodes::new(&bed, 256, default_layout(bed.dim()).1).digits();
    println!(
        "the engine's choice (degree, bits, nodes per page): {:?}, query digits {digits}",
        default_layout(bed.dim())
    );
    println!("distinct pages per query; the query in one digit, then in two");
    println!(
        "{:<7} {:>8} {:>9} | {:>7} {:>8} {:>8} {:>9} | {:>8} {:>8} {:>9}",
        "layout",
        "per page",
        "bytes/row",
        "hops.99",
        "pages.95",
        "pages.99",
        "pages.999",
        "pages.95",
        "pages.99",
        "pages.999"
    );
    for degree in [16, 24, 32, 48] {
        for bits in [1, 2, 4] {
            let per_page = nodes_per_page(bed.dim(), degree, bits);
            if per_page > 0 {
                row(&bed, degree, bits, per_page);
            }
        }
    }
}

fn row(bed: &Bed, degree: usize, bits: usize, per_page: usize) {
    let shared = SharedCodes::new(bed, 256, bits);
    let net = connect(bed, &shared, &Steps { workers: 2, ..Steps::engine(degree) });
    let placement = Placement::built(&net, per_page);
    let name = format!("{degree}x{bits}");
    print!("{name:<7} {per_page:>8} {:>9} |", 8192 / per_page);
    for digits in [1, 2] {
        let points = walk(bed, &net, &shared, Guide::Shared(&shared, digits), &SLACKS, &[&placement]);
        if digits == 1 {
            print!(" {:>7}", cell(&points, 0.99, |point| point.hops));
        }
        let [a, b, c] = [0.95, 0.99, 0.999].map(|recall| cell(&points, recall, |point| point.pages[0]));
        print!(" {a:>8} {b:>8} {c:>9} {}", if digits == 1 { "|" } else { "" });
    }
    println!();
}
