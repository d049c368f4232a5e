//! The commands: one file or folder each. No command uses another. What several commands need is in
//! the folder above.

pub(crate) mod add;
pub(crate) mod backup;
pub(crate) mod build;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod ids;
pub(crate) mod info;
pub(crate) mod recall;
pub(crate) mod retrain;
pub(crate) mod search;
pub(crate) mod update_columns;
pub(crate) mod vacuum;
