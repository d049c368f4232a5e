//! The algorithms of Pagehop: quantizer, graph, page layout and index operations.
//!
//! Nothing here opens a file, reads a clock or knows an operating system. Pages come from a host
//! through [`Pages`]: a file ([pagehop-store]), PostgreSQL's buffer manager, or a test double.
#![forbid(unsafe_code)]

mod error;
#[cfg(feature = "experiments")]
pub mod experiment;
mod graph;
pub mod index;
mod metric;
pub mod page;
mod quantize;
mod random;
mod row_ids;
mod threads;

pub use error::Error;
pub use index::{
    AddReport, Audit, BuildOptions, BuildReport, Calibration, Change, CheckReport, Cursor, DeleteReport, EachChunk,
    Found, Hit, Index, Info, Measured, OnProgress, Prepared, Progress, RecallReport, RemoveReport, SearchOptions,
    SearchResult, Searcher, Stats, VacuumReport, VectorSource, build, build_memory_bytes, create,
};
pub use metric::Metric;
pub use page::{
    BODY_BYTES, HOST_HEADER_BYTES, MAGIC, PAGE_BYTES, PageId, PageSink, Pages, PagesMut, Reader, STEP_PAGES,
    used_bytes,
};
pub use row_ids::{RowIds, TID_END, TIDS_MAX};
