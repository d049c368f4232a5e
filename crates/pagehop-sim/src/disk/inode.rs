//! One file: the bytes that processes see, the bytes on the platter, and the pending changes
//! between them.

use std::ops::Range;

use super::image::{BLOCK_BYTES, Image, sectors};
use crate::Rng;

/// A change of a file since the last sync.
#[derive(Clone)]
enum Event {
    Write { offset: u64, bytes: Vec<u8> },
    Length(u64),
}

#[derive(Clone, Default)]
pub(super) struct Inode {
    seen: Image,
    /// The bytes that processes saw when `pending` was last empty. They differ from `platter` after
    /// a sync that failed and dropped its changes.
    clean: Image,
    platter: Image,
    pending: Vec<Event>,
    /// Bytes from the start of the file for which space is reserved, written or not.
    reserved: u64,
}

/// Which pending writes reach the platter. The system may write a sector at any time, always as a
/// whole. So after a crash a sector has the content that it had after any one of its writes.
enum Luck {
    /// All of them, or none.
    All(bool),
    /// The writes before this one, and this one torn.
    Until(usize),
    /// Only this write (`survives`), or all writes except this one.
    Single { event: usize, survives: bool },
    /// Each write with a probability of `chance / 8`. With `torn`, every write happens, but torn.
    Each { chance: usize, torn: bool },
}

impl Luck {
    fn draw(events: usize, rng: &mut Rng) -> Self {
        match rng.below(8) {
            0 => Self::All(false),
            1 => Self::All(true),
            2 | 3 => Self::Until(rng.below(events)),
            4 => Self::Single { event: rng.below(events), survives: rng.one_in(2) },
            5 | 6 => Self::Each { chance: 1 + rng.below(7), torn: false },
            _ => Self::Each { chance: 1 + rng.below(7), torn: true },
        }
    }

    /// Whether the event at position `at` happens, and whether it is torn. Each sector of a torn
    /// write survives with probability 1/2.
    fn of(&self, at: usize, rng: &mut Rng) -> (bool, bool) {
        match *self {
            Self::All(survive) => (survive, false),
            Self::Until(torn) => (at <= torn, at == torn),
            Self::Single { event, survives } => ((at == event) == survives, false),
            Self::Each { chance, torn } => (torn || rng.below(8) < chance, torn),
        }
    }
}

impl Inode {
    pub(super) fn seen(&self) -> &Image {
        &self.seen
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        if end > self.seen.length() {
            self.set_length(end);
        }
        self.seen.write(bytes, offset);
        self.pending.push(Event::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn set_length(&mut self, length: u64) {
        self.reserved = self.reserved.min(length.max(self.seen.length()));
        if length < self.seen.length() {
            self.reserved = self.reserved.min(length);
        }
        self.seen.set_length(length);
        self.pending.push(Event::Length(length));
    }

    pub(super) fn reserve(&mut self, length: u64) {
        if length > self.seen.length() {
            self.set_length(length);
        }
        self.reserved = self.reserved.max(length);
    }

    pub(super) fn used(&self) -> u64 {
        self.seen.used() + self.seen.missing(0..self.reserved) * BLOCK_BYTES as u64
    }

    /// The number of blocks that need space before `bytes` can be written.
    pub(super) fn missing(&self, bytes: Range<u64>) -> u64 {
        self.seen.missing(bytes.start.max(self.reserved)..bytes.end.max(self.reserved))
    }

    pub(super) fn sync(&mut self) {
        let lengths = self.pending.len();
        self.write_out(lengths, &Luck::All(true), &mut Rng::new(0));
        self.clean = self.seen.clone();
        self.pending.clear();
    }

    /// A failed sync: some pending changes reach the platter, and the rest are dropped forever.
    pub(super) fn forget(&mut self, rng: &mut Rng) {
        if !self.pending.is_empty() {
            let luck = Luck::draw(self.pending.len(), rng);
            // All changes of the length survive: they go through the journal of the file system,
            // which did not fail.
            self.write_out(self.pending.len(), &luck, rng);
            self.clean = self.seen.clone();
            self.pending.clear();
        }
    }

    /// Simulates a loss of power: some pending changes reach the platter, and processes then see
    /// the platter.
    pub(super) fn lose_power(&mut self, rng: &mut Rng) {
        if !self.pending.is_empty() {
            let luck = Luck::draw(self.pending.len(), rng);
            let lengths = self.pending.iter().filter(|event| matches!(event, Event::Length(_))).count();
            let survive = match rng.below(4) {
                0 => 0,
                1 | 2 => lengths,
                _ => rng.below(lengths + 1),
            };
            self.write_out(survive, &luck, rng);
            self.pending.clear();
        }
        self.reserved = self.reserved.min(self.platter.length());
        self.seen = self.platter.clone();
        self.clean = self.platter.clone();
    }

    /// Applies to the platter the first `lengths` changes of the length, and the writes that `luck`
    /// selects.
    fn write_out(&mut self, lengths: usize, luck: &Luck, rng: &mut Rng) {
        let (mut cache, mut done) = (self.clean.clone(), 0);
        for (at, event) in self.pending.iter().enumerate() {
            match event {
                Event::Length(length) => {
                    let cuts = *length < cache.length();
                    if done < lengths {
                        self.platter.set_length(*length);
                        done += 1;
                    } else if cuts {
                        // After a truncation, writes go to new blocks. If the truncation is lost,
                        // these writes are lost too.
                        break;
                    }
                    cache.set_length(*length);
                }
                Event::Write { offset, bytes } => {
                    cache.write(bytes, *offset);
                    let (happens, torn) = luck.of(at, rng);
                    for sector in sectors(*offset, bytes.len()).filter(|_| happens) {
                        if !torn || rng.one_in(2) {
                            self.platter.take_sector(&cache, sector);
                        }
                    }
                }
            }
        }
        // Drops blocks after the end.
        self.platter.set_length(self.platter.length());
    }
}
