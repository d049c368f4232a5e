//! A new index file that appears whole or not at all.
//!
//! Pages go to a file without a name in the target's directory (`O_TMPFILE`), so that a killed
//! build leaves nothing. Only when every page is on disk does the file get a name: the target's own
//! if nothing is there, else a temporary one that is then moved over the target. Where the file
//! system has no unnamed files, a temporary name is used throughout: `.NAME.tmp-PID-NUMBER`, locked
//! by its builder, removed by the next build if its builder is gone.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pagehop_engine::{BODY_BYTES, Error, HOST_HEADER_BYTES, Index, OnProgress, PAGE_BYTES, PageId, PageSink};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::build::unfinished::UnfinishedPages;
use crate::disk::location::LOG;
use crate::header;
use crate::header::Identity;
use crate::process::attach::Replacing;

/// Bytes collected before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// Pages, in order, on their way into a new index file.
pub struct NewIndexFile {
    target: PathBuf,
    directory: PathBuf,
    overwrite: bool,
    file: File,
    /// The temporary name of the file, if it has one.
    temporary: Option<PathBuf>,
    buffer: Vec<u8>,
    /// Bytes handed to the system.
    written: u64,
    next: u32,
    complete: bool,
    /// By which a log knows the index it belongs to.
    identity: Identity,
}

impl NewIndexFile {
    /// Prepares to write the index file `target`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if something is at `target` and may not be overwritten: anything at all
    /// without `overwrite`, what is not a file in any case. [`Error::Io`] if the directory does not
    /// allow a new file.
    pub fn create(target: &Path, overwrite: bool) -> Result<Self, Error> {
        Self::create_in(target, overwrite, true)
    }

    fn create_in(target: &Path, overwrite: bool, unnamed: bool) -> Result<Self, Error> {
        let target = resolve(target)?;
        check_target(&target, overwrite)?;
        let directory = directory_of(&target);
        remove_abandoned(&target, &directory);

        let refused = |error: io::Error| Error::io(format!("creation of {}", target.display()), error);
        let unnamed_file = if unnamed { open_unnamed(&directory).map_err(refused)? } else { None };
        let (file, temporary) = match unnamed_file {
            Some(file) => (file, None),
            None => open_named(&target, &directory).map(|(file, name)| (file, Some(name))).map_err(refused)?,
        };
        lock(&file);
        if let Ok(old) = fs::metadata(&target) {
            // A rebuilt index stays readable for those who could read it.
            let _ = file.set_permissions(old.permissions());
        }
        let mut buffer = Vec::with_capacity(WRITE_BYTES + PAGE_BYTES);
        // Page 0 comes last; until then zeros are in its place, which are no index.
        buffer.resize(PAGE_BYTES, 0);
        let (written, next, complete, identity) = (0, 1, false, header::new_identity());
        Ok(Self { target, directory, overwrite, file, temporary, buffer, written, next, complete, identity })
    }

    /// Makes the file durable and gives it its name.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if page 0 was not written, or if another process is writing the index at
    /// the target; [`Error::Io`] if the system refuses. What was at the target before is untouched
    /// then.
    pub fn finish(mut self) -> Result<(), Error> {
        if !self.complete {
            return Err(Error::argument("an index needs a page 0"));
        }
        self.flush()?;
        self.file.sync_all().map_err(|error| self.refused("sync", error))?;
        // The files beside an old index go with it, but not before it.
        let old = if self.overwrite && self.target.exists() { Replacing::begin(&self.target)? } else { None };
        if let Err(error) = self.give_name() {
            old.into_iter().for_each(Replacing::cancel);
            return Err(match error.kind() {
                io::ErrorKind::AlreadyExists => exists(&self.target),
                _ => self.refused("naming", error),
            });
        }
        old.into_iter().for_each(|old| {
            // If the log cannot be removed, its identity keeps it from being taken for the new
            // index's.
            old.finish(|location| drop(location.remove(LOG)));
        });
        let directory = File::open(&self.directory).and_then(|directory| directory.sync_all());
        match directory {
            // Some file systems cannot sync a directory; their names are durable at once or never.
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
                Err(self.refused("sync of the directory", error))
            }
            _ => Ok(()),
        }
    }

    /// Measures what was written, and puts the calibration on page 0.
    ///
    /// # Errors
    ///
    /// Those of [`Index::calibrate`]; [`Error::Io`] if the file cannot be written.
    pub(crate) fn calibrate(&mut self, threads: usize, progress: OnProgress<'_>) -> Result<(), Error> {
        self.flush()?;
        let pages = UnfinishedPages::new(&self.file, self.next).map_err(|error| self.refused("mapping", error))?;
        let index = Index::open(pages)?;
        let Some(calibration) = index.calibrate(&[], threads, progress)? else { return Ok(()) };
        let body = index.calibrated_meta_page(calibration)?;
        self.complete = false;
        self.write(PageId(0), &body)
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

    /// Writes what was collected; may be called again after it failed.
    fn flush(&mut self) -> Result<(), Error> {
        self.file.write_all_at(&self.buffer, self.written).map_err(|error| {
            let page = self.written / PAGE_BYTES as u64;
            self.refused(&format!("write of pages from {page} on"), error)
        })?;
        let length = std::num::NonZeroU64::new(self.buffer.len() as u64);
        // Starts the write-out, so that the sync at the end finds little to do.
        let _ = rustix::fs::fadvise(&self.file, self.written, length, rustix::fs::Advice::DontNeed);
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn write_page_0(&mut self, bytes: &[u8; PAGE_BYTES]) -> Result<(), Error> {
        if self.written == 0 {
            self.buffer[..PAGE_BYTES].copy_from_slice(bytes);
            return Ok(());
        }
        self.file.write_all_at(bytes, 0).map_err(|error| self.refused("write of page 0", error))
    }

    fn refused(&self, operation: &str, error: io::Error) -> Error {
        Error::io(format!("{operation} of {}", self.target.display()), error)
    }
}

impl PageSink for NewIndexFile {
    /// Pages come as 1, 2, 3 and so on, then 0.
    fn write(&mut self, page: PageId, body: &[u8]) -> Result<(), Error> {
        assert_eq!(body.len(), BODY_BYTES, "a body is always of the same length");
        if self.complete || (page.0 != 0 && page.0 != self.next) {
            let expected = if self.complete { "none".into() } else { format!("{} or 0", self.next) };
            return Err(Error::argument(format!("page {} came, expected {expected}", page.0)));
        }
        let mut bytes = [0; PAGE_BYTES];
        bytes[HOST_HEADER_BYTES..].copy_from_slice(body);
        header::seal(page, 0, self.identity, &mut bytes);
        if page.0 == 0 {
            self.complete = true;
            return self.write_page_0(&bytes);
        }
        self.next =
            self.next.checked_add(1).ok_or_else(|| Error::full("the index has as many pages as ids can name"))?;
        self.buffer.extend_from_slice(&bytes);
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }
}

impl Drop for NewIndexFile {
    fn drop(&mut self) {
        if let Some(name) = &self.temporary {
            let _ = fs::remove_file(name);
        }
    }
}

/// The file that `target` means now, as an absolute path: the working directory may change before
/// the file gets its name. A link is followed, so that the link itself stays.
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
    Error::argument(format!("{} exists already; ask to overwrite it if that is meant", target.display()))
}

/// A file without a name, or `None` where the file system has none.
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

/// Shows other builds that this one is alive. Where there are no locks, nothing is ever removed.
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

    /// A sink on a file system without unnamed files.
    fn named(target: &Path, overwrite: bool) -> NewIndexFile {
        let sink = NewIndexFile::create_in(target, overwrite, false).unwrap();
        assert!(sink.temporary.as_ref().is_some_and(|name| name.exists()));
        sink
    }

    #[test]
    fn a_named_temporary_file_comes_and_goes() {
        let directory = scratch("named");
        let target = directory.join("items.pagehop");
        drop(named(&target, false));
        assert!(names(&directory).is_empty());

        for overwrite in [false, true] {
            let mut sink = named(&target, overwrite);
            sink.write(PageId(0), &[7; BODY_BYTES]).unwrap();
            sink.finish().unwrap();
            assert_eq!(names(&directory), ["items.pagehop"]);
        }

        fs::remove_file(&target).unwrap();
        let mut sink = named(&target, false);
        sink.write(PageId(0), &[7; BODY_BYTES]).unwrap();
        fs::write(&target, "mine").unwrap();
        assert!(matches!(sink.finish(), Err(Error::Argument { .. })));
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
}
