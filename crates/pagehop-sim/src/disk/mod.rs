//! A disk in memory that loses power.
//!
//! A file has two contents, one that processes see and one on the platter, and a list of pending
//! writes and length changes between them. At [`SimDisk::crash`] a seed decides which pending
//! changes survive; synced changes always do. [`SimDisk::kill`] only ends a process: the system
//! keeps what was written. Calls fail where a [`Fault`] says so, and space ends at a budget.

mod fault;
mod image;
mod inode;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagehop_store::{Name, Storage, StorageFile};

use crate::Rng;
pub use fault::{CALLS, Call, Fault, Lie, Refusal};
use image::{BLOCK_BYTES, SECTOR_BYTES, sectors};
use inode::Inode;

/// A disk in memory with the two files of one index. A clone is the same disk, used by the same
/// process.
#[derive(Clone)]
pub struct SimDisk {
    machine: Arc<Mutex<Machine>>,
    /// Whether the process of this handle is alive. It counts only while `boot` equals that of the
    /// machine.
    process: Arc<AtomicBool>,
    boot: u64,
}

struct Machine {
    /// The number of losses of power.
    boot: u64,
    rng: Rng,
    inodes: Vec<Inode>,
    /// The names that processes see, and their inodes.
    names: BTreeMap<Name, usize>,
    durable_names: BTreeMap<Name, usize>,
    /// Changes of names since the directory was synced: creations and renamings, which have an
    /// inode, and removals.
    name_changes: Vec<(Name, Option<usize>)>,
    /// Whether `allocate` reserves space or does nothing.
    reserves: bool,
    budget: Option<u64>,
    faults: Vec<Fault>,
    /// The number of calls until everything stops; `None` without a limit.
    calls_left: Option<u64>,
    stopped: bool,
    lie: Lie,
    calls: [u64; CALLS.len()],
    failed: u64,
    trace: u64,
    prints: bool,
}

/// The outcome of a call.
enum Verdict {
    Go,
    /// The process has ended: nothing happens.
    Dead,
    Refuse(Refusal),
}

impl SimDisk {
    /// An empty disk. `seed` determines every random choice.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0xd15c);
        let reserves = rng.one_in(2);
        let machine = Machine {
            boot: 0,
            rng,
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            reserves,
            budget: None,
            faults: Vec::new(),
            calls_left: None,
            stopped: false,
            lie: Lie::None,
            calls: [0; CALLS.len()],
            failed: 0,
            trace: 0xcbf2_9ce4_8422_2325,
            prints: false,
        };
        Self { machine: Arc::new(Mutex::new(machine)), process: Arc::new(AtomicBool::new(true)), boot: 0 }
    }

    /// The same disk, for another process.
    pub fn another_process(&self) -> Self {
        let boot = self.machine().boot;
        Self { machine: Arc::clone(&self.machine), process: Arc::new(AtomicBool::new(true)), boot }
    }

    /// Creates or replaces a file. The change is durable.
    pub fn put(&self, name: Name, bytes: &[u8]) {
        let mut machine = self.machine();
        let mut inode = Inode::default();
        inode.write(bytes, 0);
        inode.sync();
        machine.inodes.push(inode);
        let number = machine.inodes.len() - 1;
        machine.names.insert(name, number);
        machine.durable_names.insert(name, number);
        machine.name_changes.retain(|change| change.0 != name);
    }

    /// Gives the name of an old file to a new one, whose bytes are on the platter, as `rename`
    /// does. Processes that have the old file open keep it. The new name becomes durable with a
    /// sync of the directory.
    ///
    /// # Errors
    ///
    /// A fault; the name then stays with the old file.
    pub fn rename_over(&self, name: Name, bytes: &[u8]) -> io::Result<()> {
        let mut machine = self.machine();
        let alive = self.is_alive(&machine);
        machine.admit(Call::Rename, alive, name, (0, bytes.len() as u64))?;
        let mut inode = Inode::default();
        inode.write(bytes, 0);
        inode.sync();
        machine.inodes.push(inode);
        let number = machine.inodes.len() - 1;
        machine.names.insert(name, number);
        machine.name_changes.push((name, Some(number)));
        Ok(())
    }

    /// The bytes that processes see in a file; `None` if it does not exist.
    pub fn bytes(&self, name: Name) -> Option<Vec<u8>> {
        let machine = self.machine();
        let image = machine.inodes[*machine.names.get(&name)?].seen();
        let mut bytes = vec![0; image.length() as usize];
        image.read(&mut bytes, 0);
        Some(bytes)
    }

    /// Ends this process. Its writes stay, and its open files return errors. `self` becomes the
    /// handle of a new process.
    pub fn kill(&mut self) {
        self.process.store(false, Ordering::Relaxed);
        self.machine().restart();
        *self = self.another_process();
    }

    /// Ends all processes by a loss of power. `seed` decides which of the changes that were not
    /// synced survive. `self` becomes the handle of a new process.
    pub fn crash(&mut self, seed: u64) {
        let mut machine = self.machine();
        let rng = &mut Rng::new(seed ^ 0xc4a5);
        machine.inodes.iter_mut().for_each(|inode| inode.lose_power(rng));
        for name in [Name::Index, Name::Log] {
            // Creations and removals survive in order, as in the journal of a file system.
            let changes: Vec<_> =
                machine.name_changes.iter().filter(|change| change.0 == name).map(|c| c.1).collect();
            let survive = rng.below(changes.len() + 1);
            match changes[..survive].last() {
                Some(Some(inode)) => machine.durable_names.insert(name, *inode),
                Some(None) => machine.durable_names.remove(&name),
                None => None,
            };
        }
        machine.name_changes.clear();
        machine.names = machine.durable_names.clone();
        machine.boot += 1;
        machine.restart();
        drop(machine);
        *self = self.another_process();
    }

    /// Lets `calls` more calls succeed. All later calls fail until [`SimDisk::kill`] or
    /// [`SimDisk::crash`].
    pub fn stop_after(&self, calls: u64) {
        self.machine().calls_left = Some(calls);
    }

    /// Whether everything has stopped.
    pub fn is_stopped(&self) -> bool {
        self.machine().stopped
    }

    /// Adds a fault.
    pub fn fail(&self, fault: Fault) {
        self.machine().faults.push(fault);
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.machine().faults.clear();
    }

    /// Limits the space of all files together to `bytes`; `None` for no limit.
    pub fn set_budget(&self, bytes: Option<u64>) {
        self.machine().budget = bytes;
    }

    /// The space that the files take, in bytes.
    pub fn used(&self) -> u64 {
        self.machine().used()
    }

    /// Sets the bug that the disk simulates from now on.
    pub fn lie(&self, lie: Lie) {
        self.machine().lie = lie;
    }

    /// The number of calls of one kind so far.
    pub fn calls(&self, call: Call) -> u64 {
        self.machine().calls[call as usize]
    }

    /// The number of calls so far that failed because of a fault or the budget.
    pub fn failed(&self) -> u64 {
        self.machine().failed
    }

    /// Prints every call from now on.
    pub fn print_calls(&self) {
        self.machine().prints = true;
    }

    /// A hash of all calls so far, with their offsets and lengths.
    pub fn trace(&self) -> u64 {
        self.machine().trace
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_alive(&self, machine: &Machine) -> bool {
        self.process.load(Ordering::Relaxed) && self.boot == machine.boot
    }
}

impl Machine {
    fn restart(&mut self) {
        self.calls_left = None;
        self.stopped = false;
    }

    fn used(&self) -> u64 {
        self.names.values().map(|number| self.inodes[*number].used()).sum()
    }

    /// Counts a call, adds it to the trace, and decides its outcome.
    fn judge(&mut self, call: Call, alive: bool, name: Name, place: (u64, u64)) -> Verdict {
        if !alive || self.stopped {
            return Verdict::Dead;
        }
        self.calls[call as usize] += 1;
        if self.prints {
            println!("         {name:?} {call:?} {} {}", place.0, place.1);
        }
        for word in [call as u64, name as u64, place.0, place.1] {
            self.trace = (self.trace ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
        if let Some(left) = &mut self.calls_left {
            if *left == 0 {
                self.stopped = true;
                return Verdict::Refuse(Refusal::Io);
            }
            *left -= 1;
        }
        for at in 0..self.faults.len() {
            let fault = &mut self.faults[at];
            if !fault.calls.contains(&call) {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
                continue;
            }
            let refusal = fault.refusal;
            if fault.once {
                self.faults.remove(at);
            }
            self.failed += 1;
            return Verdict::Refuse(refusal);
        }
        Verdict::Go
    }

    /// Like [`Machine::judge`], for calls that succeed or fail as a whole.
    fn admit(&mut self, call: Call, alive: bool, name: Name, place: (u64, u64)) -> io::Result<()> {
        match self.judge(call, alive, name, place) {
            Verdict::Go => Ok(()),
            Verdict::Dead => Err(Refusal::Io.error()),
            Verdict::Refuse(refusal) => Err(refusal.error()),
        }
    }

    /// How many of the `bytes` bytes at `offset` can be written before the space ends.
    fn room(&self, inode: usize, offset: u64, bytes: u64) -> u64 {
        let Some(budget) = self.budget else { return bytes };
        let free = budget.saturating_sub(self.used()) / BLOCK_BYTES as u64;
        let mut end = offset + bytes;
        while end > offset && self.inodes[inode].missing(offset..end) > free {
            end = (end - 1) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        }
        end.saturating_sub(offset)
    }
}

impl Storage for SimDisk {
    fn open(&self, name: Name, create: bool) -> io::Result<Option<Arc<dyn StorageFile>>> {
        let mut machine = self.machine();
        let alive = self.is_alive(&machine);
        machine.admit(Call::Open, alive, name, (0, u64::from(create)))?;
        let inode = match machine.names.get(&name) {
            Some(inode) => *inode,
            None if !create => return Ok(None),
            None => {
                machine.inodes.push(Inode::default());
                let inode = machine.inodes.len() - 1;
                machine.names.insert(name, inode);
                machine.name_changes.push((name, Some(inode)));
                inode
            }
        };
        Ok(Some(Arc::new(SimFile { disk: self.clone(), name, inode })))
    }

    fn remove(&self, name: Name) -> io::Result<()> {
        let mut machine = self.machine();
        let alive = self.is_alive(&machine);
        machine.admit(Call::Remove, alive, name, (0, 0))?;
        if machine.names.remove(&name).is_some() {
            machine.name_changes.push((name, None));
        }
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut machine = self.machine();
        let alive = self.is_alive(&machine);
        machine.admit(Call::SyncDirectory, alive, Name::Index, (0, 0))?;
        machine.durable_names = machine.names.clone();
        machine.name_changes.clear();
        Ok(())
    }
}

/// An open file.
struct SimFile {
    disk: SimDisk,
    name: Name,
    inode: usize,
}

impl SimFile {
    /// The machine if `call` succeeds.
    fn admit(&self, call: Call, place: (u64, u64)) -> io::Result<MutexGuard<'_, Machine>> {
        let mut machine = self.disk.machine();
        let alive = self.disk.is_alive(&machine);
        machine.admit(call, alive, self.name, place)?;
        Ok(machine)
    }
}

impl StorageFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut machine = self.disk.machine();
        let place = (offset, buffer.len() as u64);
        let alive = self.disk.is_alive(&machine);
        let wanted = match machine.judge(Call::Read, alive, self.name, place) {
            Verdict::Go => buffer.len(),
            Verdict::Refuse(Refusal::Short) => machine.rng.below(buffer.len() + 1),
            Verdict::Dead => return Err(Refusal::Io.error()),
            Verdict::Refuse(refusal) => return Err(refusal.error()),
        };
        Ok(machine.inodes[self.inode].seen().read(&mut buffer[..wanted], offset))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut machine = self.disk.machine();
        let place = (offset, bytes.len() as u64);
        let alive = self.disk.is_alive(&machine);
        let refusal = match machine.judge(Call::Write, alive, self.name, place) {
            Verdict::Go => None,
            Verdict::Dead => return Err(Refusal::Io.error()),
            Verdict::Refuse(refusal) => Some(refusal),
        };
        if let Lie::LogWrites { from, to } = machine.lie
            && self.name == Name::Log
            && (from..to).contains(&offset)
        {
            return Ok(());
        }
        // A failed write may have written a part of its bytes, up to the end of a sector.
        let wanted = match refusal {
            Some(_) => {
                let sectors = sectors(offset, bytes.len());
                let some = sectors.start + machine.rng.below((sectors.end - sectors.start) as usize + 1) as u64;
                (some * SECTOR_BYTES as u64).clamp(offset, offset + place.1) - offset
            }
            None => place.1,
        };
        let room = machine.room(self.inode, offset, wanted);
        machine.inodes[self.inode].write(&bytes[..room as usize], offset);
        match refusal {
            Some(refusal) => Err(refusal.error()),
            None if room < wanted => {
                machine.failed += 1;
                Err(Refusal::NoSpace.error())
            }
            None => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut machine = self.disk.machine();
        let alive = self.disk.is_alive(&machine);
        let verdict = machine.judge(Call::Sync, alive, self.name, (0, 0));
        let lies = match machine.lie {
            Lie::LogSync => self.name == Name::Log,
            Lie::IndexSync => self.name == Name::Index,
            _ => false,
        };
        let Machine { inodes, rng, .. } = &mut *machine;
        match verdict {
            Verdict::Go if lies => Ok(()),
            Verdict::Go => {
                inodes[self.inode].sync();
                Ok(())
            }
            Verdict::Dead => Err(Refusal::Io.error()),
            Verdict::Refuse(refusal) => {
                if refusal == Refusal::Forgotten {
                    inodes[self.inode].forget(rng);
                }
                Err(refusal.error())
            }
        }
    }

    fn length(&self) -> io::Result<u64> {
        let machine = self.admit(Call::Length, (0, 0))?;
        Ok(machine.inodes[self.inode].seen().length())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut machine = self.admit(Call::SetLength, (length, 0))?;
        machine.inodes[self.inode].set_length(length);
        Ok(())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let mut machine = self.admit(Call::Allocate, (length, 0))?;
        if !machine.reserves {
            return Ok(());
        }
        if machine.room(self.inode, 0, length) < length {
            return Err(Refusal::NoSpace.error());
        }
        machine.inodes[self.inode].reserve(length);
        Ok(())
    }
}
