//! Joining the processes that have an index open, and leaving them.
//!
//! Locks on bytes of `X-shared` show which processes share it: byte 0 is held while a process joins
//! or leaves, byte 16 + i by process i. The locks on `X` itself (`locks.rs`) show which process
//! writes, and whether a process uses `X` with another `X-shared`. The system frees all locks of a
//! process when it ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pagehop_engine::Error;
use rustix::fs::{IFlags, OFlags};

use crate::disk::location::{Location, SHARED};
use crate::header::Identity;
use crate::process::locks::IndexLocks;
use crate::process::mapping::{self, Words};
use crate::process::shared_words::{
    AT_DEVICE, AT_IDENTITY, AT_INODE, AT_MAGIC, AT_VERSION, Attachment, HEAD_BYTES, LOCK_PROCESS, MAGIC, PROCESSES,
    Shared, VERSION, give_space,
};
use crate::process::snapshots;

const LOCK_COMING: u64 = 0;

/// How long a killed process may still hold some of its locks.
const DYING: Duration = Duration::from_secs(2);

/// The outcome of an attempt to join.
pub(crate) enum Attached {
    /// Joined; `first` if no other process is there, and the words are zeros. No process joins or
    /// leaves until [`let_others_in`].
    Joined { shared: Box<Shared>, first: bool },
    /// Another file has the index's name now: it must be opened again.
    Replaced,
    /// `X-shared` cannot be made or locked, or `X` not be locked.
    Refused(io::Error),
}

/// The outcome of an attempt to share the words of one file.
enum Shares {
    Joined(Shared, bool),
    /// The words were those of another index, and were removed.
    OfAnother,
    /// Other processes have the index open and do not share these words.
    NotTheirs,
}

/// Joins the processes that have the index at `location` open, which is the file of `locks`.
///
/// # Errors
///
/// [`Error::Busy`] if `write` and another process is writing, or if other processes have the
/// index open and share another `X-shared`; [`Error::Full`] if too many have it open.
pub(crate) fn attach(
    location: &Arc<Location>,
    locks: impl Fn() -> io::Result<IndexLocks>,
    identity: Identity,
    write: bool,
) -> Result<Attached, Error> {
    let since = Instant::now();
    loop {
        let (locks, file) = match locks().and_then(|locks| Ok((open_coming(location, locks.file())?, locks))) {
            Ok((Some(file), locks)) => (locks, file),
            Ok((None, _)) => continue,
            Err(error) => return Ok(Attached::Refused(error)),
        };
        if !location.is_named("", locks.file()).unwrap_or(false) {
            remove_unused(location, &file);
            return Ok(Attached::Replaced);
        }
        match join(location, file, locks, identity, write)? {
            Ok(Shares::Joined(shared, first)) => {
                return Ok(Attached::Joined { shared: Box::new(shared), first });
            }
            Ok(Shares::OfAnother) => {}
            Ok(Shares::NotTheirs) if since.elapsed() < DYING => std::thread::sleep(Duration::from_millis(1)),
            Ok(Shares::NotTheirs) => return Err(not_theirs(location.path())),
            Err(error) => return Ok(Attached::Refused(error)),
        }
    }
}

fn join(
    location: &Arc<Location>,
    file: File,
    locks: IndexLocks,
    identity: Identity,
    write: bool,
) -> Result<io::Result<Shares>, Error> {
    let path = location.path();
    let tried = (|| {
        let index = locks.file().metadata()?;
        if write && !locks.become_writer()? {
            return Ok(None);
        }
        let first = !mapping::is_locked(&file, LOCK_PROCESS, u64::from(PROCESSES))?;
        let is_theirs = !first || !locks.others_are_present()?;
        if is_theirs {
            locks.become_present()?;
        }
        Ok(Some((index, first, is_theirs)))
    })();
    let (index, first, is_theirs) = match tried {
        Ok(Some(found)) => found,
        Ok(None) => return Err(has_writer(path)),
        Err(error) => return Ok(Err(error)),
    };
    if !is_theirs {
        locks.end_writing();
        return Ok(Ok(Shares::NotTheirs));
    }
    let attachment = Attachment { file, location: Arc::clone(location), locks };
    let mut shared = match words(attachment, first) {
        Ok(shared) => shared,
        Err(error) => return Ok(Err(error)),
    };
    let about = [MAGIC, VERSION, pack(identity), index.ino(), index.dev()];
    let words = [AT_MAGIC, AT_VERSION, AT_IDENTITY, AT_INODE, AT_DEVICE];
    for (word, about) in words.into_iter().zip(about) {
        if first {
            shared.head.word(word).store(about, Ordering::Relaxed);
        } else if shared.head.word(word).load(Ordering::Relaxed) != about {
            if word < AT_IDENTITY {
                let what = format!(
                    "{}{SHARED} is in use by another version of this program; close the index there first",
                    path.display()
                );
                return Err(Error::Format { what });
            }
            // The words belong to a file that had this name before. Processes that still read that
            // file keep their mapping.
            return Ok(location.remove(SHARED).map(|()| Shares::OfAnother));
        }
    }
    match register(&mut shared) {
        Ok(true) => Ok(Ok(Shares::Joined(shared, first))),
        Ok(false) => {
            let path = path.display();
            Err(Error::full(format!("{path} is open {PROCESSES} times already; close some of them")))
        }
        Err(error) => Ok(Err(error)),
    }
}

/// Takes a place among the processes.
fn register(shared: &mut Shared) -> io::Result<bool> {
    let attachment = shared.attachment.as_ref().expect("only words of a file are joined");
    for process in 0..PROCESSES {
        if mapping::lock(&attachment.file, LOCK_PROCESS + u64::from(process), false)? {
            shared.process = process;
            // A process that had the place before ended without leaving.
            snapshots::forget_process(shared, process);
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ends the section that began with [`Attached::Joined`]: the words are complete.
pub(crate) fn let_others_in(shared: &Shared) {
    if let Some(Attachment { file, .. }) = &shared.attachment {
        mapping::unlock(file, LOCK_COMING);
    }
}

/// Runs `work` while no process writes, opens or leaves the index. `None` if one does so now, or if
/// that is not known. Never waits.
pub(crate) fn without_writer<T>(shared: &Shared, work: impl FnOnce() -> T) -> Option<T> {
    let Attachment { file, locks, .. } = shared.attachment.as_ref()?;
    // The lock belongs to the process, not to a thread; the child of a fork shares it with its
    // parent.
    let _alone = shared.finishing.try_lock().ok()?;
    if shared.is_forked() || !matches!(mapping::lock(file, LOCK_COMING, false), Ok(true)) {
        return None;
    }
    let done = matches!(locks.has_writer(), Ok(false)).then(work);
    mapping::unlock(file, LOCK_COMING);
    done
}

/// Keeps other processes from opening the index at `path`, which only this one has open.
///
/// # Errors
///
/// [`Error::Busy`] if it is open elsewhere; [`Error::Io`] if the system refuses.
pub(crate) fn replace_alone(shared: &Shared, path: &Path) -> Result<Replacing, Error> {
    let Some(Attachment { file, location, locks }) = &shared.attachment else {
        let what =
            format!("{} cannot be replaced: files beside it are not shared with other processes", path.display());
        return Err(Error::argument(what));
    };
    let held = (|| {
        let held = Replacing { file: file.try_clone()?, location: Arc::clone(location), is_open: true };
        mapping::lock(file, LOCK_COMING, true)?;
        let others = mapping::is_locked(file, LOCK_PROCESS, u64::from(PROCESSES)).and_then(|in_words| {
            Ok(in_words || locks.others_are_present()? || !location.is_named("", locks.file())?)
        });
        Ok::<_, io::Error>((held, others))
    })();
    match held {
        Ok((held, Ok(false))) => Ok(held),
        Ok((held, Ok(true))) => {
            held.cancel();
            Err(is_open_elsewhere(path))
        }
        Ok((held, Err(error))) => {
            held.cancel();
            Err(Error::io(format!("lock of {}{SHARED}", path.display()), error))
        }
        Err(error) => Err(Error::io(format!("lock of {}{SHARED}", path.display()), error)),
    }
}

/// Frees the writer's lock, as the death of its process does.
#[cfg(test)]
pub(crate) fn end_writing(shared: &Shared) {
    shared.attachment.iter().for_each(|attachment| attachment.locks.end_writing());
}

/// Leaves the index. If no other process has it open, removes the words and calls `remove_log`.
pub(crate) fn detach(shared: &mut Shared, remove_log: impl FnOnce()) {
    if shared.is_forked() {
        return;
    }
    snapshots::forget_process(shared, shared.process);
    let Some(Attachment { file, location, locks }) = shared.attachment.take() else {
        remove_log();
        return;
    };
    let gone = mapping::lock(&file, LOCK_COMING, true).and_then(|_| {
        let alone = !mapping::is_locked(&file, LOCK_PROCESS, u64::from(PROCESSES))?;
        if alone && location.is_named(SHARED, &file)? {
            remove_log();
            // This comes before the name is removed: if a process finds no file of that name, no
            // other process may use the index.
            locks.end_presence();
            location.remove(SHARED)?;
        }
        Ok(())
    });
    // If the file could not be removed, the next process that joins makes the words new.
    let _ = gone;
    locks.end_writing();
}

/// Maps the words of `attachment`, and makes them new for the `first` process.
fn words(attachment: Attachment, first: bool) -> io::Result<Shared> {
    let file = &attachment.file;
    if first {
        // Some file systems write a file that was once truncated to 0 when it is closed.
        if file.metadata()?.len() > 0 {
            file.set_len(0)?;
        }
        write_in_place(file);
        give_space(file, 0, HEAD_BYTES)?;
    } else if file.metadata()?.len() < HEAD_BYTES {
        let path = attachment.location.path().display();
        return Err(io::Error::other(format!("{path}{SHARED} is too short")));
    }
    let head = Words::of_file(file, 0, HEAD_BYTES as usize / 8)?;
    Shared::new(head, Some(attachment))
}

/// Tells a file system that writes every block to a new place, such as btrfs, not to do so with
/// this file, which is empty. Otherwise, on a full disk, the next process that writes to the mapped
/// file would get a signal although its space was reserved. Other file systems do not know the
/// flag.
fn write_in_place(file: &File) {
    if let Ok(flags) = rustix::fs::ioctl_getflags(file) {
        let _ = rustix::fs::ioctl_setflags(file, flags | IFlags::NOCOW);
    }
}

/// Opens and locks `X-shared`, made with the permissions of `index` if it is absent. `None` if it
/// was removed while we waited for the lock.
fn open_coming(location: &Location, index: &File) -> io::Result<Option<File>> {
    let file = location.open(SHARED, OFlags::RDWR | OFlags::CREATE)?;
    let permissions = index.metadata()?.permissions();
    if file.metadata()?.permissions() != permissions {
        // Every process that may use the index may share it. The system lets only the owner of the
        // file set permissions. A refusal is ignored: the owner has set them.
        let _ = file.set_permissions(permissions);
    }
    mapping::lock(&file, LOCK_COMING, true)?;
    Ok(location.is_named(SHARED, &file)?.then_some(file))
}

/// Removes `X-shared`, which is `file`, if no process shares it.
fn remove_unused(location: &Location, file: &File) {
    if matches!(mapping::is_locked(file, LOCK_PROCESS, u64::from(PROCESSES)), Ok(false)) {
        let _ = location.remove(SHARED);
    }
}

/// Keeps other processes from opening the index at a location, while a new one takes its place.
pub(crate) struct Replacing {
    file: File,
    location: Arc<Location>,
    /// Whether this process has the old index open, and `file` with it.
    is_open: bool,
}

impl Replacing {
    /// Waits until no process is opening the index at `path`. `None` if there are no locks or side
    /// files.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if the index at `path` is being written.
    pub(crate) fn begin(path: &Path) -> Result<Option<Self>, Error> {
        let locked = (|| {
            let location = Arc::new(Location::of(path)?);
            loop {
                let index = location.open("", OFlags::RDONLY)?;
                if let Some(file) = open_coming(&location, &index)? {
                    let has_writer = IndexLocks::on(index).has_writer()?;
                    return Ok::<_, io::Error>((Self { file, location, is_open: false }, has_writer));
                }
            }
        })();
        match locked {
            Ok((locked, false)) => Ok(Some(locked)),
            Ok((_, true)) => Err(Error::busy(format!(
                "another process is writing {}; it can be overwritten when that process has closed it",
                path.display(),
            ))),
            Err(_) => Ok(None),
        }
    }

    /// The old index is gone: removes its words and, with `log_removal`, its log.
    pub(crate) fn finish(self, log_removal: impl FnOnce(&Location)) {
        log_removal(&self.location);
        let _ = self.location.remove(SHARED);
        mapping::unlock(&self.file, LOCK_COMING);
    }

    /// The old index stays.
    pub(crate) fn cancel(self) {
        if !self.is_open {
            remove_unused(&self.location, &self.file);
        }
        mapping::unlock(&self.file, LOCK_COMING);
    }
}

fn pack(identity: Identity) -> u64 {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&identity);
    u64::from_le_bytes(bytes)
}

fn has_writer(path: &Path) -> Error {
    Error::busy(format!(
        "another process is writing {}, or this one opened it for writing twice; there can be one writer at a time: \
         wait until it has closed the index, or open it for reading",
        path.display(),
    ))
}

fn is_open_elsewhere(path: &Path) -> Error {
    Error::busy(format!(
        "{} is open elsewhere, in another process or twice in this one, and would go on with the old file; it can be \
         compacted when it is closed there, or into a new file",
        path.display()
    ))
}

fn not_theirs(path: &Path) -> Error {
    let path = path.display();
    Error::busy(format!(
        "{path} is open in a process that does not share {path}{SHARED}: that file was removed while it was in use, \
         or the index was opened by another name (a hard link, or a bind mount of the file alone); close the index \
         there first"
    ))
}
