//! E3: how should the graph be built? Processor seconds on one thread, and hops to a recall at
//! equal degree.
//!
//! `PAGEHOP_DATA=folder cargo bench -p pagehop-engine --features experiments --bench e3_build`; the
//! answer is `docs/decisions/0003-build.md`. `PAGEHOP_DEGREE` sets the degree (24); `PAGEHOP_ONLY`
//! names the rows to print, by parts of their names separated by `|`.

#[path = "sets/mod.rs"]
mod sets;

use pagehop_engine::experiment::{Bed, Guide, Net, SharedCodes, Steps, connect, vamana, walk};
use sets::{SLACKS, best, cell, cpu_seconds};

fn main() {
    let bed = sets::load();
    let degree = std::env::var("PAGEHOP_DEGREE").map_or(24, |n| n.parse().expect("PAGEHOP_DEGREE is a number"));
    let shared = SharedCodes::new(&bed, 256, 1);
    let table = Table { bed: &bed, shared: &shared, only: std::env::var("PAGEHOP_ONLY").ok() };
    let engine = Steps::engine(degree);
    println!("degree {degree}; the engine: {engine:?}");
    println!(
        "{:<34} {:>7} {:>8} {:>8} {:>8} {:>8} {:>13} {:>8}",
        "build", "cpu s", "@.95", "@.99", "@.999", "exact.99", "slack .1", "best"
    );
    table.partition("leaves, no refine", &Steps { refines: 0, ..engine });
    table.partition("leaves, 1 refine (the engine)", &engine);
    table.partition("leaves, 2 refines", &Steps { refines: 2, ..engine });
    for fanout in [1, 3, 4] {
        table.partition(&format!("fanout {fanout}"), &Steps { fanout, ..engine });
        table.partition(&format!("fanout {fanout}, no refine"), &Steps { fanout, refines: 0, ..engine });
    }
    let wide = Steps { fanout: 3, refines: 0, leaf_candidates: 48, ..engine };
    table.partition("fanout 3, no refine, 48 candidates", &wide);
    table.partition("fanout 3, build list 24", &Steps { fanout: 3, build_list: 24, ..engine });
    for build_list in [24, 64, 100] {
        table.partition(&format!("build list {build_list}"), &Steps { build_list, ..engine });
    }
    for alpha_sq in [1.0, 1.4, 2.0] {
        table.partition(&format!("alpha_sq {alpha_sq}"), &Steps { alpha_sq, ..engine });
    }
    let alpha_sq = engine.alpha_sq;
    table.row("vamana, list 75, 1 pass", || vamana(&bed, &shared, degree, 75, &[alpha_sq]));
    table.row("vamana, list 75, 2 passes", || vamana(&bed, &shared, degree, 75, &[1.0, alpha_sq]));
    table.row("vamana, 2 passes, alpha_sq 1.44", || vamana(&bed, &shared, degree, 75, &[1.0, 1.44]));
}

struct Table<'a> {
    bed: &'a Bed,
    shared: &'a SharedCodes,
    only: Option<String>,
}

impl Table<'_> {
    fn partition(&self, name: &str, steps: &Steps) {
        self.row(name, || connect(self.bed, self.shared, steps));
    }

    fn row(&self, name: &str, build: impl FnOnce() -> Net) {
        if self.only.as_ref().is_some_and(|only| !only.split('|').any(|part| name.contains(part))) {
            return;
        }
        let before = cpu_seconds();
        let net = build();
        let seconds = cpu_seconds() - before;
        let guide = Guide::Shared(self.shared, self.shared.digits());
        let points = walk(self.bed, &net, self.shared, guide, &SLACKS, &[]);
        let exact = walk(self.bed, &net, self.shared, Guide::Exact, &SLACKS, &[]);
        let [a, b, c] = [0.95, 0.99, 0.999].map(|recall| cell(&points, recall, |point| point.hops));
        let exact = cell(&exact, 0.99, |point| point.hops);
        let fixed = points.iter().find(|point| point.slack == 0.1).expect("the sweep has this slack");
        let fixed = format!("{:.1} {:.4}", fixed.hops, fixed.recall);
        println!("{name:<34} {seconds:>7.1} {a:>8} {b:>8} {c:>8} {exact:>8} {fixed:>13} {:>8.4}", best(&points));
    }
}
