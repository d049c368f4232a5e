//! Does nothing, on CPUs for which Rust has no stable way to prefetch.

#[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), expect(dead_code, reason = "both have their own"))]
#[inline]
pub(crate) fn prefetch_at(_address: *const u8, _bytes: usize) {}
