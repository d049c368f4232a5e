//! What must be there: the versions that were committed, and which of them may be found after what happened.

use std::sync::Arc;

use pagehop_store::Durability;

use super::data::Rows;

/// The rows as of one commit.
#[derive(Clone, Debug)]
pub(super) struct Version {
    /// The mark that the commit left in the index.
    pub(super) number: u64,
    pub(super) rows: Arc<Rows>,
}

/// What was committed, from the oldest version that may still come back.
pub(super) struct Model {
    /// The last is the newest.
    history: Vec<Version>,
    /// The oldest of `history` that a loss of power may bring back.
    floor: usize,
    /// Commits that failed, or were under way when everything stopped.
    in_doubt: Vec<Version>,
    power_lost: bool,
    /// How the index is open, or was last.
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

    /// The newest version that was acknowledged.
    pub(super) fn newest(&self) -> &Version {
        self.history.last().expect("there is always a version")
    }

    /// A commit returned.
    pub(super) fn committed(&mut self, version: Version) {
        self.history.push(version);
        if self.durability == Durability::Commit {
            self.made_durable();
        }
    }

    /// A commit failed.
    pub(super) fn doubt(&mut self, version: Version) {
        self.in_doubt.push(version);
    }

    /// A checkpoint returned.
    pub(super) fn made_durable(&mut self) {
        self.history.drain(..self.history.len() - 1);
        self.floor = 0;
    }

    /// The store goes on after commits failed: they have come to nothing.
    pub(super) fn forget_doubts(&mut self) {
        self.in_doubt.clear();
    }

    pub(super) fn power_lost(&mut self) {
        self.power_lost = true;
    }

    /// The versions that may be found now.
    pub(super) fn allowed(&self) -> impl Iterator<Item = &Version> {
        let oldest = if self.power_lost { self.floor } else { self.history.len() - 1 };
        self.history[oldest..].iter().chain(&self.in_doubt)
    }

    /// A writer opened the index and found the version with this number, which is allowed.
    pub(super) fn found(&mut self, number: u64, durability: Durability) {
        let found = self.allowed().find(|version| version.number == number).expect("it is allowed").clone();
        // What a writer found must stay, unless commits were not to be durable by themselves.
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
