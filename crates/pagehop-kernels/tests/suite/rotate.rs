//! The steps of a rotation.

use pagehop_kernels::{HADAMARD_MAX, Isa, Kernels};

use crate::inputs::{OFFSETS, Random, lengths, on_every_isa};
use crate::naive;

fn sizes() -> impl Iterator<Item = usize> {
    (0..).map(|log| 1 << log).take_while(|&size| size <= HADAMARD_MAX)
}

#[test]
fn the_transform_is_near_its_definition_and_the_same_on_every_isa() {
    let portable = Kernels::on(Isa::Portable).expect("portable is always there");
    on_every_isa(|kernels| {
        let mut random = Random::new(8);
        for size in sizes() {
            let x = random.floats(size);
            let mut want = x.clone();
            portable.hadamard(&mut want);
            for offset in OFFSETS {
                let mut room = vec![7.0; size + 8];
                let got = &mut room[offset..][..size];
                got.copy_from_slice(&x);
                kernels.hadamard(got);
                assert_eq!(got, want, "{:?}, {size}", kernels.isa());
                assert!(room[..offset].iter().chain(&room[offset + size..]).all(|&x| x == 7.0));
            }
            // The naive transform takes quadratic time.
            if size <= 1024 {
                for (got, want) in want.iter().zip(naive::hadamard(&x)) {
                    want.assert_near(*got, &format!("{size}"));
                }
            }
        }
    });
}

#[test]
fn the_transform_applied_twice_multiplies_by_the_length() {
    on_every_isa(|kernels| {
        for size in sizes() {
            // Small integers, so that every sum is exact.
            let x: Vec<f32> = (0..size).map(|i| (i % 17) as f32 - 8.0).collect();
            let mut twice = x.clone();
            kernels.hadamard(&mut twice);
            kernels.hadamard(&mut twice);
            assert!(twice.iter().zip(&x).all(|(twice, x)| *twice == *x * size as f32), "{:?}", kernels.isa());
        }
    });
}

#[test]
fn the_simple_steps_have_the_same_bits_on_every_isa() {
    on_every_isa(|kernels| {
        let mut random = Random::new(21);
        for length in lengths() {
            let (x, by) = (random.floats(length), random.floats(length));
            let (mut multiplied, mut scaled, mut mixed) = (x.clone(), x.clone(), x.clone());
            kernels.multiply(&mut multiplied, &by);
            kernels.scale(&mut scaled, 0.3);
            kernels.mix_halves(&mut mixed);
            let (half, root) = (length.div_ceil(2), std::f32::consts::FRAC_1_SQRT_2);
            for i in 0..length {
                assert_eq!(multiplied[i], x[i] * by[i], "{:?}, {length}", kernels.isa());
                assert_eq!(scaled[i], x[i] * 0.3, "{:?}, {length}", kernels.isa());
                let want = match (i.checked_sub(half), x.get(i + half)) {
                    (Some(front), _) => (x[front] - x[i]) * root,
                    (None, Some(back)) => (x[i] + back) * root,
                    // The middle component of an odd length is in no pair.
                    (None, None) => x[i],
                };
                assert_eq!(mixed[i], want, "{:?}, {length}, {i}", kernels.isa());
            }
        }
    });
}
