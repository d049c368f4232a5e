//! Experiment E1: the order of the bits of a node's edge codes on its page.
//!
//! Five methods on four layouts score the same query against 24 or 32 edges of one node, with
//! AVX-512 and with AVX2. The first is the crate's own `Scan`; the others exist only here:
//!
//! - `interleaved`: word by word, eight edges side by side; each lane counts for one edge. 4-bit
//!   query.
//! - `turned`: the same layout, transposed in registers and then looked up as in `fastscan`. AVX2
//!   only.
//! - `popcount`: the code of each edge is contiguous. Bits are counted on four bit planes, then
//!   summed across lanes. 4-bit query.
//! - `masked`: the code of each edge is contiguous. Its bits are a mask that selects the query
//!   bytes to sum. 8-bit query.
//! - `fastscan`: four bits of every edge side by side, each looked up in a table of 16 sums. 4-bit
//!   query.
//!
//! `hot` scores the same node repeatedly. `cold` visits 64 MiB of nodes, twice the last-level
//! cache, in random order; a node has 4 KiB, or 8 KiB if its codes need that. `fetched` does the
//! same, and prefetches the codes of the next node before it scores the current one. `log` is the
//! size of the delta record for replacing one edge: the changed bytes, and 4 bytes for each run of
//! them, where runs less than 4 bytes apart are merged. The preparation of the query is not timed,
//! because it happens once per search.

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
