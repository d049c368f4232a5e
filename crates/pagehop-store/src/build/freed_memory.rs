//! Returns memory that a build has freed to the system before other memory is taken, and counts the
//! memory that stays.
//!
//! An allocator keeps freed memory. glibc returns only the end of a heap: one small block that is
//! still used there keeps all of the memory below, and each thread may have a heap of its own. So
//! it is a matter of chance how much of a build's memory its process still has when the calibration
//! takes memory for a cache.

#![allow(unsafe_code)]

/// Returns memory that is free to the system. Does nothing with other allocators than glibc's.
pub(crate) fn return_to_system() {
    // SAFETY: it takes no pointer, leaves memory in use alone, and locks the heap as `malloc` does.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes of memory of this process that are not files; 0 if the system does not say.
pub(crate) fn held_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(0, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The allocator keeps blocks of this size in the heap, and the last block keeps the heap from
    /// shrinking.
    #[test]
    #[cfg_attr(not(target_env = "gnu"), ignore = "other allocators have no such call")]
    fn freed_memory_returns_although_a_block_at_the_end_is_used() {
        let before = held_bytes();
        let mut blocks: Vec<Vec<u8>> = (0..3000).map(|_| vec![1; 64 << 10]).collect();
        let with = held_bytes();
        assert!(with >= before + (128 << 20), "{before}, then {with} with {} blocks more", blocks.len());
        let last = blocks.pop();
        drop(blocks);
        return_to_system();
        let after = held_bytes();
        assert!(after <= with - (128 << 20), "{with} with the blocks, {after} without");
        drop(last);
    }
}
