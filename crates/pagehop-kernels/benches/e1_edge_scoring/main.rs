//! Experiment E1: in which order should the bits of a node's edge codes lie on its page?
//!
//! Five ways, of four layouts, score the same query against 24 or 32 edges of one node, with AVX-512 and with
//! AVX2. The first is the crate's own `scan_bits`; the others exist only here:
//!
//! - `interleaved`: word by word, eight edges side by side; a lane counts for one edge. 4-bit query.
//! - `turned`: the same layout, transposed in registers and looked up like `fastscan`; only AVX2 needs it.
//! - `popcount`: each edge's code contiguous, counted on four bit planes, then summed across lanes. 4-bit query.
//! - `masked`: each edge's code contiguous, its bits used as a mask over bytes to sum. 8-bit query.
//! - `fastscan`: four bits of every edge side by side, each looked up in a table of 16 sums. 4-bit query.
//!
//! `hot` scores one node again and again. `cold` walks 64 MiB of nodes in random order, twice the last-level
//! cache; a node is 4 KiB, or 8 where its codes need that. `fetched` does so too, and calls `prefetch` on the
//! codes of the next node before it scores one. `log` is what replacing one edge writes as a delta: its
//! changed bytes and 4 bytes for each run of them, runs less than 4 bytes apart being one. Preparing the
//! query is not timed; it happens once per search.

#[cfg(target_arch = "x86_64")]
mod fastscan;
#[cfg(target_arch = "x86_64")]
mod layouts;
#[cfg(target_arch = "x86_64")]
mod masked;
#[cfg(target_arch = "x86_64")]
mod popcount;
#[cfg(target_arch = "x86_64")]
mod query;
#[cfg(target_arch = "x86_64")]
#[path = "../timing/mod.rs"]
mod timing;
#[cfg(target_arch = "x86_64")]
mod turned;

fn main() {
    #[cfg(target_arch = "x86_64")]
    layouts::compare();
    #[cfg(not(target_arch = "x86_64"))]
    println!("this experiment compares instruction sets of x86-64");
}
