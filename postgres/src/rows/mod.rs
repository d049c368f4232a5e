//! Rows of the table: their vectors, their operator classes, and the memory and files of a build.
//!
//! Nothing in this room knows pages or scans.

pub(crate) mod columns;
pub(crate) mod memory;
pub(crate) mod opclass;
pub(crate) mod sample;
pub(crate) mod spill;
pub(crate) mod table;
pub(crate) mod vector;
