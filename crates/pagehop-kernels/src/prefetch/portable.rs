//! Does nothing: for CPUs that have no stable prefetch intrinsic in Rust.

#[cfg_attr(target_arch = "x86_64", expect(dead_code, reason = "x86-64 has its own"))]
#[inline]
pub(crate) fn prefetch_at(_address: *const u8, _bytes: usize) {}
