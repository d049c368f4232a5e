//! Rows of the table: their vectors, what their operator class says of them, and where a build
//! keeps them.
//!
//! Nothing in this room knows pages or scans.

pub(crate) mod columns;
pub(crate) mod memory;
pub(crate) mod opclass;
pub(crate) mod sample;
pub(crate) mod spill;
pub(crate) mod table;
pub(crate) mod vector;
