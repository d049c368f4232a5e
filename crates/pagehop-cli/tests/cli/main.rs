//! The `pagehop` binary from outside.

mod arguments;
mod bad_changes;
mod bad_input;
mod changes;
mod columns;
mod commands;
mod completions;
#[cfg(feature = "parquet")]
mod parquet;
mod recall;
mod rows;
mod support;
mod text_ids;
