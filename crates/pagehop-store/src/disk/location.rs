//! The place of an index file, found once, when it is opened.
//!
//! Symbolic links are followed then, and the directory stays open: the files beside the index are
//! always those beside the file that was opened, even if the working directory, links or names
//! change.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The endings of the names beside an index.
pub(crate) const LOG: &str = "-log";
pub(crate) const SHARED: &str = "-shared";

/// File systems whose files other machines may change: magic number of statfs(2), and name.
const NETWORKS: [(u64, &str); 21] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x564c, "NCP"),
    (0x2003_0528, "OrangeFS"),
    (0x1983_0326, "BeeGFS"),
    (0xaad7_aaea, "PanFS"),
    (0x786f_4256, "VirtualBox shared folders"),
    (0xbacb_acbc, "VMware shared folders"),
    (0x7c7c_6673, "Parallels shared folders"),
];

/// An index file's directory, held open, and its name in there.
pub(crate) struct Location {
    directory: OwnedFd,
    name: OsString,
    path: PathBuf,
}

impl Location {
    /// The place of the file that `path` leads to now.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let path = std::fs::canonicalize(path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match rustix::fs::open(parent, flags | OFlags::RDONLY, Mode::empty()) {
            // Files in it can still be opened; only a writer must sync it.
            Err(Errno::ACCESS) => rustix::fs::open(parent, flags | OFlags::PATH, Mode::empty()),
            opened => opened,
        }?;
        Ok(Self { directory, name: name.to_owned(), path })
    }

    /// The absolute path of the index when it was opened, without links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file whose name is that of the index and `ending`.
    pub(crate) fn open(&self, ending: &str, flags: OFlags) -> io::Result<File> {
        let mode = Mode::from_raw_mode(0o666);
        Ok(rustix::fs::openat(&self.directory, self.name_with(ending), flags | OFlags::CLOEXEC, mode)?.into())
    }

    /// Whether `file` has the name of the index and `ending`.
    pub(crate) fn is_named(&self, ending: &str, file: &File) -> io::Result<bool> {
        let mine = file.metadata()?;
        match rustix::fs::statat(&self.directory, self.name_with(ending), AtFlags::empty()) {
            Ok(named) => Ok(named.st_ino == mine.ino() && named.st_dev == mine.dev()),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a regular file has the name.
    pub(crate) fn is_file(&self) -> io::Result<bool> {
        let named = rustix::fs::statat(&self.directory, &self.name, AtFlags::empty())?;
        Ok(FileType::from_raw_mode(named.st_mode) == FileType::RegularFile)
    }

    /// Bytes of the file.
    pub(crate) fn length(&self) -> io::Result<u64> {
        let named = rustix::fs::statat(&self.directory, &self.name, AtFlags::empty())?;
        Ok(named.st_size.try_into().unwrap_or(0))
    }

    /// Removes the name with `ending`; not an error if it is absent.
    pub(crate) fn remove(&self, ending: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.directory, self.name_with(ending), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Makes new and removed names durable.
    pub(crate) fn sync_directory(&self) -> io::Result<()> {
        match rustix::fs::fsync(&self.directory) {
            // Some file systems cannot sync a directory; their names are durable at once or never.
            Err(Errno::INVAL) => Ok(()),
            result => Ok(result?),
        }
    }

    fn name_with(&self, ending: &str) -> OsString {
        let mut name = self.name.clone();
        name.push(ending);
        name
    }
}

/// Whether the two were the same file when they were opened.
pub(crate) fn is_one_file(a: &File, b: &File) -> io::Result<bool> {
    let (a, b) = (a.metadata()?, b.metadata()?);
    Ok(a.ino() == b.ino() && a.dev() == b.dev())
}

/// The name of the network file system that `file` lies on, if it lies on one.
pub(crate) fn network_of(file: &File) -> io::Result<Option<&'static str>> {
    // The type is a signed word of varying width; the magic numbers have 32 bits.
    let kind = rustix::fs::fstatfs(file)?.f_type as u64 & 0xffff_ffff;
    Ok(network_named(kind))
}

fn network_named(kind: u64) -> Option<&'static str> {
    NETWORKS.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        for (kind, name) in [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x6573_5546, "FUSE"), (0xc3_6400, "Ceph")] {
            assert_eq!(network_named(kind), Some(name));
        }
        // ext4, XFS, btrfs, ZFS, tmpfs, overlay.
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x2fc1_2fc1, 0x0102_1994, 0x794c_7630] {
            assert_eq!(network_named(local), None);
        }
        let folder = std::env::current_dir().unwrap();
        println!("this folder lies on {:?}", network_of(&File::open(folder).unwrap()).unwrap());
    }

    #[test]
    fn a_link_leads_to_the_file_and_the_directory_stays() {
        let folder = std::env::temp_dir().join(format!("pagehop-location-{}", std::process::id()));
        let (old, new) = (folder.join("old"), folder.join("new"));
        std::fs::create_dir_all(&old).unwrap();
        std::fs::write(old.join("x"), "x").unwrap();
        std::os::unix::fs::symlink(old.join("x"), folder.join("link")).unwrap();
        let location = Location::of(&folder.join("link")).unwrap();
        assert!(location.path().ends_with("old/x") && location.is_file().unwrap());
        std::fs::rename(&old, &new).unwrap();
        let log = location.open(LOG, OFlags::RDWR | OFlags::CREATE).unwrap();
        assert!(new.join("x-log").exists() && location.is_named(LOG, &log).unwrap());
        location.remove(LOG).unwrap();
        location.remove(LOG).unwrap();
        assert!(!location.is_named(LOG, &log).unwrap());
        location.sync_directory().unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }
}
