//! Temporary files of a build, which are PostgreSQL's own: they lie in `temp_tablespaces`, count
//! against `temp_file_limit`, and are gone when the transaction ends, or after a crash when the
//! server starts.
//!
//! A file that cannot be written raises PostgreSQL's error. The error unwinds through the engine,
//! whose other threads do not run while it uses a file. So signals stay blocked here.

use std::ffi::{CString, c_int, c_void};
use std::mem::MaybeUninit;

use pagehop_engine::{Error, Scratch, ScratchFile};
use pgrx::pg_sys;

/// Largest number of temporary tablespaces that are used.
const TABLESPACES_MAX: usize = 64;

/// A file that is written from its beginning to its end, then read.
pub(crate) struct TempFile(*mut pg_sys::BufFile);

impl TempFile {
    /// An empty file. The current memory context lives as long as the file.
    pub(crate) fn create() -> Self {
        // SAFETY: the file belongs to the transaction's resource owner, which outlives builds.
        Self(unsafe { pg_sys::BufFileCreateTemp(false) })
    }

    /// Writes bytes after those that were written or read last.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let from: *const c_void = bytes.as_ptr().cast();
        // SAFETY: the file is open, and the slice has this many bytes.
        unsafe { pg_sys::BufFileWrite(self.0, from, bytes.len()) }
    }

    /// Moves to byte `at`; `false` if the file ends before it.
    pub(crate) fn seek(&mut self, at: u64) -> bool {
        // SAFETY: the file is open, and a position that it does not have is refused.
        unsafe { pg_sys::BufFileSeek(self.0, 0, at as pg_sys::off_t, libc::SEEK_SET) == 0 }
    }

    /// Fills `bytes` with the next bytes of the file, which must have been written.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) {
        let to: *mut c_void = bytes.as_mut_ptr().cast();
        // SAFETY: the file is open, and the slice has room for this many bytes.
        unsafe { pg_sys::BufFileReadExact(self.0, to, bytes.len()) }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // An error that unwinds leaves the file to the resource owner.
        if !std::thread::panicking() {
            // SAFETY: the file is open: nothing else closes it.
            unsafe { pg_sys::BufFileClose(self.0) };
        }
    }
}

impl ScratchFile for TempFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Self::append(self, bytes);
        Ok(())
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), Error> {
        if !self.seek(at) {
            return Err(Error::io("read of a temporary file", std::io::ErrorKind::UnexpectedEof.into()));
        }
        Self::read(self, bytes);
        Ok(())
    }
}

/// Makes the scratch files of a build.
pub(crate) struct TempFiles {
    /// The folders of new files, which are used in turns.
    places: Vec<CString>,
    /// The folder of the index.
    index_place: CString,
    /// Bytes that `temp_file_limit` leaves, if an error because of it must be avoided.
    limit: Option<u64>,
}

impl TempFiles {
    /// The temporary files of a build of `index`.
    ///
    /// # Safety
    ///
    /// `index` is open.
    pub(crate) unsafe fn of(index: pg_sys::Relation) -> Self {
        // SAFETY: the caller keeps the index open.
        let index_place = folder(unsafe { (*index).rd_locator.spcOid });
        Self { places: temp_tablespaces().into_iter().map(folder).collect(), index_place, limit: None }
    }

    /// From now on, free space is also limited by `temp_file_limit`, of which this transaction has
    /// used `used` bytes.
    pub(crate) fn keep_to_limit(&mut self, used: u64) {
        // SAFETY: a setting of this backend, in kilobytes, or -1.
        let limit = u64::try_from(unsafe { pg_sys::temp_file_limit });
        self.limit = limit.ok().map(|kilobytes| (kilobytes << 10).saturating_sub(used));
    }

    /// Bytes that the disks have for new files, if the system reports it.
    fn on_disk(&self) -> Option<u64> {
        // Each place takes an equal share, and several may be on one file system.
        let of = |place: &CString| {
            let shares = self.places.iter().filter(|other| device(other) == device(place)).count() as u64;
            Some((free_bytes(place)? / shares).saturating_mul(self.places.len() as u64))
        };
        self.places.iter().map(of).min()?
    }
}

impl Scratch for TempFiles {
    fn file(&self) -> Result<Box<dyn ScratchFile>, Error> {
        Ok(Box::new(TempFile::create()))
    }

    fn free_bytes(&self) -> Option<u64> {
        self.on_disk().into_iter().chain(self.limit).min()
    }

    /// Pages do not count against `temp_file_limit`. If that limit is lower than the free space of
    /// the disk, the space for pages is checked by itself.
    fn has_pages(&self) -> bool {
        let is_limited = self.limit.is_some_and(|limit| self.on_disk().is_none_or(|disk| limit < disk));
        !is_limited && self.places.iter().all(|place| device(place) == device(&self.index_place))
    }

    fn free_page_bytes(&self) -> Option<u64> {
        free_bytes(&self.index_place)
    }
}

/// Bytes that files in a folder can take, if the system reports it.
fn free_bytes(folder: &CString) -> Option<u64> {
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero, and the call fills in what it returns 0 for.
    let found = unsafe { (libc::statvfs(folder.as_ptr(), found.as_mut_ptr()) == 0).then(|| found.assume_init())? };
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The tablespaces of new temporary files.
fn temp_tablespaces() -> Vec<pg_sys::Oid> {
    let mut spaces = [pg_sys::InvalidOid; TABLESPACES_MAX];
    // SAFETY: the transaction is there, the array has that much room, and the last is a value of
    // this backend.
    unsafe {
        pg_sys::PrepareTempTablespaces();
        let count = pg_sys::GetTempTablespaces(spaces.as_mut_ptr(), TABLESPACES_MAX as c_int);
        // InvalidOid stands for the database's own tablespace.
        let named =
            |space: pg_sys::Oid| if space == pg_sys::InvalidOid { pg_sys::MyDatabaseTableSpace } else { space };
        spaces[..count.max(1) as usize].iter().map(|space| named(*space)).collect()
    }
}

/// The folder of a tablespace, from the server's working directory.
fn folder(tablespace: pg_sys::Oid) -> CString {
    let path = match tablespace {
        pg_sys::DEFAULTTABLESPACE_OID | pg_sys::GLOBALTABLESPACE_OID => "base".to_string(),
        other => format!("pg_tblspc/{}", other.to_u32()),
    };
    CString::new(path).expect("the path has no zero byte")
}

/// The file system of a folder.
fn device(folder: &CString) -> Option<u64> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path ends with a zero, and the call fills in what it returns 0 for.
    unsafe { (libc::stat(folder.as_ptr(), found.as_mut_ptr()) == 0).then(|| found.assume_init().st_dev) }
}
