//! Asks the memory system for bytes that will be read soon.

pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(not(target_arch = "x86_64"))]
use portable as here;
#[cfg(target_arch = "x86_64")]
use x86_64 as here;

/// Starts fetching every cache line of `values` into the caches and returns at once.
///
/// Costs about one instruction per 64 bytes. A hint without effect on the answer, and no hint at all on CPUs
/// other than x86-64.
#[inline]
pub fn prefetch<T>(values: &[T]) {
    here::prefetch_at(values.as_ptr().cast(), size_of_val(values));
}

/// [`prefetch`] for `bytes` from an address on that need not be readable: nothing is read there.
#[inline]
pub fn prefetch_at(address: *const u8, bytes: usize) {
    here::prefetch_at(address, bytes);
}
