//! The algorithms of Pagehop: quantizer, graph, page layout and index operations.
//!
//! This crate opens no file, reads no clock and calls no operating system. Pages come from a host
//! through [`Pages`]: a file ([pagehop-store]), PostgreSQL's buffer manager, or a test double.
//!
//! From the bottom up. A room is a file or a folder. It imports only rooms above it in this table,
//! or on its left, and a test holds that (`tests/house/rooms.rs`).
//!
//! | room | subject |
//! |---|---|
//! | `ids.rs`, `error.rs`, `memory.rs` | numbers of pages and nodes; errors, by what the caller can do; memory that the system may refuse |
//! | `metric.rs`, `vectors.rs`, `random.rs` | distance functions; what an index keeps of vectors beside codes; random numbers from a seed |
//! | `row_ids.rs`, `text_ids.rs` | the meaning of row ids; the numbers of rows whose ids are texts |
//! | `threads.rs`, `progress.rs` | work on several threads; progress of long operations, and how to stop them |
//! | `columns/`, `filter/` | columns and their values; conditions on ids and values |
//! | `source.rs`, `reports.rs` | the rows of a build; results of operations |
//! | `options.rs`, `calibration.rs` | options with their defaults and limits; the settings that reach each recall |
//! | `quantize/` | codes of vectors, and distances that are estimated from them |
//! | `graph/` | the graph in memory: candidates, neighbors, repairs |
//! | `page/` | the page contract, and every byte of a page |
//! | `index/` | operations: build, search, change, check, recall |
#![forbid(unsafe_code)]

mod calibration;
mod columns;
mod error;
mod filter;
mod graph;
mod ids;
mod index;
mod memory;
mod metric;
mod options;
pub mod page;
mod progress;
mod quantize;
mod random;
mod reports;
mod row_ids;
mod source;
mod text_ids;
mod threads;
mod vectors;

pub use calibration::{CALIBRATED_ROWS_MIN, CalibratedK, Calibration, RECALL_DEFAULT, RECALLS, Setting};
pub use columns::{COLUMN_NAME_MAX, COLUMNS_MAX, Column, ColumnKind, ColumnRows, TAG_BYTES_MAX, TAGS_MAX, Value};
pub use error::{Error, Refusal};
pub use filter::{Comparison, FILTER_DEPTH_MAX, Filter};
pub use index::{
    Batch, CALIBRATION_QUERIES_MAX, CALIBRATION_QUERIES_MIN, Change, CheckedPages, Cursor, FilterPlan, Found,
    HostRows, InEdges, Index, Payloads, PendingPlace, Prepared, ReadParts, RowParts, Searcher, TRAINED_ENOUGH,
    TrainingHost, build, build_memory_bytes, build_memory_bytes_min, calibrate_within, calibration_memory_bytes,
    calibration_memory_bytes_min, check_again, check_row, create, load_row_codes,
};
pub use metric::Metric;
pub use options::{
    BEAM_WIDTH_MAX, BuildOptions, CreateOptions, DIM_MAX, Effort, Reach, SAMPLES_MAX, SEARCH_LIST_MAX,
    SearchOptions, SearchPlan, THREADS_MAX,
};
pub use page::record_pages::PAYLOAD_BYTES_MAX;
pub use page::{
    BODY_BYTES, EachWork, HOST_HEADER_BYTES, MAGIC, PAGE_BYTES, PageId, PageSink, Pages, PagesMut, Reader,
    STEP_PAGES, Scratch, ScratchFile, SharedPages, used_bytes,
};
pub use progress::{OnProgress, Progress};
pub use reports::{
    AddReport, Audit, BuildReport, CheckReport, DeleteReport, Hit, Info, Measured, RecallReport, RemoveReport,
    SearchResult, Stats, VacuumReport,
};
pub use row_ids::{HOST_ROW_ID_END, IdKey, IdKind, NODE_ROWS_MAX, RowId, TEXT_ID_BYTES_MAX};
pub use source::{EachChunk, VectorSource};
pub use threads::available as available_threads;
pub use vectors::Vectors;
