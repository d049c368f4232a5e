//! The finished work of a build, beside the index that it makes: `NAME-build`. A build that is
//! killed leaves this file, and the next build of the same rows resumes after it.
//!
//! ```text
//! 8 bytes  what this is, and in which version
//! 8 bytes  the key of the build
//! then records: 8 bytes length, 4 bytes CRC-32C of length and bytes, the bytes
//! ```
//!
//! Each record is synced before the next begins, so only the last can be torn: the first record
//! with a wrong checksum ends the file. The file goes when the build ends by itself, whether it is
//! done, fails or is stopped. But the file stays if the index was written and the system then
//! refuses to read it or to give it its name. Its maker holds a lock on it; another build of the
//! same index keeps nothing. If another file has that name, a build keeps nothing either, and does
//! not change that file. It also keeps nothing if the file cannot be made or opened, because it
//! belongs to another user or its name is too long, or if the file system has no locks: a build
//! needs no kept work.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagehop_engine::{EachWork, Error};
use pagehop_kernels::crc32c;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::build::page_cache::{PageCache, forget, stop_read_ahead};

/// The ending of the name beside an index.
const BUILD: &str = "-build";
const MAGIC: [u8; 8] = *b"phbuild1";
const MAGIC_BYTES: usize = MAGIC.len();
const HEAD_BYTES: u64 = 16;
const RECORD_HEAD_BYTES: usize = 12;

/// The work that a build has kept or may keep. Dropping it removes the file, if the build made or
/// took it.
pub(crate) struct KeptWork {
    path: PathBuf,
    taken: RefCell<Option<Taken>>,
}

/// The file that this build keeps its work in.
struct Taken {
    file: Locked,
    /// Offset of the next record.
    end: u64,
}

/// A file, and the lock on it until it is dropped. Closing alone would leave the lock to a child
/// process that has inherited the file and has not begun its own program yet.
struct Locked(Arc<File>);

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl KeptWork {
    /// The kept work of a build that makes `target`.
    pub(crate) fn of(target: &Path) -> Self {
        let mut name = OsString::from(target);
        name.push(BUILD);
        Self { path: name.into(), taken: RefCell::new(None) }
    }

    /// See [`Scratch::resume`](pagehop_engine::Scratch::resume).
    pub(crate) fn resume(&self, key: u64, cache: &PageCache, each: EachWork<'_>) -> Result<(), Error> {
        let Some(file) = self.opened() else { return Ok(()) };
        if begins_as_kept_work(&file.0).is_none() {
            return Ok(());
        }
        let mut head = [0; HEAD_BYTES as usize];
        head[..8].copy_from_slice(&MAGIC);
        head[8..].copy_from_slice(&key.to_le_bytes());
        let mut found = [0; HEAD_BYTES as usize];
        let is_same = file.0.read_exact_at(&mut found, 0).is_ok() && found == head;
        stop_read_ahead(&file.0);
        let mut taken = self.taken.borrow_mut();
        let taken = taken.insert(Taken { file, end: HEAD_BYTES });
        let file = &taken.file.0;
        if is_same {
            taken.end += self.read(file, cache, each)?;
        }
        let begun = file.set_len(taken.end * u64::from(is_same));
        let begun = begun.and_then(|()| file.write_all_at(&head, 0)).and_then(|()| file.sync_all());
        begun.map_err(|error| self.refused("write", error))
    }

    /// The file, locked, and made if there is none; `None` if that is refused.
    fn opened(&self) -> Option<Locked> {
        let options = || File::options().read(true).write(true).clone();
        let (file, is_new) = match options().create_new(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (options().open(&self.path), false),
            made => (made, true),
        };
        let file = file.ok()?;
        self.is_locked(is_new, lock(&file)).then(|| Locked(Arc::new(file)))
    }

    /// Whether the lock on the file was given. If the file system has no locks, a new file is
    /// removed.
    fn is_locked(&self, is_new: bool, lock: Result<(), Errno>) -> bool {
        if is_new && lock.is_err_and(|error| error != Errno::WOULDBLOCK) {
            let _ = fs::remove_file(&self.path);
        }
        lock.is_ok()
    }

    /// Passes records to `each`. Returns the bytes of the records that it took.
    fn read(&self, file: &File, cache: &PageCache, each: EachWork<'_>) -> Result<u64, Error> {
        let length = file.metadata().map_err(|error| self.refused("read", error))?.len();
        let mut left = BufReader::new(Behind { file, cache, at: HEAD_BYTES });
        let mut good = 0;
        while let Some(record) = next_record(&mut left, length - HEAD_BYTES - good) {
            if !each(&record)? {
                break;
            }
            good += (RECORD_HEAD_BYTES + record.len()) as u64;
        }
        Ok(good)
    }

    /// Bytes of the file of a killed build, or of one that runs. Takes no lock: another build that
    /// begins now could not resume from a locked file.
    pub(crate) fn left_bytes(&self) -> u64 {
        fs::symlink_metadata(&self.path).map_or(0, |found| if found.is_file() { found.len() } else { 0 })
    }

    /// The file of a killed build, with a lock on it. It is empty if the build was killed before
    /// it wrote anything.
    fn left(&self) -> Option<Locked> {
        let is_file = fs::symlink_metadata(&self.path).is_ok_and(|found| found.is_file());
        let file = is_file.then(|| File::open(&self.path)).and_then(Result::ok)?;
        let is_kept_work = matches!(begins_as_kept_work(&file), Some(0 | MAGIC_BYTES));
        (is_kept_work && lock(&file).is_ok()).then(|| Locked(Arc::new(file)))
    }

    /// See [`Scratch::keep`](pagehop_engine::Scratch::keep).
    pub(crate) fn keep(&self, work: &[u8], cache: &PageCache) -> Result<(), Error> {
        let mut taken = self.taken.borrow_mut();
        let Some(Taken { file: Locked(file), end }) = taken.as_mut() else { return Ok(()) };
        let length = (work.len() as u64).to_le_bytes();
        let checksum = crc32c(work, crc32c(&length, 0)).to_le_bytes();
        let at = *end + RECORD_HEAD_BYTES as u64;
        let written = cache
            .append(file, &[&length[..], &checksum].concat(), *end)
            .and_then(|()| cache.append(file, work, at))
            .and_then(|()| file.sync_data());
        *end = at + work.len() as u64;
        forget(file, *end);
        written.map_err(|error| self.refused("write", error))
    }

    /// Leaves the file as a kill does.
    pub(crate) fn leave(self) {
        self.taken.borrow_mut().take();
    }

    /// Removes the file of this build, or of a killed build. The index is complete.
    pub(crate) fn finish(&self) {
        // The lock is held until the file is gone, so that no other build keeps work in it.
        let mine = self.taken.borrow_mut().take().map(|taken| taken.file);
        if let Some(_locked) = mine.or_else(|| self.left()) {
            let _ = fs::remove_file(&self.path);
        }
    }

    fn refused(&self, operation: &str, error: io::Error) -> Error {
        Error::io(format!("{operation} of {}", self.path.display()), error)
    }
}

impl Drop for KeptWork {
    fn drop(&mut self) {
        if self.taken.borrow().is_some() {
            self.finish();
        }
    }
}

/// Takes the lock of a build on the file: [`Errno::WOULDBLOCK`] if another build holds it.
fn lock(file: &File) -> Result<(), Errno> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// How many bytes of [`MAGIC`] a file begins with: all of them, or fewer if a build was killed
/// while it wrote them. `None` for any other file.
fn begins_as_kept_work(file: &File) -> Option<usize> {
    let found = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mut bytes = [0; MAGIC.len()];
    let bytes = &mut bytes[..found.len().min(MAGIC.len() as u64) as usize];
    file.read_exact_at(bytes, 0).ok()?;
    MAGIC.starts_with(bytes).then_some(bytes.len())
}

/// The next record, if it is within `left` bytes; `None` if there is none, or a torn one.
fn next_record(file: &mut impl Read, left: u64) -> Option<Vec<u8>> {
    let (mut length, mut checksum) = ([0; 8], [0; 4]);
    file.read_exact(&mut length).ok()?;
    file.read_exact(&mut checksum).ok()?;
    let bytes = u64::from_le_bytes(length);
    if bytes > left.checked_sub(RECORD_HEAD_BYTES as u64)? {
        return None;
    }
    let mut record = vec![0; usize::try_from(bytes).ok()?];
    file.read_exact(&mut record).ok()?;
    (crc32c(&record, crc32c(&length, 0)) == u32::from_le_bytes(checksum)).then_some(record)
}

/// A file from a place on.
struct Behind<'f> {
    file: &'f File,
    cache: &'f PageCache,
    at: u64,
}

impl Read for Behind<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.cache.read_some(self.file, bytes, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("pagehop-kept-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn cache() -> PageCache {
        PageCache::new(1 << 20)
    }

    /// The records that a build with this key finds. It takes at most `most` of them.
    fn found(kept: &KeptWork, key: u64, most: usize) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let mut take = |work: &[u8]| {
            let is_taken = found.len() < most;
            if is_taken {
                found.push(work.to_vec());
            }
            Ok(is_taken)
        };
        kept.resume(key, &cache(), &mut take).unwrap();
        found
    }

    #[test]
    fn work_outlives_a_killed_build_and_no_other() {
        let folder = folder("lives");
        let target = folder.join("items.pagehop");
        let kept = KeptWork::of(&target);
        assert_eq!(found(&kept, 7, 9), Vec::<Vec<u8>>::new());
        for work in ["one", "two", "three"] {
            kept.keep(work.as_bytes(), &cache()).unwrap();
        }
        let other = KeptWork::of(&target);
        assert!(found(&other, 7, 9).is_empty(), "it is another's");
        other.keep(b"nothing", &cache()).unwrap();
        drop(other);
        kept.leave();
        let kept = KeptWork::of(&target);
        assert_eq!(found(&kept, 7, 2), [b"one", b"two"].map(|work| work.to_vec()));
        kept.keep(b"drei", &cache()).unwrap();
        kept.leave();
        let kept = KeptWork::of(&target);
        assert_eq!(found(&kept, 7, 9), [&b"one"[..], b"two", b"drei"].map(<[u8]>::to_vec));
        kept.leave();
        let kept = KeptWork::of(&target);
        assert!(found(&kept, 8, 9).is_empty(), "another build");
        drop(kept);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        KeptWork::of(&target).finish();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_else_has_that_name_stays() {
        let folder = folder("other");
        let target = folder.join("items.pagehop");
        let path = KeptWork::of(&target).path.clone();
        for content in [&b"another program's file"[..], b"ph", b"phbuild2 and more"] {
            fs::write(&path, content).unwrap();
            if content.len() > MAGIC.len() {
                let kept = KeptWork::of(&target);
                assert!(found(&kept, 7, 9).is_empty());
                kept.keep(b"nothing", &cache()).unwrap();
            }
            // This also holds for a build that keeps nothing.
            KeptWork::of(&target).finish();
            assert_eq!(fs::read(&path).unwrap(), content);
        }
        fs::write(&path, b"").unwrap();
        KeptWork::of(&target).finish();
        assert!(!path.exists(), "a build was killed before it wrote anything");
        fs::create_dir(&path).unwrap();
        let kept = KeptWork::of(&target);
        assert!(found(&kept, 7, 9).is_empty());
        kept.finish();
        assert!(path.is_dir());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn where_no_file_can_be_made_or_locked_a_build_keeps_nothing() {
        let folder = folder("none");
        for target in [folder.join("x".repeat(252)), folder.join("missing/items.pagehop")] {
            let kept = KeptWork::of(&target);
            assert!(found(&kept, 7, 9).is_empty());
            kept.keep(b"nothing", &cache()).unwrap();
        }
        let kept = KeptWork::of(&folder.join("items.pagehop"));
        for (is_new, error, stays) in
            [(false, Errno::NOSYS, true), (true, Errno::WOULDBLOCK, true), (true, Errno::NOSYS, false)]
        {
            fs::write(&kept.path, b"").unwrap();
            assert!(!kept.is_locked(is_new, Err(error)));
            assert_eq!(kept.path.exists(), stays, "new: {is_new}, {error}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_child_process_that_inherits_the_file_keeps_no_lock() {
        let folder = folder("inherited");
        let kept = KeptWork::of(&folder.join("items.pagehop"));
        found(&kept, 7, 9);
        kept.keep(b"one", &cache()).unwrap();
        // A fork copies the descriptor, as this does.
        let inherited = kept.taken.borrow().as_ref().unwrap().file.0.try_clone().unwrap();
        kept.leave();
        let kept = KeptWork::of(&folder.join("items.pagehop"));
        assert_eq!(found(&kept, 7, 9), [b"one".to_vec()]);
        drop((kept, inherited));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_torn_or_damaged_ends_the_work() {
        let folder = folder("torn");
        let target = folder.join("items.pagehop");
        let kept = KeptWork::of(&target);
        found(&kept, 7, 9);
        for work in ["one", "two", "three"] {
            kept.keep(work.as_bytes(), &cache()).unwrap();
        }
        let path = kept.path.clone();
        kept.leave();
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            for damage in ["torn", "a bit", "longer"] {
                let mut bytes = whole.clone();
                match damage {
                    "torn" => bytes.truncate(at),
                    "a bit" => bytes[at] ^= 4,
                    _ => bytes.extend_from_slice(&whole[..at]),
                }
                fs::write(&path, bytes).unwrap();
                let kept = KeptWork::of(&target);
                let some = found(&kept, 7, 9);
                assert!([&b"one"[..], b"two", b"three"].iter().zip(&some).all(|(a, b)| a == b));
                assert_eq!(some.len() == 3, damage == "longer", "{damage} at {at}");
                kept.leave();
                let after = fs::read(&path).unwrap();
                if damage == "a bit" && at < MAGIC.len() {
                    assert_eq!(after.len(), whole.len(), "it is another's by now");
                } else {
                    assert!(whole.starts_with(&after), "{damage} at {at}: the file ends with its last record");
                }
            }
        }
        KeptWork::of(&target).finish();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }
}
