//! New index files: written page by page, measured before they are complete, named when they are.

pub(crate) mod build_index;
pub(crate) mod freed_memory;
pub(crate) mod kept_work;
pub(crate) mod new_file;
pub(crate) mod page_cache;
pub(crate) mod scratch_files;
pub(crate) mod storage_sink;
pub(crate) mod unfinished;
pub(crate) mod whole_file;
