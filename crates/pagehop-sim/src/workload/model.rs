//! The model: the versions that were committed, and those of them that may be found after what
//! happened.

use std::sync::Arc;

use pagehop_store::Durability;

use super::data::Rows;

/// The rows of the index after one commit.
#[derive(Clone, Debug)]
pub(super) struct Version {
    /// The mark that the commit wrote to the index.
    pub(super) number: u64,
    pub(super) rows: Arc<Rows>,
}

/// The committed versions. The first is the oldest that may still be found.
pub(super) struct Model {
    /// In order of commits; the last is the newest.
    history: Vec<Version>,
    /// The position in `history` of the oldest version that may be found after a loss of power.
    floor: usize,
    /// Versions whose commit failed or was in progress when everything stopped. They may be found
    /// or not.
    in_doubt: Vec<Version>,
    power_lost: bool,
    /// The durability with which the index is or was last open.
    durability: Durability,
}

impl Model {
    pub(super) fn new(rows: Rows) -> Self {
        let first = Version { number: 0, rows: Arc::new(rows) };
        Self {
            history: vec![first],
            floor: 0,
            in_doubt: Vec::new(),
            power_lost: false,
            durability: Durability::Commit,
        }
    }

    /// The newest version whose commit returned.
    pub(super) fn newest(&self) -> &Version {
        self.history.last().expect("there is always a version")
    }

    /// Records that a commit returned.
    pub(super) fn committed(&mut self, version: Version) {
        self.history.push(version);
        if self.durability == Durability::Commit {
            self.made_durable();
        }
    }

    /// Records that a commit failed: it is unknown whether the version will be found.
    pub(super) fn doubt(&mut self, version: Version) {
        self.in_doubt.push(version);
    }

    /// Records that a checkpoint returned: the newest version is durable.
    pub(super) fn made_durable(&mut self) {
        self.history.drain(..self.history.len() - 1);
        self.floor = 0;
    }

    /// Records that the store continued after failed commits: none of them took effect.
    pub(super) fn forget_doubts(&mut self) {
        self.in_doubt.clear();
    }

    pub(super) fn power_lost(&mut self) {
        self.power_lost = true;
    }

    /// The versions that may be found at the next opening.
    pub(super) fn allowed(&self) -> impl Iterator<Item = &Version> {
        let oldest = if self.power_lost { self.floor } else { self.history.len() - 1 };
        self.history[oldest..].iter().chain(&self.in_doubt)
    }

    /// Records that a writer opened the index and found the version `number`, which must be
    /// allowed.
    pub(super) fn found(&mut self, number: u64, durability: Durability) {
        let found = self.allowed().find(|version| version.number == number).expect("it is allowed").clone();
        // The version that a writer finds is durable, except where commits are not durable by
        // themselves.
        let stays = self.power_lost || self.durability == Durability::Commit && durability == Durability::Commit;
        if stays {
            self.history = vec![found];
            self.floor = 0;
        } else if self.newest().number != number {
            self.history.push(found);
        }
        self.in_doubt.clear();
        self.power_lost = false;
        self.durability = durability;
    }
}
