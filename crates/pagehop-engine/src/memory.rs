//! Memory for what grows with a search. It is asked for before it is used: if the system refuses
//! it, the search fails. Where Rust's own growth fails, the process ends, and a database server
//! ends all its sessions with it.

use std::collections::{BinaryHeap, HashSet};
use std::hash::{BuildHasher, Hash};

use crate::Error;

/// A collection that grows with a search.
pub(crate) trait MakeRoom {
    /// Makes room for `more` elements, if there is none. Several times in a row, it costs as much
    /// as if the collection grew by itself.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system does not give it.
    fn make_room(&mut self, more: usize) -> Result<(), Error>;
}

impl<T> MakeRoom for Vec<T> {
    #[inline]
    fn make_room(&mut self, more: usize) -> Result<(), Error> {
        self.try_reserve(more).map_err(|_| refused(self.len(), more, size_of::<T>()))
    }
}

impl<T> MakeRoom for BinaryHeap<T> {
    #[inline]
    fn make_room(&mut self, more: usize) -> Result<(), Error> {
        self.try_reserve(more).map_err(|_| refused(self.len(), more, size_of::<T>()))
    }
}

impl<T: Eq + Hash, S: BuildHasher> MakeRoom for HashSet<T, S> {
    #[inline]
    fn make_room(&mut self, more: usize) -> Result<(), Error> {
        // The hash table has one control byte per entry.
        self.try_reserve(more).map_err(|_| refused(self.len(), more, size_of::<T>() + 1))
    }
}

#[cold]
fn refused(len: usize, more: usize, bytes: usize) -> Error {
    let needed_bytes = len.saturating_add(more).saturating_mul(bytes) as u64;
    let what = format!(
        "the system refused {} MiB of memory for what the search has seen; free memory, or use a machine with more",
        needed_bytes.div_ceil(1 << 20)
    );
    Error::Memory { what, needed_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_no_system_has_is_refused() {
        let mut rows = vec![7u64; 3];
        let refused = rows.make_room(1 << 56);
        assert!(
            matches!(refused, Err(Error::Memory { needed_bytes, .. }) if needed_bytes > 1 << 58),
            "{refused:?}"
        );
        assert!(matches!(BinaryHeap::from(vec![1u64]).make_room(usize::MAX), Err(Error::Memory { .. })));
        assert!(matches!(HashSet::from([1u32]).make_room(1 << 56), Err(Error::Memory { .. })));
        rows.make_room(5).unwrap();
        assert!(rows == [7; 3] && rows.capacity() >= 8);
    }
}
