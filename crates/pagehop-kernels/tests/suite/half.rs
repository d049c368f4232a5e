//! Half-precision conversion: every instruction set gives the bits that follow from the definition.

use crate::inputs::{OFFSETS, Random, lengths, on_every_isa};
use crate::naive;

#[test]
fn every_half_widens_exactly() {
    let halves: Vec<u16> = (0..=u16::MAX).collect();
    on_every_isa(|kernels| {
        let mut got = vec![0.0; halves.len()];
        kernels.f16_to_f32(&halves, &mut got);
        for (&half, got) in halves.iter().zip(&got) {
            let want = naive::widen(half);
            if want.is_nan() {
                // A quiet NaN with the same sign and payload.
                let bits = u32::from(half & 0x8000) << 16 | 0x7fc0_0000 | u32::from(half & 1023) << 13;
                assert_eq!(got.to_bits(), bits, "{:?}: {half:#x}", kernels.isa());
            } else {
                assert_eq!(got.to_bits(), (want as f32).to_bits(), "{:?}: {half:#x}", kernels.isa());
            }
        }
    });
}

/// The hard cases of rounding: every half-precision number, every midpoint between two of them, the
/// `f32` numbers below and above each of these, and random bits.
fn difficult_singles() -> Vec<f32> {
    let mut random = Random::new(6);
    let mut singles: Vec<f32> = (0..20_000).map(|_| f32::from_bits(random.next() as u32)).collect();
    for half in 0..0x7c00 {
        let (here, next) = (naive::widen(half) as f32, naive::widen(half + 1).min(65_536.0) as f32);
        for single in [here, (here + next) / 2.0] {
            let bits = single.to_bits();
            singles.extend([bits.saturating_sub(1), bits, bits + 1].map(f32::from_bits));
        }
    }
    let special =
        [f32::NAN, f32::INFINITY, f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), f32::from_bits(0x7f80_0001)];
    singles.extend(special);
    let negated: Vec<f32> = singles.iter().map(|single| -single).collect();
    singles.extend(negated);
    singles
}

#[test]
fn singles_round_to_the_nearest_half() {
    let singles = difficult_singles();
    on_every_isa(|kernels| {
        let mut got = vec![0; singles.len()];
        kernels.f32_to_f16(&singles, &mut got);
        for (&single, &got) in singles.iter().zip(&got) {
            let want = naive::narrow(single);
            assert_eq!(got, want, "{:?}: {single:e} is {:#x}", kernels.isa(), single.to_bits());
        }
    });
}

#[test]
fn conversions_write_only_inside_their_slice() {
    on_every_isa(|kernels| {
        let mut random = Random::new(7);
        for length in lengths() {
            let halves = random.halves(length + 8);
            for offset in OFFSETS {
                let halves = &halves[offset..][..length];
                let mut singles = vec![7.0; length + 8];
                kernels.f16_to_f32(halves, &mut singles[offset..][..length]);
                let mut back = vec![7; length + 8];
                kernels.f32_to_f16(&singles[offset..][..length], &mut back[7 - offset..][..length]);
                assert_eq!(&back[7 - offset..][..length], halves, "{:?}", kernels.isa());
                assert!(singles[..offset].iter().chain(&singles[offset + length..]).all(|&x| x == 7.0));
                assert!(back[..7 - offset].iter().chain(&back[7 - offset + length..]).all(|&x| x == 7));
            }
        }
    });
}
