//! `l2sq` and `dot` of `f32` and half precision: accuracy, and the effect of NaN, infinity and
//! denormals.

use pagehop_kernels::Kernels;

use crate::inputs::{OFFSETS, Random, lengths, on_every_isa};
use crate::naive;

fn widen_all(halves: &[u16]) -> impl Iterator<Item = f64> {
    halves.iter().map(|&half| naive::widen(half))
}

fn f64s(singles: &[f32]) -> impl Iterator<Item = f64> {
    singles.iter().map(|&single| f64::from(single))
}

#[test]
fn f32_sums_are_near_the_exact_sum() {
    on_every_isa(|kernels| {
        let mut random = Random::new(1);
        for length in lengths() {
            let (a, b) = (random.floats(length + 8), random.floats(length + 8));
            for offset in OFFSETS {
                let (a, b) = (&a[offset..][..length], &b[7 - offset..][..length]);
                let what = format!("{:?}, {length} from {offset}", kernels.isa());
                naive::l2sq(f64s(a), f64s(b)).assert_near(kernels.l2sq_f32(a, b), &what);
                naive::dot(f64s(a), f64s(b)).assert_near(kernels.dot_f32(a, b), &what);
            }
        }
    });
}

#[test]
fn f16_sums_are_near_the_exact_sum() {
    on_every_isa(|kernels| {
        let mut random = Random::new(2);
        for length in lengths() {
            let (a, b) = (random.halves(length + 8), random.halves(length + 8));
            for offset in OFFSETS {
                let (a, b) = (&a[offset..][..length], &b[7 - offset..][..length]);
                let what = format!("{:?}, {length} from {offset}", kernels.isa());
                naive::l2sq(widen_all(a), widen_all(b)).assert_near(kernels.l2sq_f16(a, b), &what);
                naive::dot(widen_all(a), widen_all(b)).assert_near(kernels.dot_f16(a, b), &what);
            }
        }
    });
}

const HALF_ONE: u16 = 0x3c00;
const HALF_INFINITY: u16 = 0x7c00;
const HALF_NAN: u16 = 0x7e01;

/// The answers of the four float kernels for vectors of ones, with another pair at position `at`.
fn with_one_odd_pair(kernels: Kernels, length: usize, at: usize, odd: (f32, f32), halves: (u16, u16)) -> [f32; 4] {
    let (mut a, mut b) = (vec![1.0; length], vec![1.0; length]);
    (a[at], b[at]) = odd;
    let (mut a_half, mut b_half) = (vec![HALF_ONE; length], vec![HALF_ONE; length]);
    (a_half[at], b_half[at]) = halves;
    [
        kernels.l2sq_f32(&a, &b),
        kernels.dot_f32(&a, &b),
        kernels.l2sq_f16(&a_half, &b_half),
        kernels.dot_f16(&a_half, &b_half),
    ]
}

#[test]
fn nan_and_infinity_anywhere_reach_the_answer() {
    on_every_isa(|kernels| {
        for length in [1, 7, 16, 31, 70, 131] {
            for at in 0..length {
                let nan = with_one_odd_pair(kernels, length, at, (f32::NAN, 1.0), (HALF_NAN, HALF_ONE));
                assert!(nan.iter().all(|x| x.is_nan()), "{:?}: {nan:?}", kernels.isa());
                let infinity =
                    with_one_odd_pair(kernels, length, at, (1.0, f32::INFINITY), (HALF_ONE, HALF_INFINITY));
                assert_eq!(infinity, [f32::INFINITY; 4], "{:?}", kernels.isa());
                // Infinity minus infinity is NaN; infinity times infinity is infinity.
                let both = (f32::INFINITY, f32::INFINITY);
                let [l2, dot, l2_half, dot_half] =
                    with_one_odd_pair(kernels, length, at, both, (HALF_INFINITY, HALF_INFINITY));
                assert!(l2.is_nan() && l2_half.is_nan(), "{:?}", kernels.isa());
                assert_eq!([dot, dot_half], [f32::INFINITY; 2], "{:?}", kernels.isa());
            }
        }
    });
}

#[test]
fn overflow_gives_infinity_and_denormals_are_not_flushed() {
    on_every_isa(|kernels| {
        for length in [1, 20, 70] {
            let large = vec![f32::MAX; length];
            assert_eq!(kernels.dot_f32(&large, &large), f32::INFINITY);
            assert_eq!(kernels.l2sq_f32(&large, &vec![-f32::MAX; length]), f32::INFINITY);
            // Sums of the smallest denormal are exact, because all denormals have the same spacing.
            let least = vec![f32::from_bits(1); length];
            let ones = vec![1.0; length];
            assert_eq!(kernels.dot_f32(&least, &ones).to_bits(), length as u32, "{:?}", kernels.isa());
            let got = kernels.dot_f16(&vec![1; length], &vec![HALF_ONE; length]);
            assert_eq!(got, length as f32 * 2f32.powi(-24), "{:?}", kernels.isa());
        }
    });
}
