//! The algorithms of Pagehop: quantizer, graph, page layout and index operations.
//!
//! Nothing here opens a file, reads a clock or knows an operating system. Pages come from a host
//! through [`Pages`]: a file ([pagehop-store]), PostgreSQL's buffer manager, or a test double.
#![forbid(unsafe_code)]

mod error;
pub mod index;
pub mod page;

pub use error::Error;
pub use index::{
    BuildOptions, BuildReport, CheckReport, Hit, Index, Info, Metric, Progress, SearchOptions,
    SearchResult, Stats, VectorSource, build,
};
pub use page::{BODY_BYTES, HOST_HEADER_BYTES, PAGE_BYTES, PageId, PageSink, Pages, Reader};
