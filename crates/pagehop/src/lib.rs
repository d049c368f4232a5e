//! Nearest-neighbor search in one file: the engine and the store of Pagehop under one name.
//!
#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! - [`build`], [`create`], [`open`] and [`backup`]: index files. An open index is an
//!   [`Index`]`<`[`IndexFile`]`>`.
//! - [`search`], [`Index::search_batch`] for many queries, [`Index::cursor`] for one row after the
//!   other. [`Effort`] says how hard to search, [`Filter`] which rows may be found.
//! - [`add`], [`delete`], [`pop`], [`update_columns`], [`vacuum`], [`retrain`]: changes.
//! - [`ColumnRows::with_payloads`], [`Index::payloads`]: bytes that are kept with rows.
//! - [`IdKind::Text`], [`Index::text_ids`]: ids that are texts. All calls that take ids take either
//!   kind.
//! - [`Index::search_and_read`], [`Batch::parts`]: text ids and payloads of the rows that searches
//!   find.
//! - [`Index::recall`], [`calibrate`], [`check`], [`Index::info`]: what searches find, and whether
//!   the file is sound.
//! - [`engine`] and [`store`]: all of both crates, for a host that brings pages of its own.
#![forbid(unsafe_code)]

mod rows;
mod search;

pub use pagehop_engine as engine;
pub use pagehop_store as store;

pub use pagehop_engine::{
    AddReport, Audit, Batch, BuildOptions, BuildReport, Calibration, CheckReport, Column, ColumnKind, ColumnRows,
    Comparison, CreateOptions, Cursor, DeleteReport, EachChunk, Effort, Error, Filter, FilterPlan, Found, Hit,
    IdKind, Index, Info, Metric, OnProgress, PAYLOAD_BYTES_MAX, Payloads, Progress, Reach, ReadParts, RecallReport,
    Refusal, RowId, RowParts, SearchOptions, SearchPlan, SearchResult, Searcher, Stats, TEXT_ID_BYTES_MAX,
    VacuumReport, Value, VectorSource, Vectors, load_row_codes,
};
pub use pagehop_store::{
    AddOptions, BackupReport, CACHE_AUTO, CompactOptions, CompactReport, Durability, IndexFile, Io, OpenOptions,
    add, add_with_columns, backup, build, calibrate, check, compact, compact_into, create, delete, open,
    parse_bytes, pop, retrain, set_audit, set_calibration, update_columns, vacuum,
};

pub use rows::Rows;
pub use search::search;
