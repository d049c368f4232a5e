//! The mark of a commit: how far an import is.
//!
//! A mark is a fingerprint of the files and the number of their rows that are in the index. The
//! fingerprint covers the lengths of the files and the bytes at both ends. That distinguishes a
//! file from another one, and from itself with rows appended, without reading all of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pagehop_engine::Error as EngineError;

use crate::errors::Error;

/// Bytes at each end of a file that the fingerprint covers.
const END_BYTES: u64 = 64 << 10;

/// Where an import starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// At the first row.
    First,
    /// After this number of rows.
    After(u64),
}

impl Start {
    /// The first row to add.
    pub(super) fn row(self) -> u64 {
        match self {
            Self::First => 0,
            Self::After(rows) => rows,
        }
    }
}

/// Where an import of `rows` rows from files with this `fingerprint` starts in an index with this
/// `mark`: after the rows that the mark counts, if it is a mark of the same files.
pub(super) fn start(mark: [u64; 2], fingerprint: u64, rows: u64) -> Start {
    match mark {
        [of, done] if of == fingerprint && (1..=rows).contains(&done) => Start::After(done),
        _ => Start::First,
    }
}

/// The fingerprint of a file of vectors and of the files of ids, columns and payloads that belong
/// to it. It depends on the order of the files, and is never 0.
pub(super) fn fingerprint<'a>(vectors: &'a Path, beside: impl Iterator<Item = &'a PathBuf>) -> Result<u64, Error> {
    let mut hash = Fnv::default();
    for path in std::iter::once(vectors).chain(beside.map(PathBuf::as_path)) {
        hash.file(path).map_err(|error| EngineError::io(format!("cannot read {}", path.display()), error))?;
    }
    // 0 stands for no mark.
    Ok(hash.0.max(1))
}

/// FNV-1a of 64 bits: a hash that stays the same in every version of this program.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn file(&mut self, path: &Path) -> std::io::Result<()> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        self.bytes(&length.to_le_bytes());
        let mut end = vec![0; length.min(END_BYTES) as usize];
        for offset in [0, length - end.len() as u64] {
            file.read_exact_at(&mut end, offset)?;
            self.bytes(&end);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_applies_to_its_own_files_only() {
        assert_eq!(start([7, 3], 7, 10), Start::After(3));
        assert_eq!(start([7, 10], 7, 10), Start::After(10));
        for (mark, fingerprint) in [([0, 0], 7), ([7, 3], 8), ([7, 11], 7), ([7, 0], 7)] {
            assert_eq!(start(mark, fingerprint, 10), Start::First, "{mark:?}");
        }
    }

    #[test]
    fn a_fingerprint_covers_length_and_both_ends() {
        let path = std::env::temp_dir().join(format!("pagehop-mark-{}", std::process::id()));
        let mut bytes = vec![1; 300_000];
        let mut seen = Vec::new();
        for change in [None, Some(0), Some(299_999)] {
            if let Some(at) = change {
                bytes[at] += 1;
            }
            std::fs::write(&path, &bytes).unwrap();
            seen.push(fingerprint(&path, [].iter()).unwrap());
            seen.push(fingerprint(&path, [path.clone()].iter()).unwrap());
        }
        std::fs::write(&path, &bytes[1..]).unwrap();
        seen.push(fingerprint(&path, [].iter()).unwrap());
        std::fs::write(&path, []).unwrap();
        seen.push(fingerprint(&path, [].iter()).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(fingerprint(&path, [].iter()).is_err());
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }
}
