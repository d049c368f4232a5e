//! Tests of the `pagehop` program, which run it as a command.

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
