//! The effort of a search: the options that set it, and the warnings about it.

use std::path::Path;

use pagehop_engine::{Effort, Index, SearchPlan};
use pagehop_store::IndexFile;

use crate::arguments::{parse_recall, parse_search_list, parse_slack};
use crate::errors::Error;
use crate::warnings::{warn_of_changes, warn_of_reach};

/// The options of every command that searches.
#[derive(clap::Args)]
pub(crate) struct EffortOptions {
    /// Share of the true nearest rows to find, on average: sets --search-list and --slack from the
    /// calibration. 1 compares each query with every row and finds all.
    #[arg(long, value_name = "SHARE", value_parser = parse_recall, conflicts_with_all = ["search_list", "slack"])]
    pub(crate) recall: Option<f32>,
    /// Candidates kept while searching: a longer list finds more and takes longer. Without --slack
    /// the whole list is expanded. [default: as for --recall 0.98, or the highest recall below it
    /// that the calibration reached; 100 with --slack 0.2 if there is none]
    #[arg(long, value_name = "N", value_parser = parse_search_list)]
    search_list: Option<usize>,
    /// Stop when the best estimate left is beyond 1 + SLACK times the distance of the k-th row;
    /// `inf` expands the whole search list.
    #[arg(long, value_name = "SLACK", value_parser = parse_slack)]
    slack: Option<f32>,
}

impl EffortOptions {
    /// How to search `index`, opened at `path`, for `k` rows. With `--recall`, warns if the index
    /// was never calibrated, if its calibration is outdated, or if no setting reaches the recall.
    pub(crate) fn plan(&self, index: &Index<IndexFile>, path: &Path, k: usize) -> Result<SearchPlan, Error> {
        let about = |error| Error::about(path, &error);
        let effort = Effort::of(self.recall, self.search_list, self.slack).map_err(about)?;
        let plan = index.options(k, &effort).map_err(about)?;
        if let (Some(recall), Some(_)) = (self.recall, &plan.options) {
            warn_of_changes(path, plan.outdated);
            warn_of_reach(path, k, recall, plan.reach);
        }
        Ok(plan)
    }
}
