//! Files in memory that fail when a test asks for it. When the power is lost, they lose or tear
//! what was not synced.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use pagehop_store::{Name, Storage, StorageFile};

use super::Random;

/// Bytes of a sector. A loss of power keeps or loses a sector as a whole.
const SECTOR: usize = 512;

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    /// The bytes that are on the disk in any case.
    durable: Vec<u8>,
    /// The changes since the last sync, in their order.
    pending: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, mut survives: impl FnMut() -> bool) {
        match self {
            Self::Length(length) if survives() => bytes.resize(*length, 0),
            Self::Length(_) => {}
            Self::Write(offset, written) => {
                for (number, piece) in written.chunks(SECTOR).enumerate() {
                    if survives() {
                        let start = offset + number * SECTOR;
                        if bytes.len() < start + piece.len() {
                            bytes.resize(start + piece.len(), 0);
                        }
                        bytes[start..start + piece.len()].copy_from_slice(piece);
                    }
                }
            }
        }
    }
}

#[derive(Default)]
struct Disk {
    files: BTreeMap<Name, Content>,
    /// The number of changes that still succeed; `None` without a limit.
    changes_left: Option<u64>,
    /// Most bytes of all files together; `None` without a limit.
    space: Option<usize>,
    sync_fails: bool,
    changes: u64,
}

/// A directory with an index and a log, in memory.
#[derive(Clone, Default)]
pub(crate) struct MemStorage(Arc<Mutex<Disk>>);

impl MemStorage {
    /// Lets this number of writes, syncs and other changes succeed. All later ones fail.
    pub(crate) fn power_off_after(&self, changes: Option<u64>) {
        self.0.lock().unwrap().changes_left = changes;
    }

    pub(crate) fn limit_space(&self, bytes: Option<usize>) {
        self.0.lock().unwrap().space = bytes;
    }

    pub(crate) fn fail_syncs(&self, fail: bool) {
        self.0.lock().unwrap().sync_fails = fail;
    }

    /// The number of writes, syncs and other changes so far.
    pub(crate) fn changes(&self) -> u64 {
        self.0.lock().unwrap().changes
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().unwrap().files.values().map(|file| file.now.len()).sum()
    }

    /// The bytes that a file has now; `None` if it does not exist.
    pub(crate) fn content(&self, name: Name) -> Option<Vec<u8>> {
        self.0.lock().unwrap().files.get(&name).map(|file| file.now.clone())
    }

    /// Another storage with these files.
    pub(crate) fn with(files: impl IntoIterator<Item = (Name, Vec<u8>)>) -> Self {
        let storage = Self::default();
        for (name, now) in files {
            let content = Content { durable: now.clone(), now, pending: Vec::new() };
            storage.0.lock().unwrap().files.insert(name, content);
        }
        storage
    }

    /// The storage after a loss of power: any sectors of what was not synced survive.
    pub(crate) fn after_a_loss_of_power(&self, random: &mut Random) -> Self {
        let disk = self.0.lock().unwrap();
        let share = random.below(5);
        let files = disk.files.iter().map(|(&name, file)| {
            let mut bytes = file.durable.clone();
            for change in &file.pending {
                change.apply(&mut bytes, || random.below(4) < share);
            }
            (name, bytes)
        });
        Self::with(files.collect::<Vec<_>>())
    }
}

impl Disk {
    fn change(&mut self) -> io::Result<()> {
        if let Some(left) = &mut self.changes_left {
            *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the power is off"))?;
        }
        self.changes += 1;
        Ok(())
    }
}

impl Storage for MemStorage {
    fn open(&self, name: Name, create: bool) -> io::Result<Option<Arc<dyn StorageFile>>> {
        let mut disk = self.0.lock().unwrap();
        if !disk.files.contains_key(&name) {
            if !create {
                return Ok(None);
            }
            disk.change()?;
            disk.files.insert(name, Content::default());
        }
        drop(disk);
        Ok(Some(Arc::new(MemFile { disk: Arc::clone(&self.0), name })))
    }

    fn remove(&self, name: Name) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.change()?;
        disk.files.remove(&name);
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.0.lock().unwrap().change()
    }
}

struct MemFile {
    disk: Arc<Mutex<Disk>>,
    name: Name,
}

impl MemFile {
    /// Changes the file, which then has at least `length` bytes.
    fn change(&self, length: usize, change: impl FnOnce(&mut Content)) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap();
        disk.change()?;
        let used: usize = disk.files.values().map(|file| file.now.len()).sum();
        let more = length.saturating_sub(disk.files[&self.name].now.len());
        if more > 0 && disk.space.is_some_and(|space| used + more > space) {
            return Err(io::Error::from_raw_os_error(28));
        }
        change(disk.files.get_mut(&self.name).expect("it was opened"));
        Ok(())
    }
}

impl StorageFile for MemFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = self.disk.lock().unwrap();
        let bytes = &disk.files[&self.name].now;
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let change = Change::Write(offset as usize, bytes.to_vec());
        self.change(offset as usize + bytes.len(), |content| {
            change.apply(&mut content.now, || true);
            content.pending.push(change);
        })
    }

    fn sync(&self) -> io::Result<()> {
        if self.disk.lock().unwrap().sync_fails {
            return Err(io::Error::other("the disk does not answer"));
        }
        self.change(0, |content| {
            for change in content.pending.drain(..) {
                change.apply(&mut content.durable, || true);
            }
        })
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.lock().unwrap().files[&self.name].now.len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.change(length as usize, |content| {
            content.now.resize(length as usize, 0);
            content.pending.push(Change::Length(length as usize));
        })
    }

    fn allocate(&self, _length: u64) -> io::Result<()> {
        Ok(())
    }
}
