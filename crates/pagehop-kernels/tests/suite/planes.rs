//! Quantization of a vector to levels, and their bit planes.

use pagehop_kernels::LEVEL_BITS_MAX;

use crate::inputs::{OFFSETS, Random, lengths, on_every_isa};
use crate::naive;

const ODD: [f32; 6] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, -0.0];

#[test]
fn planes_equal_the_definition() {
    on_every_isa(|kernels| {
        let mut random = Random::new(11);
        for length in lengths() {
            let mut x = random.floats(length + OFFSETS.end);
            for bits in 1..=LEVEL_BITS_MAX {
                let per_unit = (1 << (bits - 1)) as f32 * 1.1;
                let x = &x[random.next() as usize % OFFSETS.end..][..length];
                let mut got = vec![u64::MAX; bits * length.div_ceil(64)];
                kernels.level_planes(x, per_unit, &mut got);
                assert_eq!(got, naive::level_planes(x, per_unit, bits), "{:?}, {length}, {bits}", kernels.isa());
            }
            x.iter_mut().zip(ODD).for_each(|(x, odd)| *x = odd);
            let x = &x[..length];
            let mut got = vec![0; 4 * length.div_ceil(64)];
            kernels.level_planes(x, 8.0, &mut got);
            assert_eq!(got, naive::level_planes(x, 8.0, 4), "{:?}, {length}, odd numbers", kernels.isa());
        }
    });
}

#[test]
fn the_largest_magnitude_is_found_at_any_position() {
    on_every_isa(|kernels| {
        assert_eq!(kernels.max_abs(&[]), 0.0);
        let mut random = Random::new(12);
        for length in lengths().filter(|length| *length > 0) {
            let x = random.floats(length);
            for at in [0, length / 2, length - 1] {
                let mut x = x.clone();
                x[at] = -2.5;
                assert_eq!(kernels.max_abs(&x), 2.5, "{:?}, {length}, {at}", kernels.isa());
                x[at] = f32::NAN;
                let others = x.iter().filter(|x| !x.is_nan()).fold(0.0f32, |most, x| most.max(x.abs()));
                assert_eq!(kernels.max_abs(&x), others, "{:?}, {length}, a NaN at {at}", kernels.isa());
            }
        }
    });
}
