//! House rules as tests: which room may know which, that no files import each other in circles,
//! what the engine may not touch, where methods are, how long things get, and that documents name
//! only files that exist.
//!
//! The sources are read as text, with comments, strings and tests blanked out where a rule is about
//! code that ships. A rule that must change is changed here, in the open.

mod circles;
mod documents;
mod imports;
mod limits;
mod maps;
mod rooms;
mod sources;
mod text;
mod types;

#[track_caller]
fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
