//! Moves data between slices and registers. All raw pointers of this crate are here, except those
//! of `prefetch`, so that the kernels have none.
//!
//! A whole register is loaded from an array reference, whose length the compiler knows. A partial
//! one is loaded from a slice, with zeros in the lanes after its end.
//!
//! One rule for every kernel: inside a `#[target_feature]` function, do not pass a closure to the
//! standard library. The closure has the features of its function, but `map` and `from_fn` do not,
//! so the closure is not inlined: edge scoring took 57 ns instead of 34 ns (`--bench kernels`, 13
//! words, 3 blocks). Plain functions like [`rows_repeating_last`] are inlined.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;

/// The first `N` of the `count` rows of `flat`, each `length` long. If there are fewer than `N`,
/// the last row is repeated. All slices have the length `length`, so the compiler can drop the
/// bounds checks of indices below it.
#[inline]
pub(crate) fn rows_repeating_last<T, const N: usize>(flat: &[T], length: usize, count: usize) -> [&[T]; N] {
    std::array::from_fn(|row| &flat[row.min(count - 1) * length..][..length])
}

/// 1.0 in each lane, or -1.0 if the index of the lane has the bit `stage`.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn signs<const N: usize>(stage: usize) -> [f32; N] {
    std::array::from_fn(|lane| if lane & stage == 0 { 1.0 } else { -1.0 })
}
