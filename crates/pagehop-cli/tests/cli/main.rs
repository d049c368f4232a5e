//! The `pagehop` binary from outside.

mod arguments;
mod bad_input;
mod commands;
mod support;
