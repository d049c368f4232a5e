//! Moves between slices and registers: all the pointers of this crate, so that the kernels have none.
//!
//! A whole register comes from an array reference, whose length the compiler knows; part of one from a slice,
//! with zeros in the lanes behind its end.
//!
//! One rule for every kernel: inside a `#[target_feature]` function, no closure goes to the standard library. The
//! closure has its function's features, `map` and `from_fn` have not, so the call is not inlined: edge scoring
//! took 57 ns instead of 34 (`--bench kernels`, 13 words, 3 blocks). Plain functions like [`rows`] are inlined.

pub(crate) mod avx2;
pub(crate) mod avx512;

/// The first `N` rows of `length` in `flat`. Equal lengths in plain sight let the compiler see that no index
/// below `length` needs a check.
#[inline]
pub(crate) fn rows<T, const N: usize>(flat: &[T], length: usize) -> [&[T]; N] {
    std::array::from_fn(|row| &flat[row * length..][..length])
}

/// As [`rows`], but rows behind the last of `flat` repeat it.
#[inline]
pub(crate) fn rows_repeating_last<T, const N: usize>(flat: &[T], length: usize) -> [&[T]; N] {
    let last = flat.len() / length - 1;
    std::array::from_fn(|row| &flat[row.min(last) * length..][..length])
}

/// One, or minus one in the lanes whose number has the bit `stage`.
#[inline]
pub(crate) fn signs<const N: usize>(stage: usize) -> [f32; N] {
    std::array::from_fn(|lane| if lane & stage == 0 { 1.0 } else { -1.0 })
}
