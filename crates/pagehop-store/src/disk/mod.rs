//! The files of an index: the index itself, page by page, and the operating system's files behind a
//! trait.

pub(crate) mod base_file;
pub(crate) mod location;
pub(crate) mod storage;
