//! E2: which estimate should guide the search? Hops to a recall over one graph, with estimates of
//! different precision.
//!
//! `PAGEHOP_DATA=folder cargo bench -p pagehop-engine --features experiments --bench e2_codes`; the
//! answer is `docs/decisions/0002-edge-codes.md`. `PAGEHOP_DEGREE` sets the degree of the graph
//! (32).

#[path = "sets/mod.rs"]
mod sets;

use pagehop_engine::experiment::{Bed, Guide, Net, NodeCodes, SharedCodes, Steps, connect, walk};
use sets::{SLACKS, best, cell};

fn main() {
    let bed = sets::load();
    let degree = std::env::var("PAGEHOP_DEGREE").map_or(32, |n| n.parse().expect("PAGEHOP_DEGREE is a number"));
    let start = SharedCodes::new(&bed, 256, 1);
    let net = connect(&bed, &start, &Steps { workers: 2, ..Steps::engine(degree) });
    println!(
        "degree {degree}, mean {:.1}; residuals to 256 centroids hold {:.2} of the squared length; engine's query \
         digits {}",
        net.mean_degree(),
        start.residual_share(&bed),
        start.digits()
    );
    let table = Table { bed: &bed, net: &net, start: &start };
    println!("{:<34} {:>8} {:>8} {:>8} {:>10}", "guide", "@.95", "@.99", "@.999", "best");
    table.row("exact", Guide::Exact);
    for centroids in [1, 64, 256] {
        for bits in [1, 2] {
            let codes = SharedCodes::new(&bed, centroids, bits);
            for digits in [1, 2] {
                let name = format!("{centroids} centroids, {bits} bit, {digits} digit");
                table.row(&name, Guide::Shared(&codes, digits));
            }
        }
    }
    let codes = NodeCodes::new(&bed, &net, 1);
    for digits in [1, 2] {
        table.row(&format!("residual to the node, 1 bit, {digits} digit"), Guide::Node(&codes, digits));
    }
}

struct Table<'a> {
    bed: &'a Bed,
    net: &'a Net,
    start: &'a SharedCodes,
}

impl Table<'_> {
    fn row(&self, name: &str, guide: Guide<'_>) {
        let points = walk(self.bed, self.net, self.start, guide, &SLACKS, &[]);
        let [a, b, c] = [0.95, 0.99, 0.999].map(|recall| cell(&points, recall, |point| point.hops));
        println!("{name:<34} {a:>8} {b:>8} {c:>8} {:>10.4}", best(&points));
    }
}
