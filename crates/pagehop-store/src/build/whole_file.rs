//! A new file that appears whole or not at all.
//!
//! It has no name at first, in its target's directory (`O_TMPFILE`), so that a killed process
//! leaves nothing. Only when all of it is on disk does it get a name: the target's own if nothing
//! is there, else a temporary one that is then moved over the target. Where the file system has no
//! unnamed files, a temporary name is used throughout: `.NAME.tmp-PID-NUMBER`, locked by its maker,
//! removed by the next one if its maker is gone.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use pagehop_engine::Error;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::build::kept_work::KeptWork;
use crate::build::page_cache::{PageCache, forget};
use crate::disk::location::LOG;
use crate::process::attach::Replacing;

/// Most bytes of a build in the page cache, if it sets no limit.
const PAGE_CACHE_BYTES: u64 = 16 << 20;

/// A file that is being written, before it gets its name. Dropping it removes it.
pub(crate) struct WholeFile {
    pub(crate) file: Arc<File>,
    target: PathBuf,
    directory: PathBuf,
    overwrite: bool,
    /// The temporary name of the file, if it has one.
    temporary: Option<PathBuf>,
    /// The kept work, for builds that go on after they were killed.
    pub(crate) kept: Option<KeptWork>,
    /// The page cache of builds that put rows aside.
    page_cache: OnceLock<Arc<PageCache>>,
}

impl WholeFile {
    /// An empty file that may become `target`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if something is at `target` and may not be overwritten: anything at all
    /// without `overwrite`, what is not a file in any case. [`Error::Io`] if the directory does not
    /// allow a new file.
    pub(crate) fn create(target: &Path, overwrite: bool) -> Result<Self, Error> {
        Self::create_in(target, overwrite, true)
    }

    /// [`WholeFile::create`], with a temporary name unless `unnamed`.
    pub(crate) fn create_in(target: &Path, overwrite: bool, unnamed: bool) -> Result<Self, Error> {
        let target = resolve(target)?;
        check_target(&target, overwrite)?;
        let directory = directory_of(&target);
        remove_abandoned(&target, &directory);

        let refused = |error: io::Error| Error::io(format!("creation of {}", target.display()), error);
        let (file, temporary) = open_temporary(&target, unnamed).map_err(refused)?;
        if let Ok(old) = fs::metadata(&target) {
            // A file that replaces another has its permissions, so the same users can read it.
            let _ = file.set_permissions(old.permissions());
        }
        let (file, kept, page_cache) = (Arc::new(file), None, OnceLock::new());
        Ok(Self { file, target, directory, overwrite, temporary, kept, page_cache })
    }

    /// Makes the file durable and gives it its name. If the system refuses, the finished work of a
    /// build stays for the next.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if something was put at the target in the meantime; [`Error::Busy`] if
    /// another process is writing the index there; [`Error::Io`] if the system refuses. What was at
    /// the target before is untouched then.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.sync().inspect_err(|error| self.leave_work(error))?;
        // The files beside an old index are removed with it, but not before it.
        let old = if self.overwrite && self.target.exists() { Replacing::begin(&self.target) } else { Ok(None) };
        let old = old.inspect_err(|error| self.leave_work(error))?;
        self.replace(old)
    }

    /// Leaves the finished work of a build that ended with `error` to the next one, unless the
    /// build was stopped or the disk is full.
    pub(crate) fn leave_work(&mut self, error: &Error) {
        if !matches!(error, Error::Interrupted | Error::Full { .. }) {
            self.kept.take().into_iter().for_each(KeptWork::leave);
        }
    }

    /// [`WholeFile::finish`] over the index that this process has open, once the file is on disk
    /// and `hold` keeps the old one from others.
    ///
    /// # Errors
    ///
    /// Those of `hold`; [`Error::Io`] if the system refuses. What was at the target before is
    /// untouched then.
    pub(crate) fn finish_in_place(self, hold: impl FnOnce() -> Result<Replacing, Error>) -> Result<(), Error> {
        self.sync()?;
        let old = hold()?;
        self.replace(Some(old))
    }

    fn sync(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(|error| self.refused("sync", error))
    }

    /// Gives the file its name, in place of `old`.
    fn replace(mut self, old: Option<Replacing>) -> Result<(), Error> {
        if let Err(error) = self.give_name() {
            old.into_iter().for_each(Replacing::cancel);
            let error = match error.kind() {
                io::ErrorKind::AlreadyExists => exists(&self.target),
                _ => self.refused("naming", error),
            };
            self.leave_work(&error);
            return Err(error);
        }
        // A kill before this line leaves the kept work beside the index. The next build of the
        // index removes it.
        self.kept.take().into_iter().for_each(|kept| kept.finish());
        let synced = sync_directory(&self.directory);
        self.remove_old(old, synced)
    }

    /// Removes the files of the `old` index, whose name the new file has now. A loss of power may
    /// bring the old index back until the directory is `synced`: then it needs its log.
    fn remove_old(&self, old: Option<Replacing>, synced: io::Result<()>) -> Result<(), Error> {
        old.into_iter().for_each(|old| {
            old.finish(|location| {
                if synced.is_ok() {
                    // If the log cannot be removed, its identity keeps it from being taken for the
                    // new index's.
                    let _ = location.remove(LOG);
                }
            });
        });
        synced.map_err(|error| self.refused("sync of the directory", error))
    }

    fn give_name(&mut self) -> io::Result<()> {
        if self.temporary.is_none() && !self.overwrite {
            return link(&self.file, &self.target);
        }
        if self.temporary.is_none() {
            let name = free_name(&self.target, &self.directory, |name| link(&self.file, name))?;
            self.temporary = Some(name);
        }
        let temporary = self.temporary.as_ref().expect("just named");
        if self.overwrite {
            fs::rename(temporary, &self.target)?;
        } else {
            move_to_free_name(temporary, &self.target)?;
        }
        self.temporary = None;
        Ok(())
    }

    /// Writes all of `bytes` at `at`, the end of the file.
    pub(crate) fn append(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        if let Some(cache) = self.page_cache.get() {
            return cache.append(&self.file, bytes, at);
        }
        self.file.write_all_at(bytes, at)?;
        // Starts the write-out, so that little is left for the sync at the end.
        forget(&self.file, at + bytes.len() as u64);
        Ok(())
    }

    /// Limits what this file, temporary files and kept work take in the system's page cache, if
    /// they have no limit yet.
    pub(crate) fn limit_page_cache(&self, bytes: u64) {
        self.page_cache.get_or_init(|| Arc::new(PageCache::new(bytes)));
    }

    /// The share of the page cache of a build that puts rows aside.
    pub(crate) fn page_cache(&self) -> &Arc<PageCache> {
        self.page_cache.get_or_init(|| Arc::new(PageCache::new(PAGE_CACHE_BYTES)))
    }

    /// Whether the file has no name.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.temporary.is_none()
    }

    /// The target file.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The error for an `operation` on the file that the system refused.
    pub(crate) fn refused(&self, operation: &str, error: io::Error) -> Error {
        Error::io(format!("{operation} of {}", self.target.display()), error)
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(name) = &self.temporary {
            let _ = fs::remove_file(name);
        }
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory).and_then(|directory| directory.sync_all()) {
        // Some file systems cannot sync a directory; their names are durable at once or never.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// The file that `target` means now, as an absolute path: the working directory may change before
/// the file gets its name. A link is followed, so the link is not replaced.
fn resolve(target: &Path) -> Result<PathBuf, Error> {
    let refused = |error| Error::io(format!("creation of {}", target.display()), error);
    match fs::canonicalize(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        resolved => return resolved.map_err(refused),
    }
    let is_link = fs::symlink_metadata(target).is_ok_and(|metadata| metadata.is_symlink());
    let Some(name) = target.file_name().filter(|_| !is_link) else {
        return Err(refused(io::ErrorKind::NotFound.into()));
    };
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(fs::canonicalize(parent).map_err(refused)?.join(name))
}

/// The directory that holds `path`, which is absolute.
fn directory_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(path).to_path_buf()
}

fn check_target(target: &Path, overwrite: bool) -> Result<(), Error> {
    match fs::metadata(target) {
        Ok(metadata) if !metadata.is_file() => {
            Err(Error::argument(format!("{} is not a file and cannot be overwritten", target.display())))
        }
        Ok(_) if !overwrite => Err(exists(target)),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match target.file_name() {
            Some(_) => Ok(()),
            None => Err(Error::argument(format!("{:?} is not the name of a file", target))),
        },
        Err(error) => Err(Error::io(format!("creation of {}", target.display()), error)),
    }
}

fn exists(target: &Path) -> Error {
    Error::argument(format!("{} exists already; `overwrite` replaces it", target.display()))
}

/// A temporary file in the directory of `target`, which is absolute: without a name if `unnamed`
/// and the file system has such files, otherwise with one, and locked.
pub(crate) fn open_temporary(target: &Path, unnamed: bool) -> io::Result<(File, Option<PathBuf>)> {
    let directory = directory_of(target);
    let unnamed_file = if unnamed { open_unnamed(&directory)? } else { None };
    let (file, name) = match unnamed_file {
        Some(file) => (file, None),
        None => open_named(target, &directory).map(|(file, name)| (file, Some(name)))?,
    };
    lock(&file);
    Ok((file, name))
}

/// A file without a name, or `None` if the file system has no such files.
fn open_unnamed(directory: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::from_raw_mode(0o666)) {
        // Without /proc the file could not be named later.
        Ok(file) if Path::new(&handle(file.as_raw_fd())).exists() => Ok(Some(file.into())),
        Ok(_) | Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn open_named(target: &Path, directory: &Path) -> io::Result<(File, PathBuf)> {
    let mut opened = None;
    let name = free_name(target, directory, |name| {
        opened = Some(File::options().read(true).write(true).create_new(true).open(name)?);
        Ok(())
    })?;
    Ok((opened.expect("a name was found because it opened"), name))
}

/// Tries temporary names until `attempt` finds one that is free.
fn free_name(
    target: &Path,
    directory: &Path,
    mut attempt: impl FnMut(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let mut name = prefix(target);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        name.push(format!("{}-{number}", std::process::id()));
        let path = directory.join(name);
        match attempt(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

fn prefix(target: &Path) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(target.file_name().unwrap_or_default());
    prefix.push(".tmp-");
    prefix
}

/// Shows other builds that this one is alive. On a file system without locks, nothing is ever
/// removed.
fn lock(file: &File) {
    let _ = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
}

fn handle(file: i32) -> String {
    format!("/proc/self/fd/{file}")
}

fn link(file: &File, name: &Path) -> io::Result<()> {
    rustix::fs::linkat(CWD, handle(file.as_raw_fd()), CWD, name, AtFlags::SYMLINK_FOLLOW)?;
    Ok(())
}

fn move_to_free_name(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        result => Ok(result?),
    }
}

/// Removes temporary files of `target` whose builder is gone.
fn remove_abandoned(target: &Path, directory: &Path) {
    let prefix = prefix(target);
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        if !entry.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes()) {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else {
            continue;
        };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("pagehop-sink-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn names(directory: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    /// A file as on a file system that has no files without names.
    fn named(target: &Path, overwrite: bool) -> WholeFile {
        let file = WholeFile::create_in(target, overwrite, false).unwrap();
        assert!(file.temporary.as_ref().is_some_and(|name| name.exists()));
        file
    }

    #[test]
    fn a_named_temporary_file_comes_and_goes() {
        let directory = scratch("named");
        let target = directory.join("items.pagehop");
        drop(named(&target, false));
        assert!(names(&directory).is_empty());

        for overwrite in [false, true] {
            named(&target, overwrite).finish().unwrap();
            assert_eq!(names(&directory), ["items.pagehop"]);
        }

        fs::remove_file(&target).unwrap();
        let file = named(&target, false);
        fs::write(&target, "mine").unwrap();
        assert!(matches!(file.finish(), Err(Error::Argument { .. })));
        assert_eq!(fs::read(&target).unwrap(), b"mine");
        assert_eq!(names(&directory), ["items.pagehop"]);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_a_killed_build_left_is_cleaned_and_what_a_living_one_has_is_not() {
        let directory = scratch("abandoned");
        let target = directory.join("items.pagehop");
        let abandoned = directory.join(".items.pagehop.tmp-1-0");
        let other = directory.join(".others.pagehop.tmp-1-0");
        fs::write(&abandoned, "half a file").unwrap();
        fs::write(&other, "of another index").unwrap();
        let living = named(&target, false);
        let second = named(&target, false);
        assert!(!abandoned.exists() && other.exists());
        assert!(living.temporary.as_ref().unwrap().exists());
        drop((living, second));
        assert_eq!(names(&directory), [".others.pagehop.tmp-1-0"]);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn the_log_of_the_old_index_stays_until_the_new_name_is_durable() {
        let directory = scratch("order");
        let (target, log) = (directory.join("items.pagehop"), directory.join("items.pagehop-log"));
        for (is_synced, stays) in [(false, true), (true, false)] {
            fs::write(&target, "old").unwrap();
            fs::write(&log, "commits of the old one").unwrap();
            let mut file = named(&target, true);
            let old = Replacing::begin(&target).unwrap();
            file.give_name().unwrap();
            // After a loss of power here, the old index may come back.
            assert!(log.exists());
            let synced = if is_synced { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) };
            assert_eq!(file.remove_old(old, synced).is_ok(), is_synced);
            assert_eq!(log.exists(), stays);
            assert!(!directory.join("items.pagehop-shared").exists());
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
