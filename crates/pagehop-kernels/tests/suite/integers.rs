//! Byte kernels, on single vectors and on blocks: exact up to the documented length.

use crate::inputs::{OFFSETS, Random, lengths, on_every_isa};
use crate::naive;

fn wide<T: Copy + Into<i64>>(values: &[T]) -> impl Iterator<Item = i64> {
    values.iter().map(|&value| value.into())
}

#[test]
fn byte_sums_are_exact() {
    on_every_isa(|kernels| {
        let mut random = Random::new(3);
        for length in lengths() {
            let (a, b) = (random.bytes(length + 8), random.bytes(length + 8));
            let (c, d) = (random.signed_bytes(length + 8), random.signed_bytes(length + 8));
            for offset in OFFSETS {
                let (a, b) = (&a[offset..][..length], &b[7 - offset..][..length]);
                let (c, d) = (&c[offset..][..length], &d[7 - offset..][..length]);
                let what = format!("{:?}, {length} from {offset}", kernels.isa());
                assert_eq!(i64::from(kernels.l2sq_u8(a, b)), naive::l2sq_int(wide(a), wide(b)), "l2sq_u8 {what}");
                assert_eq!(i64::from(kernels.dot_u8(a, b)), naive::dot_int(wide(a), wide(b)), "dot_u8 {what}");
                assert_eq!(i64::from(kernels.dot_i8(c, d)), naive::dot_int(wide(c), wide(d)), "dot_i8 {what}");
                assert_eq!(i64::from(kernels.sum_i8(c)), wide(c).sum::<i64>(), "sum_i8 {what}");
            }
        }
    });
}

#[test]
fn extreme_bytes_do_not_overflow_at_65536_dimensions() {
    const LENGTH: usize = 65_536;
    on_every_isa(|kernels| {
        let (zeros, large) = (vec![0u8; LENGTH], vec![255u8; LENGTH]);
        assert_eq!(u64::from(kernels.l2sq_u8(&zeros, &large)), 65_025 * LENGTH as u64);
        assert_eq!(u64::from(kernels.dot_u8(&large, &large)), 65_025 * LENGTH as u64);
        let (low, high) = (vec![-128i8; LENGTH], vec![127i8; LENGTH]);
        for (a, b) in [(&low, &low), (&low, &high), (&high, &low), (&high, &high)] {
            let want = naive::dot_int(wide(a), wide(b));
            assert_eq!(i64::from(kernels.dot_i8(a, b)), want);
            let mut out = [0];
            kernels.dot_i8_block(a, b, LENGTH, &mut out);
            assert_eq!(i64::from(out[0]), want);
        }
        assert_eq!(kernels.sum_i8(&low), -128 * LENGTH as i32);
    });
}

#[test]
fn blocks_have_every_inner_product_in_its_place() {
    on_every_isa(|kernels| {
        let mut random = Random::new(4);
        for dim in [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 130, 784] {
            for (m, n) in [(0, 3), (3, 0), (1, 1), (2, 17), (7, 16), (8, 48), (9, 49), (17, 33), (13, 97), (300, 5)]
            {
                let (a, b) = (random.signed_bytes(m * dim + 1), random.signed_bytes(n * dim + 1));
                let (a, b) = (&a[1..], &b[1..]);
                let mut out = vec![i32::MIN; m * n];
                kernels.dot_i8_block(a, b, dim, &mut out);
                for (i, a) in a.chunks_exact(dim).enumerate() {
                    for (j, b) in b.chunks_exact(dim).enumerate() {
                        let want = naive::dot_int(wide(a), wide(b));
                        let what = format!("{:?}, row {i} of {m}, {j} of {n}, {dim} dimensions", kernels.isa());
                        assert_eq!(i64::from(out[i * n + j]), want, "{what}");
                    }
                }
            }
        }
    });
}
