//! Nanoseconds per call of every kernel, on every instruction set of this CPU. The inputs are in
//! the first-level cache. Each answer is compared with the portable one before it is timed.
//!
//! `cargo bench -p pagehop-kernels --bench kernels [-- FILTER]` times the kernels whose names
//! contain FILTER.

#[path = "timing/mod.rs"]
mod timing;

use std::hint::black_box;

use pagehop_kernels::{Isa, Kernels, Rounded, pack_i12};
use timing::{Random, measure};

const DIMS: [usize; 4] = [128, 384, 784, 1536];

fn main() {
    // Cargo passes `--bench` before our own arguments.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let bench = Bench { filter };
    println!("{:<40} {:>12} {:>12}", "kernel", "min ns", "median ns");
    for dim in DIMS {
        bench.floats(dim);
        bench.bytes(dim);
        bench.codes(dim);
    }
    for dim in [64, 512, 1024, 4096] {
        bench.hadamard(dim);
    }
    for dim in [128, 784, 1536] {
        bench.planes(dim);
    }
    for (words, blocks) in
        [(2, 4), (6, 4), (12, 4), (13, 3), (15, 3), (24, 4), (13, 6), (6, 3), (12, 3), (6, 6), (13, 1), (13, 2)]
    {
        bench.scan(words, blocks);
    }
    for (rows, dim) in [(100, 100), (200, 784), (400, 784), (200, 1536), (1000, 784)] {
        bench.block(rows, dim);
    }
    bench.page();
}

struct Bench {
    filter: String,
}

impl Bench {
    /// Times `call` on every instruction set, after `same` found its answer equal to the portable
    /// one.
    fn each<T>(&self, name: &str, call: impl Fn(Kernels) -> T, same: impl Fn(&T, &T) -> bool) {
        self.each_rated(name, call, same, |_| String::new());
    }

    /// Like `each`, with one more column: `rate` makes it from the nanoseconds of the fastest
    /// batch.
    fn each_rated<T>(
        &self,
        name: &str,
        call: impl Fn(Kernels) -> T,
        same: impl Fn(&T, &T) -> bool,
        rate: impl Fn(f64) -> String,
    ) {
        let mut portable = None;
        for isa in Isa::available() {
            let label = format!("{name}_{}", isa.name());
            if !label.contains(&self.filter) {
                continue;
            }
            let kernels = Kernels::on(isa).expect("an available instruction set has kernels");
            let answer = call(kernels);
            let want = portable.get_or_insert_with(|| call(Kernels::on(Isa::Portable).expect("always there")));
            assert!(same(want, &answer), "{label} gives another answer");
            let nanos = measure(|| call(kernels));
            println!("{label:<40} {:>12.1} {:>12.1} {}", nanos.min, nanos.median, rate(nanos.min));
        }
    }

    fn floats(&self, dim: usize) {
        let mut random = Random(1);
        let mut floats =
            || -> Vec<f32> { (0..dim).map(|_| (random.next() >> 40) as f32 / (1 << 24) as f32).collect() };
        let (a, b) = (&floats()[..], &floats()[..]);
        self.each(&format!("l2sq_f32_{dim}"), |k| k.l2sq_f32(black_box(a), black_box(b)), near);
        self.each(&format!("dot_f32_{dim}"), |k| k.dot_f32(black_box(a), black_box(b)), near);
        let narrow = |singles: &[f32]| {
            let mut halves = vec![0; dim];
            pagehop_kernels::f32_to_f16(singles, &mut halves);
            halves
        };
        let (c, d) = (&narrow(a)[..], &narrow(b)[..]);
        self.each(&format!("l2sq_f16_{dim}"), |k| k.l2sq_f16(black_box(c), black_box(d)), near);
        self.each(&format!("dot_f16_{dim}"), |k| k.dot_f16(black_box(c), black_box(d)), near);
        let (singles, halves) = (std::cell::RefCell::new(vec![0.0; dim]), std::cell::RefCell::new(vec![0; dim]));
        let first = |k: Kernels| {
            k.f16_to_f32(black_box(c), &mut singles.borrow_mut());
            singles.borrow()[dim - 1]
        };
        self.each(&format!("f16_to_f32_{dim}"), first, |a, b| a == b);
        let first = |k: Kernels| {
            k.f32_to_f16(black_box(a), &mut halves.borrow_mut());
            halves.borrow()[dim - 1]
        };
        self.each(&format!("f32_to_f16_{dim}"), first, |a, b| a == b);
    }

    fn bytes(&self, dim: usize) {
        let mut random = Random(2);
        let (a, b) = (&random.bytes(dim)[..], &random.bytes(dim)[..]);
        self.each(&format!("l2sq_u8_{dim}"), |k| k.l2sq_u8(black_box(a), black_box(b)), |a, b| a == b);
        self.each(&format!("dot_u8_{dim}"), |k| k.dot_u8(black_box(a), black_box(b)), |a, b| a == b);
        let (a, b) = (&signed(a)[..], &signed(b)[..]);
        self.each(&format!("dot_i8_{dim}"), |k| k.dot_i8(black_box(a), black_box(b)), |a, b| a == b);
        self.each(&format!("sum_i8_{dim}"), |k| k.sum_i8(black_box(a)), |a, b| a == b);
    }

    fn codes(&self, dim: usize) {
        let mut random = Random(3);
        let q: &[f32] = &(0..dim).map(|_| (random.next() >> 40) as f32 / (1 << 24) as f32).collect::<Vec<_>>();
        let values: Vec<i16> = (0..dim).map(|_| (random.next() % 4000) as i16 - 1000).collect();
        let (mut hi, mut lo) = (vec![0; dim], vec![0; dim.div_ceil(2)]);
        pack_i12(&values, &mut hi, &mut lo);
        let (hi, lo) = (&hi[..], &lo[..]);
        let rounded = |k: Kernels| {
            let mut rounded = k.rounded();
            rounded.round(q);
            rounded
        };
        let all: Vec<Rounded> =
            Isa::ALL.into_iter().map(|isa| rounded(Kernels::on(isa).unwrap_or(Kernels::active()))).collect();
        let of = |k: Kernels| black_box(&all[k.isa() as usize]);
        self.each(&format!("dot_i8_rounded_{dim}"), |k| of(k).dot_i8(black_box(hi)), |a, b| a == b);
        self.each(
            &format!("dot_i12_rounded_{dim}"),
            |k| of(k).dot_i12(black_box(hi), black_box(lo)),
            |a, b| a == b,
        );
        let all = std::cell::RefCell::new(all);
        let round = |k: Kernels| {
            let rounded = &mut all.borrow_mut()[k.isa() as usize];
            rounded.round(black_box(q));
            rounded.sum_sq()
        };
        self.each(&format!("round_{dim}"), round, |a, b| a == b);
    }

    fn hadamard(&self, dim: usize) {
        // Zeros stay zeros, so thousands of transforms in place do not overflow.
        let x = std::cell::RefCell::new(vec![0.0; dim]);
        let transform = |k: Kernels| {
            k.hadamard(black_box(&mut x.borrow_mut()));
            x.borrow()[dim - 1]
        };
        self.each(&format!("hadamard_{dim}"), transform, |a, b| a == b);
    }

    fn planes(&self, dim: usize) {
        let mut random = Random(9);
        let x: Vec<f32> = (0..dim).map(|_| (random.next() >> 40) as f32 / (1 << 24) as f32 - 0.5).collect();
        let planes = std::cell::RefCell::new(vec![0; 4 * dim.div_ceil(64)]);
        let cut = |k: Kernels| {
            let x = black_box(&x);
            k.level_planes(x, 8.0 / k.max_abs(x), &mut planes.borrow_mut());
            planes.borrow()[0] as u32
        };
        self.each(&format!("max_abs, level_planes_{dim}"), cut, |a, b| a == b);
    }

    fn scan(&self, words: usize, blocks: usize) {
        let mut random = Random(4);
        let planes: Vec<u64> = (0..4 * words).map(|_| random.next()).collect();
        // Nodes in a page are not aligned to cache lines.
        let codes = random.bytes(words * blocks * 64 + 4);
        let codes = &codes[4..];
        let out = std::cell::RefCell::new(vec![0; 8 * blocks]);
        let prepared = |isa| {
            let mut scan = Kernels::on(isa).unwrap_or(Kernels::active()).scan();
            scan.prepare(&planes);
            scan
        };
        let all = std::cell::RefCell::new(Isa::ALL.map(prepared));
        let scan = |k: Kernels| {
            black_box(&all.borrow()[k.isa() as usize]).count(black_box(codes), &mut out.borrow_mut());
            out.borrow()[8 * blocks - 1]
        };
        self.each(&format!("scan_{words}_words_{blocks}_blocks"), scan, |a, b| a == b);
        let prepare = |k: Kernels| all.borrow_mut()[k.isa() as usize].prepare(black_box(&planes));
        self.each(&format!("scan_prepare_{words}_words_{blocks}_blocks"), prepare, |(), ()| true);
    }

    fn block(&self, rows: usize, dim: usize) {
        let mut random = Random(5);
        let a = &signed(&random.bytes(rows * dim))[..];
        let out = std::cell::RefCell::new(vec![0; rows * rows]);
        let all_pairs = |k: Kernels| {
            k.dot_i8_block(black_box(a), black_box(a), dim, &mut out.borrow_mut());
            out.borrow().iter().fold(0i32, |sum, &x| sum.rotate_left(1) ^ x)
        };
        let products = (rows * rows * dim) as f64;
        let name = format!("dot_i8_block_{rows}_rows_{dim}");
        self.each_rated(&name, all_pairs, |a, b| a == b, |nanos| format!("{:.0} G products/s", products / nanos));
    }

    fn page(&self) {
        let page = &Random(6).bytes(8192)[..];
        self.each("crc32c_8192", |k| k.crc32c(black_box(page), 0), |a, b| a == b);
        let node = &page[..4096];
        let prefetch = |_: Kernels| pagehop_kernels::prefetch(black_box(node));
        self.each("prefetch_4096", prefetch, |_, _| true);
        // The cost of a call, with vectors of one dimension. The first line calls the free
        // function, which uses the active instruction set.
        let one: &[f32] = &[1.0];
        self.each("call_of_active", |_| pagehop_kernels::dot_f32(black_box(one), black_box(one)), near);
        self.each("call_of_named", |k| k.dot_f32(black_box(one), black_box(one)), near);
    }
}

/// Whether two sums of positive terms differ only by rounding.
fn near(a: &f32, b: &f32) -> bool {
    (a - b).abs() <= 1e-4 * a.abs()
}

fn signed(bytes: &[u8]) -> Vec<i8> {
    bytes.iter().map(|&byte| byte as i8).collect()
}
