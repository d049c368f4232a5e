//! House rules as tests: which room may import which, that files do not import each other in
//! circles, what a crate may not know, where methods are, how long files and functions are, and
//! that documents name only files that exist.
//!
//! The sources are read as text. Where a rule is about code that ships, comments, strings and tests
//! are blanked out. If a rule must change, change it here, so that the change is seen.

mod absence;
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
