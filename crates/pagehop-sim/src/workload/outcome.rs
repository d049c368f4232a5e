//! The counters of a run, and the reasons why an operation did not succeed.

use pagehop_engine::Error;

/// Counters of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Operations that were started.
    pub operations: u64,
    /// Commits that returned.
    pub commits: u64,
    /// Operations that failed because of a fault or a limit.
    pub failures: u64,
    /// Losses of power.
    pub crashes: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// How often the index was opened.
    pub openings: u64,
    /// Dead rows that were freed by the automatic vacuum of calls.
    pub vacuumed: u64,
    /// How often the index was compacted.
    pub compactions: u64,
    /// How often everything in the index was compared with a version.
    pub checks: u64,
    /// Rows that searches should have found, summed over searches.
    pub near_wanted: u64,
    /// The number of these rows that searches found.
    pub near_found: u64,
    /// A hash of every call to the disk.
    pub disk: u64,
}

/// Why an operation did not succeed.
pub(super) enum Trouble {
    /// An error, which an injected fault may explain.
    Error(Error),
    Violation(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

pub(super) type Checked<T> = Result<T, String>;
