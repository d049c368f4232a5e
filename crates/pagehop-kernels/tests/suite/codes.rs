//! Inner products of a rounded vector with 8- and 12-bit codes, and the packing of 12-bit values.

use pagehop_kernels::{
    I12_MAX, I12_MIN, Isa, Kernels, ROUNDED_DIM_MAX, ROUNDED_MAX, Rounded, pack_i12, unpack_i12,
};

use crate::inputs::{OFFSETS, Random, lengths, on_every_isa};

/// Compares the inner products of a rounded vector with those that follow from the definition of
/// the layouts.
fn check(kernels: Kernels, rounded: &Rounded, hi: &[i8], lo: &[u8], what: &str) {
    let dot = |code: &dyn Fn(usize) -> i64| -> i64 {
        rounded.values().iter().enumerate().map(|(i, q)| i64::from(*q) * code(i)).sum()
    };
    let high = |i: usize| i64::from(hi[i]);
    let both = |i: usize| 16 * high(i) + i64::from(lo[i / 2] >> (4 * (i % 2)) & 15) - 8;
    assert_eq!(rounded.dot_i8(hi), dot(&high), "dot_i8, {:?}, {what}", kernels.isa());
    assert_eq!(rounded.dot_i12(hi, lo), dot(&both), "dot_i12, {:?}, {what}", kernels.isa());
    let sum_sq: i64 = rounded.values().iter().map(|q| i64::from(*q) * i64::from(*q)).sum();
    assert_eq!(rounded.sum_sq(), sum_sq, "sum_sq, {:?}, {what}", kernels.isa());
}

#[test]
fn products_with_codes_are_exact_for_every_length() {
    on_every_isa(|kernels| {
        let mut random = Random::new(5);
        let mut rounded = kernels.rounded();
        for length in lengths().chain([385, 4097, ROUNDED_DIM_MAX]) {
            let q = random.floats(length + 8);
            // Any bytes: also values that packing does not make, as a damaged page may have.
            let (hi, lo) = (random.signed_bytes(length + 8), random.bytes(length.div_ceil(2) + 8));
            for offset in OFFSETS {
                rounded.round(&q[offset..][..length]);
                let (hi, lo) = (&hi[7 - offset..][..length], &lo[offset..][..length.div_ceil(2)]);
                check(kernels, &rounded, hi, lo, &format!("{length} from {offset}"));
            }
        }
    });
}

#[test]
fn extreme_products_do_not_overflow() {
    on_every_isa(|kernels| {
        for length in [ROUNDED_DIM_MAX - 1, ROUNDED_DIM_MAX] {
            for (q, hi, lo) in [(1.0, -128, 0), (-1.0, -128, 0), (1.0, 127, 255), (-1.0, 127, 255)] {
                let mut rounded = kernels.rounded();
                rounded.round(&vec![q; length]);
                check(kernels, &rounded, &vec![hi; length], &vec![lo; length.div_ceil(2)], "extreme");
            }
        }
    });
}

#[test]
fn a_vector_is_rounded_alike_on_every_isa() {
    on_every_isa(|kernels| {
        let mut portable = Kernels::on(Isa::Portable).expect("portable is always there").rounded();
        let mut random = Random::new(6);
        let mut rounded = kernels.rounded();
        for length in lengths() {
            for scale in [1.0, 1e-30, 1e-37, 1e-45, 1e30, 0.0] {
                let mut x = random.floats(length);
                x.iter_mut().for_each(|x| *x *= scale);
                // Halves of steps, which are ties: the largest magnitude is 32,512 steps.
                if length > 2 && scale == 1.0 {
                    (x[0], x[1], x[2]) = (2.0, 2.0 / 65_024.0, -6.0 / 65_024.0);
                }
                rounded.round(&x);
                portable.round(&x);
                let what = format!("{:?}, {length}, {scale}", kernels.isa());
                assert_eq!(rounded.values(), portable.values(), "{what}");
                assert_eq!(rounded.step().to_bits(), portable.step().to_bits(), "{what}");
                for (x, value) in x.iter().zip(rounded.values()) {
                    let off = (f64::from(*x) - f64::from(rounded.step()) * f64::from(*value)).abs();
                    let zero = rounded.step() == 0.0 && off < 1e-34;
                    assert!(off <= 0.51 * f64::from(rounded.step()) || zero, "{what}: {x} became {value}");
                }
            }
        }
    });
}

#[test]
fn a_decoded_own_code_is_rounded_without_an_error() {
    on_every_isa(|kernels| {
        let values: Vec<i16> = (-2032..=2032).collect();
        for step in [1.0, 0.3, 7e-5, 1e20] {
            let x: Vec<f32> = values.iter().map(|value| step * f32::from(*value)).collect();
            let mut rounded = kernels.rounded();
            rounded.round(&x);
            assert!(rounded.values().iter().zip(&values).all(|(got, value)| *got == 16 * value), "{step}");
        }
    });
}

#[test]
fn numbers_that_are_not_finite_are_rounded_to_some_number() {
    on_every_isa(|kernels| {
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for length in [1, 7, 70] {
                let mut x = vec![1.0; length];
                x[length / 2] = odd;
                let mut rounded = kernels.rounded();
                rounded.round(&x);
                assert!(rounded.values().iter().all(|value| value.abs() <= ROUNDED_MAX), "{odd}");
                rounded.dot_i12(&vec![-128; length], &vec![255; length.div_ceil(2)]);
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
