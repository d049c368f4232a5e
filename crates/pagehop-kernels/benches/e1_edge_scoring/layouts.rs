//! The layouts side by side: the answer each must give, its time, and its log bytes.

use std::hint::black_box;

use crate::query::{Query, Shape};
use crate::timing::{Nanos, Random, measure};
use pagehop_kernels::{Isa, Kernels, prefetch};

const MEMORY_BYTES: usize = 64 << 20;
/// Codes start after a header and the neighbor ids, so they are not aligned to a cache line.
const CODES_START: usize = 36 + 32 * 4;
/// Vector loads of the last code may read bytes after its end.
const SLACK_BYTES: usize = 64;

/// A layout: its scoring function, the naive answer, and where the bytes of an edge lie.
struct Layout {
    name: &'static str,
    score: fn(Kernels, &Query, Shape, &[u8], &mut [u32]),
    naive: fn(&Query, Shape, &[u8], usize) -> u32,
    code_bytes: fn(Shape) -> usize,
    /// The positions of the bytes that replacing this edge may change, from the first code on.
    touched: fn(Shape, usize) -> Vec<usize>,
}

const LAYOUTS: [Layout; 5] = [
    Layout {
        name: "interleaved",
        score: |kernels, query, shape, codes, out| {
            query.scan(kernels).count(&codes[..shape.words * 8 * shape.edges], out);
        },
        naive: |query, shape, codes, edge| query.distance(|dim| interleaved_bit(shape, codes, edge, dim)),
        code_bytes: |shape| shape.words * 8 * shape.edges,
        touched: interleaved_bytes,
    },
    Layout {
        name: "turned",
        score: crate::turned::score,
        naive: |query, shape, codes, edge| query.nibble_sum(|dim| interleaved_bit(shape, codes, edge, dim)),
        code_bytes: |shape| shape.words * 8 * shape.edges,
        touched: interleaved_bytes,
    },
    Layout {
        name: "popcount",
        score: crate::popcount::score,
        naive: |query, shape, codes, edge| query.distance(|dim| contiguous_bit(shape, codes, edge, dim)),
        code_bytes: |shape| shape.words * 8 * shape.edges,
        touched: contiguous_bytes,
    },
    Layout {
        name: "masked",
        score: crate::masked::score,
        naive: |query, shape, codes, edge| query.byte_sum(|dim| contiguous_bit(shape, codes, edge, dim)),
        code_bytes: |shape| shape.words * 8 * shape.edges,
        touched: contiguous_bytes,
    },
    Layout {
        name: "fastscan",
        score: crate::fastscan::score,
        naive: |query, _, codes, edge| {
            query.nibble_sum(|dim| codes[dim / 4 * 16 + edge % 16] >> (edge / 16 * 4 + dim % 4) & 1 == 1)
        },
        code_bytes: |shape| shape.dims / 4 * 16,
        touched: |shape, edge| (0..shape.dims / 4).map(|group| group * 16 + edge % 16).collect(),
    },
];

fn interleaved_start(shape: Shape, edge: usize, word: usize) -> usize {
    ((edge / 8 * shape.words + word) * 8 + edge % 8) * 8
}

fn interleaved_bit(shape: Shape, codes: &[u8], edge: usize, dim: usize) -> bool {
    codes[interleaved_start(shape, edge, dim / 64) + dim % 64 / 8] >> (dim % 8) & 1 == 1
}

fn interleaved_bytes(shape: Shape, edge: usize) -> Vec<usize> {
    (0..shape.dims.div_ceil(8)).map(|byte| interleaved_start(shape, edge, byte / 8) + byte % 8).collect()
}

fn contiguous_bit(shape: Shape, codes: &[u8], edge: usize, dim: usize) -> bool {
    codes[edge * shape.words * 8 + dim / 8] >> (dim % 8) & 1 == 1
}

fn contiguous_bytes(shape: Shape, edge: usize) -> Vec<usize> {
    (0..shape.dims.div_ceil(8)).map(|byte| edge * shape.words * 8 + byte).collect()
}

pub(crate) fn compare() {
    let memory = Random(1).bytes(MEMORY_BYTES);
    println!(
        "{:<6} {:<6} {:<12} {:<8} {:>18} {:>18} {:>18} {:>6}",
        "dims", "edges", "layout", "isa", "hot ns", "cold ns", "fetched ns", "log B"
    );
    for (dims, words) in [(784, 13), (768, 12), (960, 15), (1536, 24)] {
        for edges in [24, 32] {
            let shape = Shape { dims, words, edges };
            let query = Query::new(shape);
            for layout in &LAYOUTS {
                for isa in [Isa::Avx512, Isa::Avx2] {
                    let Some(kernels) = Kernels::on(isa) else { continue };
                    if layout.name == "turned" && isa != Isa::Avx2 {
                        continue;
                    }
                    check(layout, kernels, &query, shape, &memory);
                    let [hot, cold, fetched] = time(layout, kernels, &query, shape, &memory);
                    let log = log_bytes((layout.touched)(shape, 5));
                    let (name, isa) = (layout.name, isa.name());
                    let show = |nanos: Nanos| format!("{:.0} ({:.0})", nanos.min, nanos.median);
                    println!(
                        "{dims:<6} {edges:<6} {name:<12} {isa:<8} {:>18} {:>18} {:>18} {log:>6}",
                        show(hot),
                        show(cold),
                        show(fetched)
                    );
                }
            }
        }
    }
    println!("\nnanoseconds for one node: fastest batch (median batch)");
}

/// The nodes of one layout and shape in memory.
struct Nodes<'a> {
    memory: &'a [u8],
    node_bytes: usize,
    code_bytes: usize,
}

impl<'a> Nodes<'a> {
    fn new(memory: &'a [u8], code_bytes: usize) -> Self {
        let node_bytes = (CODES_START + code_bytes + SLACK_BYTES).next_power_of_two().max(4096);
        Self { memory, node_bytes, code_bytes }
    }

    /// The number of nodes, a power of two.
    fn count(&self) -> usize {
        self.memory.len() / self.node_bytes
    }

    /// The codes of a node and the slack after them.
    fn codes(&self, node: usize) -> &'a [u8] {
        &self.memory[node * self.node_bytes + CODES_START..][..self.code_bytes + SLACK_BYTES]
    }

    /// The node after `node` in an order that visits all of them and that no hardware prefetcher
    /// can predict.
    fn next(&self, node: usize) -> usize {
        (node * 5 + 7919) % self.count()
    }
}

fn check(layout: &Layout, kernels: Kernels, query: &Query, shape: Shape, memory: &[u8]) {
    let nodes = Nodes::new(memory, (layout.code_bytes)(shape));
    for node in [0, 77] {
        let codes = nodes.codes(node);
        let mut out = vec![0; shape.edges];
        (layout.score)(kernels, query, shape, codes, &mut out);
        for (edge, got) in out.iter().enumerate() {
            let want = (layout.naive)(query, shape, codes, edge);
            assert_eq!(*got, want, "{} on {:?}, {shape:?}, edge {edge}", layout.name, kernels.isa());
        }
    }
}

/// Nanoseconds for one node: hot, cold, and cold with prefetch.
fn time(layout: &Layout, kernels: Kernels, query: &Query, shape: Shape, memory: &[u8]) -> [Nanos; 3] {
    let nodes = Nodes::new(memory, (layout.code_bytes)(shape));
    let mut out = vec![0; shape.edges];
    let mut score = |codes: &[u8]| {
        (layout.score)(kernels, query, shape, codes, &mut out);
        out[shape.edges - 1]
    };
    let hot = measure(|| score(black_box(nodes.codes(0))));
    let mut node = 0;
    let cold = measure(|| {
        node = nodes.next(node);
        score(nodes.codes(node))
    });
    let fetched = measure(|| {
        node = nodes.next(node);
        prefetch(&nodes.codes(nodes.next(node))[..nodes.code_bytes]);
        score(nodes.codes(node))
    });
    [hot, cold, fetched]
}

/// The bytes that a delta log writes for changes at these positions, which are in ascending order.
fn log_bytes(touched: Vec<usize>) -> usize {
    const RUN_BYTES: usize = 4;
    let mut bytes = RUN_BYTES + 1;
    for pair in touched.windows(2) {
        let gap = pair[1] - pair[0] - 1;
        bytes += 1 + if gap < RUN_BYTES { gap } else { RUN_BYTES };
    }
    bytes
}
