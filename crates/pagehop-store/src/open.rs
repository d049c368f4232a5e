//! Opening an index file: find it, join the processes that have it open, read its log.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use pagehop_engine::{Error, PageId};
use rustix::fs::OFlags;

use crate::cache::budget::{Budget, has_room_beside};
use crate::cache::pool::Pool;
use crate::cache::uring::Ring;
use crate::disk::base_file::{BaseFile, PageBuffer};
use crate::disk::location::{LOG, Location, SHARED, is_one_file, network_of};
use crate::disk::storage::{Name, NoFiles, OsStorage, Storage, StorageFile};
use crate::log::found::{Found, settle};
use crate::log::log_file::Log;
use crate::log::recover::{Recovered, recover};
use crate::log::versions::{News, Versions};
use crate::options::{Io, OpenOptions};
use crate::process::attach::{self, Attached};
use crate::process::locks::IndexLocks;
use crate::process::shared_words::Shared;
use crate::read_side::ReadSide;
use crate::writer::Writer;

/// The parts of an open index.
pub(crate) struct Opened {
    pub(crate) read: ReadSide,
    pub(crate) writer: Option<Writer>,
}

/// An index that was found and joined, and is being opened.
struct Opening {
    file: BaseFile,
    storage: Arc<dyn Storage>,
    shared: Box<Shared>,
    /// Whether no other process has the index open.
    first: bool,
    /// Whether commits of other processes are not announced.
    solitary: bool,
}

/// Opens the file that `path` leads to now. The name is looked up once; from then on, only the file
/// is used.
pub(crate) fn open_file(path: &Path, options: &OpenOptions) -> Result<Opened, Error> {
    let refused = |error| Error::io(format!("cannot open {}", path.display()), error);
    loop {
        let location = Arc::new(Location::of(path).map_err(refused)?);
        if !location.is_file().map_err(refused)? {
            let what = format!("{} is not a file", path.display());
            return Err(Error::Format { what });
        }
        // This comes before the base: on an overlay, opening the file for writing may copy it.
        let for_writing = options.write.then(|| open_for_writing(&location)).transpose()?;
        let is_direct = match options.direct {
            Some(is_direct) => is_direct,
            None => is_direct_better(options, location.length().map_err(refused)?),
        };
        let base = BaseFile::open(&location, is_direct).map_err(refused)?;
        let file = base.os().expect("it was opened so");
        let found = Found::in_file(&base)?;
        if found.position.is_none() && location.open(LOG, OFlags::RDONLY).is_err() {
            // No log can make page 0 whole.
            base.read(PageId(0), &mut PageBuffer::new().0)?;
        }
        let index = for_writing.map_or_else(|| file.try_clone(), Ok).map_err(refused)?;
        if !is_one_file(file, &index).map_err(refused)? {
            continue;
        }
        let locks = || index.try_clone().map(IndexLocks::on);
        let attached = match network_of(file).map_err(refused)? {
            Some(_) => Attached::Refused(io::ErrorKind::Unsupported.into()),
            None => attach::attach(&location, locks, found.identity, options.write)?,
        };
        let (shared, first, solitary) = match attached {
            Attached::Joined { shared, first } => (shared, first, false),
            Attached::Replaced => continue,
            Attached::Refused(error) if options.write => {
                let path = location.path().display();
                let what = format!(
                    "cannot open {path} for writing: a writer makes {path}{SHARED} beside it and locks both; check \
                     the permissions of the folder"
                );
                return Err(Error::io(what, error));
            }
            Attached::Refused(_) => (private(path)?, true, true),
        };
        let storage = Arc::new(OsStorage::new(location, index, options.write));
        return Opening { file: base, storage, shared, first, solitary }.finish(options);
    }
}

/// Whether reads by rings are wanted, where the system allows them.
fn wants_rings(io: Io) -> bool {
    match io {
        Io::Auto => std::env::var_os("PAGEHOP_IO").is_none_or(|io| io != "pread"),
        Io::Uring => true,
        Io::Pread => false,
    }
}

/// Whether to read a file of that many bytes past the page cache, if the options do not say. Beside
/// the cache that they name, the page cache may have room for the file. Without rings, pages are
/// read ahead only by the system, which reads them into its page cache
/// ([`BaseFile::advise`]): past it, a search would wait for one page after the other.
fn is_direct_better(options: &OpenOptions, file_bytes: u64) -> bool {
    !has_room_beside(options.cache_bytes, file_bytes) && wants_rings(options.io) && Ring::is_allowed()
}

/// Opens the index for writing, if its file system is safe for that.
fn open_for_writing(location: &Location) -> Result<File, Error> {
    let path = location.path().display();
    let refused = |error| Error::io(format!("cannot open {path} for writing"), error);
    let index = location.open("", OFlags::RDWR).map_err(refused)?;
    if let Some(network) = network_of(&index).map_err(refused)? {
        return Err(Error::argument(format!(
            "{path} lies on a network file system ({network}): writers on several machines would not see each other, \
             so it can be opened only for reading; copy it to a local disk to change it"
        )));
    }
    let links = index.metadata().map_err(refused)?.nlink();
    if links > 1 {
        return Err(Error::argument(format!(
            "{path} has {links} names (hard links): opened by another of them, it would have another log; remove all \
             but one, or copy the file, to change it"
        )));
    }
    Ok(index)
}

/// Opens the index in `file`, which no other process knows, to read it. Errors call it `name`.
pub(crate) fn open_unfinished(file: &File, name: &Path, cache_bytes: u64) -> Result<Opened, Error> {
    let base = BaseFile::reopened(file, name)
        .map_err(|error| Error::io(format!("cannot open what was written for {}", name.display()), error))?;
    let options = OpenOptions { cache_bytes, ..OpenOptions::default() };
    let (storage, shared) = (Arc::new(NoFiles), private(name)?);
    Opening { file: base, storage, shared, first: true, solitary: true }.finish(&options)
}

/// Opens the index in `storage`, which nothing else has open.
pub(crate) fn open_storage(storage: Arc<dyn Storage>, options: &OpenOptions) -> Result<Opened, Error> {
    let name = "the index";
    let opened = storage.open(Name::Index, false).and_then(|file| file.ok_or(io::ErrorKind::NotFound.into()));
    let file = opened.map_err(|error| Error::io(format!("cannot open {name}"), error))?;
    let file = BaseFile::of_storage(file, name);
    let shared = private(Path::new(name))?;
    Opening { file, storage, shared, first: true, solitary: false }.finish(options)
}

impl Opening {
    /// Reads the log, if that is the task of this process, and lets others in.
    fn finish(self, options: &OpenOptions) -> Result<Opened, Error> {
        let Self { file, storage, shared, first, solitary } = self;
        let path = file.path().to_path_buf();
        let log = Log::new(Arc::clone(&storage), format!("{}{LOG}", path.display()));
        let mut writer = None;
        let found = if first || options.write {
            let (found, recovered) = recover(|| Found::in_file(&file), &log, &shared)?;
            recovered.show(&shared);
            if options.write {
                writer = Some(open_writer(&*storage, &file, &log, &found, recovered, options)?);
            }
            found
        } else {
            Found::in_file(&file)?
        };
        let page_count = shared.page_count();
        shared
            .cover(page_count, false)
            .map_err(|error| Error::io(format!("memory for the table of changes of {}", path.display()), error))?;
        let budget = Budget::new(options.cache_bytes, page_count);
        let pool = Pool::new(page_count, budget.bytes)
            .map_err(|error| Error::io(format!("memory for the cache of {}", path.display()), error))?;
        if writer.is_some() {
            pool.expect_changes();
        }
        if options.io == Io::Uring {
            Ring::new(pool.frames())
                .map_err(|error| Error::io(format!("io_uring for {}", path.display()), error))?;
        }
        attach::let_others_in(&shared);
        let uring = wants_rings(options.io) && file.os().is_some();
        let news = match &writer {
            Some(_) => News::Own,
            None if solitary => News::None,
            None => News::Shared,
        };
        let versions = Versions { base: file, log, identity: found.identity, shared, news };
        if found.position.is_none() {
            // A checkpoint may have torn page 0, or be writing it. If it cannot be made whole, it
            // is damaged.
            versions.read_newest(0, &mut PageBuffer::new().0)?;
        }
        Ok(Opened { read: ReadSide::new(pool, budget, versions, uring), writer })
    }
}

/// Opens the files that a writer needs, and cuts off the unfinished end of the log.
fn open_writer(
    storage: &dyn Storage,
    base: &BaseFile,
    log: &Log,
    found: &Found,
    recovered: Recovered,
    options: &OpenOptions,
) -> Result<Writer, Error> {
    let name = &found.name;
    let refused = |error| Error::io(format!("cannot open {name} for writing"), error);
    let index = storage.open(Name::Index, false).map_err(refused)?;
    let index = index.ok_or_else(|| refused(io::ErrorKind::NotFound.into()))?;
    if let Some(header) = &recovered.header {
        // Bytes behind the last whole block are those of a failed commit, and must not follow the
        // next one.
        let (file, end) = (log.existing()?, header.offset(recovered.end.lsn));
        let cut = file.length().and_then(|length| if length > end { file.set_length(end) } else { Ok(()) });
        // After a failed sync, bytes may be in the system's memory only, but be marked as written.
        // So they are written again. The name of the file may not be durable either.
        cut.and_then(|()| rewrite(&*file, end)).map_err(|error| log.refused("repair", error))?;
        storage.sync_directory().map_err(|error| log.refused("repair", error))?;
    }
    if found.position.is_some() && log.file()?.is_some() {
        // The order matters: after the log, which page 0 may name, and before the log is replaced,
        // if page 0 names none.
        settle(base, &*index)?;
    }
    let base_position = found.position.unwrap_or(0);
    let base_position = recovered.header.as_ref().map_or(base_position, |header| header.base_position);
    Ok(Writer::new(index, recovered, base_position, options))
}

/// Writes the first `end` bytes of a file over themselves, durably.
fn rewrite(file: &dyn StorageFile, end: u64) -> io::Result<()> {
    let mut piece = vec![0; 1 << 20];
    let mut at = 0;
    while at < end {
        let wanted = piece.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let have = file.read_at(&mut piece[..wanted], at)?;
        if have == 0 {
            break;
        }
        file.write_all_at(&piece[..have], at)?;
        at += have as u64;
    }
    file.sync()
}

fn private(path: &Path) -> Result<Box<Shared>, Error> {
    let shared = Shared::private()
        .map_err(|error| Error::io(format!("memory for the table of changes of {}", path.display()), error))?;
    Ok(Box::new(shared))
}
