//! Rows of the table: their vectors, their operator classes, and the memory and files of a build.
//!
//! Nothing in this room knows pages or scans.
//!
//! | file | job |
//! |---|---|
//! | `opclass.rs` | the metric of an index and the type of its vectors |
//! | `vector.rs`, `columns.rs` | reads the values of pgvector; filter columns |
//! | `table.rs` | rows of a table, with vector and filter columns |
//! | `spill.rs`, `sample.rs`, `memory.rs` | the rows of a build; which of them stay in memory; its limit |

pub(crate) mod columns;
pub(crate) mod memory;
pub(crate) mod opclass;
pub(crate) mod sample;
pub(crate) mod spill;
pub(crate) mod table;
pub(crate) mod vector;
