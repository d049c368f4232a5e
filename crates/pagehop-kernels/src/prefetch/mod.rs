//! Prefetches bytes that will be read soon.

#[cfg(target_arch = "aarch64")]
mod aarch64;
pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as here;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use portable as here;
#[cfg(target_arch = "x86_64")]
use x86_64 as here;

/// Prefetches every cache line of `values` and returns at once.
///
/// Costs about one instruction per 64 bytes. It never changes an answer. It does nothing on CPUs
/// other than x86-64 and 64-bit ARM.
#[inline]
pub fn prefetch<T>(values: &[T]) {
    here::prefetch_at(values.as_ptr().cast(), size_of_val(values));
}

/// [`prefetch`] of `bytes` bytes from `address`. The memory need not be readable: a prefetch of an
/// invalid address does nothing.
#[inline]
pub fn prefetch_at(address: *const u8, bytes: usize) {
    here::prefetch_at(address, bytes);
}
