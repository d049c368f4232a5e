//! The memory of caches for which the user gives no size: a quarter of the memory that this process
//! may still use, for all indexes that it has open together.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use pagehop_engine::PAGE_BYTES;

use crate::options::CACHE_AUTO;

/// Bytes of the budget if the system does not report free memory.
const UNKNOWN_BYTES: u64 = 256 << 20;
/// Smallest budget, in bytes.
const LEAST_BYTES: u64 = 16 << 20;
/// Share of the memory that is free, as 1/n.
const SHARE: u64 = 4;

/// Bytes of files whose caches this process sized by itself.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The bytes of one cache.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) bytes: u64,
    /// Bytes of the file, which reduce the budget of the next index.
    taken: u64,
}

impl Budget {
    /// The budget of an index of `page_count` pages that is opened with `cache_bytes`.
    pub(crate) fn new(cache_bytes: u64, page_count: u32) -> Self {
        if cache_bytes != CACHE_AUTO {
            return Self { bytes: cache_bytes, taken: 0 };
        }
        let all = free_bytes().map_or(UNKNOWN_BYTES, |free| free / SHARE);
        let file = u64::from(page_count) * PAGE_BYTES as u64;
        let others = TAKEN.fetch_add(file, Ordering::Relaxed);
        Self { bytes: left(all, others), taken: file }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

/// Bytes that pages may take of a cache of `cache_bytes` over `page_count` pages: the bytes that
/// the table of pages leaves, and at least half. A table of more than the other half, 4 bytes a
/// page, comes on top as far as it is used: 1 GiB of cache is enough for the table of a terabyte.
pub(crate) fn bytes_for_pages(cache_bytes: u64, page_count: u32) -> u64 {
    let table = u64::from(page_count) * size_of::<u32>() as u64;
    cache_bytes.saturating_sub(table).max(cache_bytes / 2)
}

/// The rest of `all` bytes after the files of other indexes.
fn left(all: u64, others: u64) -> u64 {
    all.saturating_sub(others).max(LEAST_BYTES)
}

/// Whether a file is larger than its cache, and fits into the memory that is free beside the cache.
pub(crate) fn has_room_beside(cache_bytes: u64, file_bytes: u64) -> bool {
    let Some(free) = free_bytes() else { return false };
    let cache = match cache_bytes {
        CACHE_AUTO => left(free / SHARE, TAKEN.load(Ordering::Relaxed)),
        bytes => bytes,
    };
    fits_beside(cache, file_bytes, free)
}

fn fits_beside(cache: u64, file: u64, free: u64) -> bool {
    cache < file && file <= free.saturating_sub(cache)
}

/// Bytes that this process may still use: the free memory of the machine, and the rest of the
/// limits of its control groups.
pub(crate) fn free_bytes() -> Option<u64> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| available(&text));
    let groups = read(Path::new("/proc/self/cgroup")).map_or_else(Vec::new, |text| group_folders(&text));
    let group = |folder: &String| {
        let number = |name: &str| read(&Path::new(folder).join(name))?.trim().parse::<u64>().ok();
        let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
        let stat = read(&Path::new(folder).join("memory.stat")).unwrap_or_default();
        Some(limit.saturating_sub(used_by_group(&stat)))
    };
    groups.iter().filter_map(group).chain(machine).min()
}

/// `MemAvailable` of /proc/meminfo, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// The folders with the limits of control groups, of both versions: the process's own and those
/// above it.
fn group_folders(cgroup: &str) -> Vec<String> {
    let mut folders = Vec::new();
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let root = match controllers {
            "" => "/sys/fs/cgroup",
            _ if controllers.split(',').any(|name| name == "memory") => "/sys/fs/cgroup/memory",
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            folders.push(format!("{root}{path}"));
            let Some(end) = path.rfind('/') else { break };
            path = &path[..end];
        }
    }
    folders
}

/// Memory of a group that the system cannot take back, by its `memory.stat`.
fn used_by_group(stat: &str) -> u64 {
    let value = |name: &str| {
        let words = stat.lines().filter_map(|line| line.split_once(' '));
        words.filter(|word| word.0 == name).find_map(|word| word.1.trim().parse::<u64>().ok())
    };
    value("anon").or_else(|| value("total_rss")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_understood() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert_eq!(group_folders("0::/a/b\n"), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]);
        assert_eq!(group_folders("0::/\n"), ["/sys/fs/cgroup"]);
        let first = "5:cpu:/x\n4:hugetlb,memory:/x\nnonsense\n";
        assert_eq!(group_folders(first), ["/sys/fs/cgroup/memory/x", "/sys/fs/cgroup/memory"]);
        assert_eq!(used_by_group("file 7\nanon 4096\nanon_thp 1\n"), 4096);
        assert_eq!((used_by_group("total_rss 5\n"), used_by_group("")), (5, 0));
    }

    #[test]
    fn a_file_fits_beside_its_cache_or_not() {
        assert!(fits_beside(10, 50, 60));
        assert!(!fits_beside(10, 51, 60));
        assert!(!fits_beside(50, 50, 500), "the cache has room for all of it");
        assert!(!fits_beside(70, 80, 60));
    }

    #[test]
    fn pages_get_half_of_a_cache_whatever_their_table_takes() {
        let cache = 128 << 20;
        assert_eq!(bytes_for_pages(cache, 1 << 20), cache - (4 << 20));
        // 100 million rows of 384 dimensions: the table would take all of the cache.
        assert_eq!(bytes_for_pages(cache, 33_333_334), cache / 2);
        assert_eq!(bytes_for_pages(1 << 30, 1 << 27), 1 << 29, "a terabyte");
        assert_eq!(bytes_for_pages(0, 100), 0);
    }

    #[test]
    fn caches_share_what_there_is() {
        assert_eq!(Budget::new(7, 100).bytes, 7);
        assert_eq!((left(1 << 30, 1 << 20), left(1 << 20, 1 << 30)), ((1 << 30) - (1 << 20), LEAST_BYTES));
        let first = Budget::new(CACHE_AUTO, 100);
        assert!(first.bytes >= LEAST_BYTES && first.taken == 100 * PAGE_BYTES as u64);
        drop(first);
    }
}
