//! What a connected partition gives: the edges of its own rows, and letters to the homes of its
//! guests. A host may keep it, so that a build that is killed goes on after the last partition that
//! was finished.
//!
//! ```text
//! number, own rows, guests
//! for each own row   row, count, edges
//! for each guest     row, count, keys of two words each
//! ```
//!
//! All are words of 32 bits. Bytes that a host brings back are tested: their rows are rows of the
//! build, in the partitions that the build gave them.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::files::LetterFile;
use super::route::Partitions;
use crate::Error;
use crate::graph::{Adjacency, key_distance};
use crate::index::build::job::Job;
use crate::quantize::codes::Codes;

/// Changes whenever the same rows are connected in another way.
const VERSION: u32 = 1;
const HEAD_WORDS: usize = 3;

/// Identifies a build by a hash of the input of its partitions: if partitions differ, so do the
/// keys.
pub(super) struct Key(DefaultHasher);

impl Key {
    pub(super) fn of(job: &Job<'_>, centers: &Codes, filled_sq: Option<f32>) -> Self {
        let mut hasher = DefaultHasher::new();
        (VERSION, env!("CARGO_PKG_VERSION"), job.layout.degree, job.options.seed).hash(&mut hasher);
        filled_sq.map(f32::to_bits).hash(&mut hasher);
        let mut key = Self(hasher);
        key.add(centers);
        key
    }

    /// Adds the codes of rows.
    pub(super) fn add(&mut self, codes: &Codes) {
        for row in 0..codes.len() {
            let own = codes.own[row];
            self.0.write_u64(u64::from(own.step.to_bits()) << 32 | u64::from(own.norm_sq.to_bits()));
            self.0.write(bytemuck::cast_slice(codes.hi(row)));
        }
    }

    /// The key of rows in these partitions.
    pub(super) fn finish(mut self, firsts: &[u32], partitions: &Partitions) -> u64 {
        (firsts, partitions.count, &partitions.home, &partitions.visited).hash(&mut self.0);
        self.0.finish()
    }
}

/// A connected partition.
pub(super) struct Finished {
    words: Vec<u32>,
}

impl Finished {
    /// A partition without rows yet.
    pub(super) fn new(number: usize, own: usize, guests: usize) -> Self {
        Self { words: vec![number as u32, own as u32, guests as u32] }
    }

    /// Adds an own row.
    pub(super) fn push_own(&mut self, row: u32, edges: impl ExactSizeIterator<Item = u32>) {
        self.words.extend([row, edges.len() as u32]);
        self.words.extend(edges);
    }

    /// Adds a guest, after all own rows, with the keys of the edges that it is offered.
    pub(super) fn push_guest(&mut self, row: u32, keys: impl ExactSizeIterator<Item = u64>) {
        self.words.extend([row, keys.len() as u32]);
        self.words.extend(keys.flat_map(|key| [key as u32, (key >> 32) as u32]));
    }

    /// The bytes that a host keeps.
    pub(super) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// Reads bytes that a host kept. `None` if they cannot be those of partition `number`.
    pub(super) fn read(bytes: &[u8], number: usize, partitions: &Partitions, degree: usize) -> Option<Self> {
        if !bytes.len().is_multiple_of(4) {
            return None;
        }
        let mut words = vec![0; bytes.len() / 4];
        bytemuck::cast_slice_mut(&mut words).copy_from_slice(bytes);
        let finished = Self { words };
        let (total, mut rows) = (partitions.home.len(), 0);
        let is_sound = finished.each(&mut |row, is_own, words| {
            rows += 1;
            let is_here = partitions.home.get(row as usize).is_some_and(|home| usize::from(*home) == number);
            let is_row = |id: u32| (id as usize) < total;
            let is_edge =
                |[id, length]: &[u32; 2]| is_row(*id) && key_distance(u64::from(*length) << 32).is_finite();
            let is_sound = match is_own {
                true => words.len() <= degree && words.iter().all(|id| is_row(*id)),
                false => words.len() <= 2 * degree && words.as_chunks().0.iter().all(is_edge),
            };
            is_here == is_own && is_row(row) && is_sound
        });
        let [at, own, guests, ..] = finished.words[..] else { return None };
        let all = u64::from(own) + u64::from(guests);
        (is_sound && at as usize == number && rows == all).then_some(finished)
    }

    /// Puts edges into the graph, and letters into the files of their partitions.
    pub(super) fn apply(
        &self,
        partitions: &Partitions,
        graph: &mut Adjacency,
        letters: &mut [LetterFile],
    ) -> Result<(), Error> {
        let (mut keys, mut sent) = (Vec::new(), Ok(()));
        self.each(&mut |row, is_own, words| {
            if is_own {
                graph.set(row as usize, words);
                return true;
            }
            keys.clear();
            keys.extend(words.as_chunks().0.iter().map(|[low, high]| u64::from(*high) << 32 | u64::from(*low)));
            sent = letters[usize::from(partitions.home[row as usize])].push(row, &keys);
            sent.is_ok()
        });
        sent
    }

    /// Passes each row to `take`, with whether it is an own row, and its words, until `take`
    /// returns `false`. Returns whether all rows were passed.
    fn each(&self, take: &mut dyn FnMut(u32, bool, &[u32]) -> bool) -> bool {
        let Some((head, mut left)) = self.words.split_at_checked(HEAD_WORDS) else { return false };
        let mut own = head[1];
        while let [row, count, rest @ ..] = left {
            let is_own = own > 0;
            own -= u32::from(is_own);
            let words = u64::from(*count) * if is_own { 1 } else { 2 };
            let Some((words, rest)) = rest.split_at_checked(words as usize) else { return false };
            if !take(*row, is_own, words) {
                return false;
            }
            left = rest;
        }
        left.is_empty()
    }
}
