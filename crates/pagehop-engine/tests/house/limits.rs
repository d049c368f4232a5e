//! How long files and functions are, what files are called, what they say at their top, and that
//! code outside tests does not unwrap.

use crate::assert_none;
use crate::sources::{files, is_source, read};
use crate::text::{blank_comments_and_strings, blank_tests, functions};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
/// Shortest text of an `expect` that can be a reason, in bytes.
const REASON_BYTES_MIN: usize = 6;

/// Names that do not say what is inside.
const EMPTY_NAMES: [&str; 8] = ["util", "utils", "helper", "helpers", "common", "misc", "manager", "stuff"];

#[test]
fn code_outside_tests_does_not_unwrap() {
    let mut wrong = Vec::new();
    for path in files(&[".rs"]).into_iter().filter(|path| is_source(path)) {
        let text = read(&path);
        let code = blank_tests(blank_comments_and_strings(&text));
        for (number, line) in (1..).zip(code.lines()) {
            if line.contains(".unwrap()") {
                wrong.push(format!("{path}:{number}: unwrap; say why it cannot fail"));
            }
        }
        for (at, _) in code.match_indices(".expect(\"") {
            let reason = text[at + ".expect(\"".len()..].split('"').next().unwrap_or_default();
            if reason.len() < REASON_BYTES_MIN {
                let number = text[..at].lines().count();
                wrong.push(format!("{path}:{number}: {reason:?} is not a reason"));
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn names_say_what_is_inside() {
    let wrong: Vec<_> = files(&[".rs", ".py", ".pyi", ".c", ".h"])
        .into_iter()
        .filter(|path| path.split('/').any(|part| EMPTY_NAMES.contains(&part.split('.').next().unwrap_or(part))))
        .collect();
    assert_none(&wrong);
}

#[test]
fn every_source_file_says_what_it_is() {
    let wrong: Vec<_> = files(&[".rs"])
        .into_iter()
        .filter(|path| !read(path).starts_with("//!"))
        .map(|path| format!("{path} does not open with //!"))
        .collect();
    assert_none(&wrong);
}

#[test]
fn files_stay_short() {
    let wrong: Vec<_> = files(&[".rs", ".py", ".pyi"])
        .into_iter()
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, _)| *lines > FILE_LINES_MAX)
        .map(|(lines, path)| format!("{path} has {lines} lines"))
        .collect();
    assert_none(&wrong);
}

#[test]
fn functions_do_not_get_longer() {
    let mut long = Vec::new();
    let paths = files(&[".rs"]);
    for room in ["crates/pagehop-engine/tests/", "lab/loadgen/src/", "postgres/src/", "python/src/"] {
        assert!(paths.iter().any(|path| path.starts_with(room)), "no source of {room} is read");
    }
    for path in paths {
        let code = blank_comments_and_strings(&read(&path));
        for (name, at) in functions(&code) {
            let lines = code[at.clone()].lines().count();
            if lines > FUNCTION_LINES_MAX {
                let number = code[..at.start].lines().count();
                long.push(format!("{path}:{number}: {name} has {lines} lines"));
            }
        }
    }
    assert_none(&long);
}
