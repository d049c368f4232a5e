//! Runs one kernel a number of times, for a program that counts instructions, such as valgrind, or
//! qemu for another CPU: `instructions KERNEL TIMES`. The difference between two runs with other
//! TIMES gives the instructions of a call; `docs/decisions/0020-neon.md` has the commands.
//! `PAGEHOP_ISA` chooses the instruction set.

use std::hint::black_box;

use pagehop_kernels::{EdgeTerms, Kernels, Rounded, pack_i12};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(kernel), Some(times)) = (arguments.first(), arguments.get(1).and_then(|text| text.parse().ok()))
    else {
        eprintln!("instructions KERNEL TIMES");
        std::process::exit(2);
    };
    run(kernel, times);
}

fn run(kernel: &str, times: usize) {
    let k = Kernels::active();
    match kernel {
        "scan-784" => scan(k, 13, 3, times),
        "scan-384" => scan(k, 6, 4, times),
        "dot-i12-384" => own_code(k, 384, times),
        "l2-f32-384" => repeat(times, || k.l2sq_f32(black_box(&[1.5; 384]), black_box(&[0.5; 384]))),
        "crc32c-8192" => repeat(times, || k.crc32c(black_box(&[7; 8192]), 0)),
        "estimate-32" => estimate(k, times),
        "at-most-32" => repeat(times, || k.at_most(black_box(&[1.0; 32]), 2.0, 0.5)),
        "block-64-384" => {
            let (rows, mut out) = (vec![3; 64 * 384], vec![0; 64 * 64]);
            repeat(times, || k.dot_i8_block(black_box(&rows), black_box(&rows), 384, &mut out));
        }
        _ => panic!("no kernel {kernel}"),
    }
}

fn repeat<T>(times: usize, mut call: impl FnMut() -> T) {
    for _ in 0..times {
        black_box(call());
    }
}

fn scan(k: Kernels, words: usize, blocks: usize, times: usize) {
    let mut scan = k.scan();
    scan.prepare(&(0..4 * words as u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect::<Vec<_>>());
    let (codes, mut out) = (vec![0x5A; words * blocks * 64], vec![0; 8 * blocks]);
    repeat(times, || black_box(&scan).count(black_box(&codes), &mut out));
}

fn own_code(k: Kernels, dim: usize, times: usize) {
    let (mut hi, mut lo) = (vec![0; dim], vec![0; dim / 2]);
    pack_i12(&(0..dim as i16).collect::<Vec<_>>(), &mut hi, &mut lo);
    let mut rounded: Rounded = k.rounded();
    rounded.round(&(0..dim).map(|i| i as f32).collect::<Vec<_>>());
    repeat(times, || rounded.dot_i12(black_box(&hi), black_box(&lo)));
}

fn estimate(k: Kernels, times: usize) {
    let mut out = [0.0; 32];
    let terms = EdgeTerms {
        query: [1.0, 2.0],
        counts: &[5; 32],
        centroid_sq: &[1.0; 32],
        heads: &[[0; 12]; 32],
        has_add: true,
    };
    repeat(times, || k.estimate(black_box(terms), black_box(&mut out)));
}
