//! The last steps of edge scoring.

use pagehop_kernels::{AT_MOST_VALUES, EdgeTerms, HEAD_BYTES};

use crate::inputs::{Random, on_every_isa};

#[test]
fn estimates_have_the_same_bits_on_every_isa() {
    on_every_isa(|kernels| {
        let mut random = Random::new(31);
        for edges in 0..=AT_MOST_VALUES {
            let (centroid_sq, add, factor) = (random.floats(edges), random.floats(edges), random.floats(edges));
            let counts: Vec<u32> = random.floats(edges).iter().map(|x| (x.abs() * 10_000.0) as u32).collect();
            let head = |i: usize| {
                let mut head = [0xff; HEAD_BYTES];
                head[4..8].copy_from_slice(&add[i].to_le_bytes());
                head[8..].copy_from_slice(&factor[i].to_le_bytes());
                head
            };
            let heads: Vec<_> = (0..edges).map(head).collect();
            let (query, mut out) = ([3.7, 0.013], vec![f32::NAN; edges]);
            for has_add in [true, false] {
                let (counts, centroid_sq, heads) = (&counts[..], &centroid_sq[..], &heads[..]);
                kernels.estimate(EdgeTerms { query, counts, centroid_sq, heads, has_add }, &mut out);
                for i in 0..edges {
                    let added = centroid_sq[i] + if has_add { add[i] } else { 0.0 };
                    let want = added - factor[i] * (query[0] - query[1] * counts[i] as f32);
                    assert_eq!(out[i].to_bits(), want.to_bits(), "{:?}, {edges}, {i}", kernels.isa());
                }
            }
        }
    });
}

#[test]
fn a_bit_says_whether_a_value_is_small() {
    on_every_isa(|kernels| {
        let mut random = Random::new(32);
        for length in 0..=AT_MOST_VALUES {
            let mut values = random.floats(length);
            for (i, value) in values.iter_mut().enumerate() {
                *value = [*value, 0.5, 0.25, f32::NAN, f32::INFINITY][i % 5];
            }
            for (reach, bound) in
                [(0.5, 0.5), (0.5, f32::INFINITY), (f32::INFINITY, 0.25), (f32::INFINITY, f32::INFINITY)]
            {
                let got = kernels.at_most(&values, reach, bound);
                let want = |x: f32| x <= reach && x < bound;
                let bits = (0..64).map(|i| got >> i & 1 == 1);
                assert!(bits.eq((0..64).map(|i| values.get(i).is_some_and(|x| want(*x)))), "{:?}", kernels.isa());
            }
        }
    });
}
