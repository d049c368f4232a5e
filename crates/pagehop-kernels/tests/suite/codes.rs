//! Inner products of a float query with 8- and 12-bit codes, and the 12-bit packing.

use pagehop_kernels::{I12_MAX, I12_MIN, pack_i12, unpack_i12};

use crate::inputs::{OFFSETS, Random, lengths, on_every_isa};
use crate::naive;

fn f64s<T: Copy + Into<f64>>(values: &[T]) -> impl Iterator<Item = f64> {
    values.iter().map(|&value| value.into())
}

#[test]
fn products_with_codes_are_near_the_exact_sum() {
    on_every_isa(|kernels| {
        let mut random = Random::new(5);
        let range = i64::from(I12_MAX) - i64::from(I12_MIN) + 1;
        for length in lengths() {
            let values: Vec<i16> =
                (0..length).map(|_| ((random.next() >> 1) as i64 % range) as i16 + I12_MIN).collect();
            let q = random.floats(length + 8);
            let (mut hi, mut lo) = (vec![0; length + 8], vec![0; length.div_ceil(2) + 8]);
            for offset in OFFSETS {
                let q = &q[offset..][..length];
                let (hi, lo) = (&mut hi[7 - offset..][..length], &mut lo[offset..][..length.div_ceil(2)]);
                pack_i12(&values, hi, lo);
                let what = format!("{:?}, {length} from {offset}", kernels.isa());
                naive::dot(f64s(q), f64s(hi)).assert_near(kernels.dot_f32_i8(q, hi), &what);
                naive::dot(f64s(q), f64s(&values)).assert_near(kernels.dot_f32_i12(q, hi, lo), &what);
            }
        }
    });
}

#[test]
fn nan_and_infinity_in_the_query_reach_the_answer() {
    on_every_isa(|kernels| {
        for length in [1, 7, 15, 70, 131] {
            let values = vec![100; length];
            let (mut hi, mut lo) = (vec![0; length], vec![0; length.div_ceil(2)]);
            pack_i12(&values, &mut hi, &mut lo);
            for at in 0..length {
                let mut q = vec![1.0; length];
                q[at] = f32::NAN;
                assert!(kernels.dot_f32_i8(&q, &hi).is_nan() && kernels.dot_f32_i12(&q, &hi, &lo).is_nan());
                q[at] = f32::NEG_INFINITY;
                assert_eq!(kernels.dot_f32_i8(&q, &hi), f32::NEG_INFINITY);
                assert_eq!(kernels.dot_f32_i12(&q, &hi, &lo), f32::NEG_INFINITY);
            }
        }
    });
}

#[test]
fn every_12_bit_value_survives_packing_with_the_nearest_high_byte() {
    let values: Vec<i16> = (I12_MIN..=I12_MAX).collect();
    for values in [&values[..], &values[1..]] {
        let (mut hi, mut lo) = (vec![0; values.len()], vec![0xff; values.len().div_ceil(2)]);
        pack_i12(values, &mut hi, &mut lo);
        let mut out = vec![0; values.len()];
        unpack_i12(&hi, &lo, &mut out);
        assert_eq!(out, values);
        for (i, (&value, &hi)) in values.iter().zip(&hi).enumerate() {
            assert!((value - 16 * i16::from(hi)).abs() <= 8 && hi >= -127, "{value} has high byte {hi}");
            let nibble = lo[i / 2] >> (4 * (i % 2)) & 15;
            assert_eq!(16 * i16::from(hi) + i16::from(nibble) - 8, value, "the documented layout");
        }
        assert!(values.len().is_multiple_of(2) || lo.last().is_some_and(|last| last >> 4 == 0));
    }
}

#[test]
fn packing_clamps_values_out_of_range() {
    let (mut hi, mut lo, mut out) = ([0; 4], [0; 2], [0; 4]);
    pack_i12(&[i16::MIN, I12_MIN - 1, I12_MAX + 1, i16::MAX], &mut hi, &mut lo);
    unpack_i12(&hi, &lo, &mut out);
    assert_eq!(out, [I12_MIN, I12_MIN, I12_MAX, I12_MAX]);
}
