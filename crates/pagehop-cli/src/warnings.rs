//! Warnings on standard error about the state of an index.

use std::path::Path;

use pagehop_engine::{Measured, Reach};

use crate::output::{grouped, say};

/// Live rows per dead row, below which a vacuum is suggested: searches read the pages and edges of
/// dead rows too.
const LIVING_PER_DEAD: u64 = 10;

/// Suggests a vacuum of the index at `path` if many of its rows are dead.
pub(crate) fn warn_of_dead_rows(path: &Path, dead: u64, living: u64) {
    if dead.saturating_mul(LIVING_PER_DEAD) > living {
        let path = path.display();
        say(format_args!(
            "warning: {} dead rows beside {} live ones slow searches down; `pagehop vacuum {path}` removes them",
            grouped(dead),
            grouped(living),
        ));
    }
}

/// Warns that searches of the index at `path` may find less than `recall`.
pub(crate) fn warn_of_reach(path: &Path, k: usize, recall: f32, reach: Reach) {
    let path = path.display();
    match reach {
        Reach::Within => {}
        Reach::Beyond { best } => say(format_args!(
            "warning: --recall {recall} is above the highest recall that the calibration of {path} reached for {k} rows, \
             which is {best:.4}; searches use the settings of its longest search. --recall 1 is exact"
        )),
        Reach::Uncalibrated => say(format_args!(
            "warning: {path} was never calibrated, so the settings for --recall {recall} are not known; `pagehop \
             calibrate {path}` measures them"
        )),
    }
}

/// Suggests a calibration of the index at `path` if its calibration is `outdated`.
pub(crate) fn warn_of_changes(path: &Path, outdated: Option<Measured>) {
    if let Some(known) = outdated {
        let path = path.display();
        let (what, risk) = if known.longer_rows {
            ("rows longer than all earlier ones were added".to_owned(), "take longer than they need")
        } else {
            (format!("{} rows were added or deleted", grouped(known.changes)), "find less than their --recall")
        };
        say(format_args!(
            "warning: {what} since the index was calibrated at {} rows, so searches may {risk}; `pagehop calibrate \
             {path}` measures again",
            grouped(known.rows),
        ));
    }
}
