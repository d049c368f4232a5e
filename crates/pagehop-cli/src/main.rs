//! The `pagehop` command.
fn main() {}
