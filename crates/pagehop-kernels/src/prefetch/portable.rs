//! Does nothing: for CPUs that have no stable prefetch intrinsic in Rust.

#[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), expect(dead_code, reason = "both have their own"))]
#[inline]
pub(crate) fn prefetch_at(_address: *const u8, _bytes: usize) {}
