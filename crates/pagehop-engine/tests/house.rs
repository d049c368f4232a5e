//! House rules as tests: which room may know which, what the engine may not touch, how long things
//! get, and that documents name only files that exist.
//!
//! The sources are read as text, with comments, strings and tests blanked out where a rule is about
//! code that ships. A rule that must change is changed here, in the open.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What each room of the engine may import from it, besides itself.
const ROOMS: [(&str, &[&str]); 11] = [
    ("error", &["page"]), // an error names a page
    ("metric", &["error"]),
    ("random", &[]),
    ("row_ids", &[]),
    ("threads", &["error"]),
    ("quantize", &["error", "metric", "random", "threads"]),
    ("graph", &["error", "metric", "random", "threads", "quantize"]),
    ("page", &["error", "metric", "row_ids", "quantize"]),
    ("index", &["error", "metric", "random", "row_ids", "threads", "quantize", "graph", "page"]),
    ("lib", &["error", "metric", "random", "row_ids", "threads", "quantize", "graph", "page", "index"]),
    // only with the feature of its name, for the benches
    ("experiment", &["error", "metric", "random", "row_ids", "threads", "quantize", "graph", "page", "index"]),
];

/// What the engine may not use: it has no files, no clock and no operating system.
const NO_SYSTEM: [&str; 6] = ["fs", "net", "time", "env", "process", "os"];

/// Where `unsafe` is allowed: the files of one instruction set, the dispatch to them, frames, rings and
/// shared memory of the store, and all of `postgres/`. A name that ends in `/` stands for a folder.
const UNSAFE_ALLOWED: [&str; 7] = [
    "crates/pagehop-kernels/benches/", // experiments with kernels, which never ship
    "crates/pagehop-kernels/src/dispatch.rs",
    "crates/pagehop-store/src/buffer.rs",
    "crates/pagehop-store/src/mapping.rs",
    "crates/pagehop-store/src/uring.rs",
    "crates/pagehop-store/tests/fork.rs",
    "postgres/",
];
const INSTRUCTION_SETS: [&str; 6] = ["avx2.rs", "avx512.rs", "x86_64.rs", "neon.rs", "aarch64.rs", "sve.rs"];

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES: usize = 70;
/// Functions that may be longer, as `path: name`. A ratchet: names leave this list, none enter it.
const LONG_FUNCTIONS: [&str; 0] = [];

/// Shortest text of an `expect` that can be a reason.
const REASON_BYTES_MIN: usize = 6;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] = ["util", "utils", "helper", "helpers", "common", "misc", "manager", "stuff"];

/// Documents whose paths are checked, besides everything in `docs/`.
const DOCUMENTS: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "lab/README.md"];
/// Endings by which a word in backticks is taken for a file of this repository.
const REPOSITORY_ENDINGS: [&str; 9] = [".rs", ".py", ".pyi", ".md", ".toml", ".sql", ".sh", ".yml", ".lock"];

#[test]
fn rooms_of_the_engine_import_one_way() {
    let sources = sources_in("crates/pagehop-engine/src");
    let root =
        fs::read_to_string(repository().join("crates/pagehop-engine/src/lib.rs")).expect("the engine has a lib.rs");
    let exported = exports(&blank_comments_and_strings(&root));
    let mut wrong = Vec::new();
    for (path, code) in &sources {
        let room = room_of(path);
        let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == room) else {
            wrong.push(format!("{path}: the room {room} has no line in ROOMS"));
            continue;
        };
        for name in first_segments(code, "crate::") {
            let target = exported.get(&name).unwrap_or(&name);
            let is_room = ROOMS.iter().any(|(name, _)| name == target);
            if is_room && *target != room && !allowed.contains(&target.as_str()) {
                wrong.push(format!("{path}: {room} may not import {target} ({name})"));
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn the_engine_knows_no_system() {
    let mut wrong = Vec::new();
    for (path, code) in sources_in("crates/pagehop-engine/src") {
        for name in first_segments(&code, "std::") {
            if NO_SYSTEM.contains(&name.as_str()) {
                wrong.push(format!("{path}: std::{name}"));
            }
        }
        for name in ["SystemTime", "Instant"] {
            if has_word(&code, name) {
                wrong.push(format!("{path}: {name}"));
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn kernels_depend_on_nothing() {
    let manifest = fs::read_to_string(repository().join("crates/pagehop-kernels/Cargo.toml"))
        .expect("the kernels have a manifest");
    let after = manifest.split_once("[dependencies]").map_or("", |(_, after)| after);
    let entries = after.lines().take_while(|line| !line.starts_with('['));
    let wrong: Vec<_> = entries
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| format!("pagehop-kernels depends on {line}"))
        .collect();
    assert_none(&wrong);
    assert!(!manifest.contains("[dependencies."), "pagehop-kernels has a dependency");
}

#[test]
fn code_that_ships_does_not_unwrap() {
    let mut wrong = Vec::new();
    for (path, code) in shipped_sources() {
        for (number, line) in (1..).zip(code.lines()) {
            if line.contains(".unwrap()") {
                wrong.push(format!("{path}:{number}: unwrap; say why it cannot fail"));
            }
        }
        let text = fs::read_to_string(repository().join(&path)).expect("it was read before");
        for (at, _) in code.match_indices(".expect(\"") {
            let reason = text[at + ".expect(\"".len()..].split('"').next().unwrap_or_default();
            if reason.len() < REASON_BYTES_MIN {
                let number = text[..at].lines().count();
                wrong.push(format!("{path}:{number}: {reason:?} is no reason"));
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn unsafe_stays_where_it_is_allowed() {
    let mut wrong = Vec::new();
    for path in files(&[".rs"]) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_kernel = path.starts_with("crates/pagehop-kernels/src/");
        let allowed = is_kernel && INSTRUCTION_SETS.contains(&name)
            || UNSAFE_ALLOWED.iter().any(|place| path == *place || place.ends_with('/') && path.starts_with(place));
        if !allowed && has_word(&blank_comments_and_strings(&read(&path)), "unsafe") {
            wrong.push(format!("{path}: unsafe"));
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
        .filter(|path| path.starts_with("crates/") && path.contains("/src/"))
        .filter(|path| !read(path).starts_with("//!"))
        .map(|path| format!("{path} does not open with //!"))
        .collect();
    assert_none(&wrong);
}

#[test]
fn files_stay_short() {
    let wrong: Vec<_> = files(&[".rs", ".py", ".pyi"])
        .into_iter()
        .filter(|path| is_shipped(path) || path.starts_with("python/"))
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, _)| *lines > FILE_LINES_MAX)
        .map(|(lines, path)| format!("{path} has {lines} lines"))
        .collect();
    assert_none(&wrong);
}

#[test]
fn functions_do_not_get_longer() {
    let mut long = Vec::new();
    for (path, code) in shipped_sources() {
        for (name, at) in functions(&code) {
            let lines = code[at.clone()].lines().count();
            let may_be_long = LONG_FUNCTIONS.contains(&format!("{path}: {name}").as_str());
            if lines > FUNCTION_LINES && !may_be_long {
                let number = code[..at.start].lines().count();
                long.push(format!("{path}:{number}: {name} has {lines} lines"));
            }
        }
    }
    assert_none(&long);
}

#[test]
fn documents_name_files_that_exist() {
    let known = files(&[""]);
    let exists = |word: &str, document: &str| {
        let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
        let beside = format!("{folder}/{word}");
        let end = format!("/{word}");
        let inside = |folder: &str| known.iter().any(|path| path.starts_with(folder));
        match word.strip_suffix('/') {
            Some(_) => inside(word) || inside(&beside) || known.iter().any(|path| path.contains(&end)),
            None => known.iter().any(|path| path == word || *path == beside || path.ends_with(&end)),
        }
    };
    let documents = known
        .iter()
        .filter(|path| DOCUMENTS.contains(&path.as_str()) || path.starts_with("docs/") && path.ends_with(".md"));
    let mut wrong = Vec::new();
    for document in documents {
        for (number, line) in (1..).zip(read(document).lines()) {
            for word in line.split('`').skip(1).step_by(2).filter(|word| names_a_file(word)) {
                if !exists(word, document) {
                    wrong.push(format!("{document}:{number}: {word} does not exist"));
                }
            }
        }
    }
    assert_none(&wrong);
}

#[track_caller]
fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Whether a word in backticks is the name of a file or a folder of this repository.
fn names_a_file(word: &str) -> bool {
    let word = word.strip_prefix("./").unwrap_or(word);
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if !word.chars().all(plain) || word.starts_with(['/', '.']) || word.contains("//") {
        return false;
    }
    let top = word.split('/').next().unwrap_or_default();
    let of_repository = ["crates", "docs", "python", "postgres", "lab", "fuzz", "tests"];
    REPOSITORY_ENDINGS.iter().any(|ending| word.ends_with(ending) && word.len() > ending.len())
        || word.contains('/') && of_repository.contains(&top)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a crate is in crates/")
}

/// Every file whose name ends in one of `endings`, relative to the repository, sorted.
fn files(endings: &[&str]) -> Vec<String> {
    let root = repository();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("it was listed").flatten() {
            let path = entry.path();
            let name = entry.file_name().into_string().unwrap_or_default();
            let kind = entry.file_type().expect("its folder can be read");
            if kind.is_dir() {
                let ignored = ["target", "data", "node_modules", "__pycache__"];
                if !ignored.contains(&name.as_str()) && (!name.starts_with('.') || name == ".ci") {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let path = path.strip_prefix(&root).expect("it is in the repository");
                found.extend(path.to_str().map(str::to_owned));
            }
        }
    }
    found.sort();
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn is_shipped(path: &str) -> bool {
    let in_src = path.starts_with("crates/") && path.contains("/src/")
        || path.starts_with("python/src/")
        || path.starts_with("postgres/src/");
    in_src && !path.ends_with("/tests.rs") && !path.contains("/tests/")
}

/// Rust that ships, without its comments, strings and tests.
fn shipped_sources() -> Vec<(String, String)> {
    let paths = files(&[".rs"]).into_iter().filter(|path| is_shipped(path));
    paths
        .map(|path| {
            let code = blank_tests(blank_comments_and_strings(&read(&path)));
            (path, code)
        })
        .collect()
}

fn sources_in(folder: &str) -> Vec<(String, String)> {
    let mut sources = shipped_sources();
    sources.retain(|(path, _)| path.starts_with(folder));
    assert!(!sources.is_empty(), "{folder} has no sources");
    sources
}

/// The first folder or file below `src/`.
fn room_of(path: &str) -> String {
    let (_, below) = path.split_once("/src/").expect("sources are in src/");
    let room = below.split('/').next().unwrap_or_default();
    room.strip_suffix(".rs").unwrap_or(room).to_owned()
}

/// Name by name, the module that `pub use module::{names}` takes it from.
fn exports(code: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for (at, start) in code.match_indices("pub use ") {
        let statement = code[at + start.len()..].split(';').next().unwrap_or_default();
        let Some((module, names)) = statement.split_once("::") else { continue };
        for name in names.split(|c: char| !is_word(c)).filter(|name| !name.is_empty()) {
            exports.insert(name.to_owned(), module.trim().to_owned());
        }
    }
    exports
}

/// What follows `prefix` in paths: one name, or each first name inside braces.
fn first_segments(code: &str, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with(is_word) {
            continue;
        }
        let after = &code[at + prefix.len()..];
        if !after.starts_with('{') {
            found.push(after.chars().take_while(|&c| is_word(c)).collect());
            continue;
        }
        let (mut depth, mut expects_name) = (0, false);
        for (at, c) in after.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ if is_word(c) && expects_name && depth == 1 => {
                    found.push(after[at..].chars().take_while(|&c| is_word(c)).collect());
                }
                _ => {}
            }
            expects_name = matches!(c, '{' | ',') || expects_name && c.is_whitespace();
            if depth == 0 {
                break;
            }
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word))
}

/// Every function with a body: its name, and where it is.
fn functions(code: &str) -> Vec<(String, Range<usize>)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let name: String = code[at + 3..].chars().take_while(|&c| is_word(c)).collect();
        if name.is_empty() || code[..at].ends_with(is_word) {
            continue;
        }
        let (mut round, mut end) = (0_i32, None);
        for (offset, c) in code[at..].char_indices() {
            match c {
                '(' | '[' => round += 1,
                ')' | ']' => round -= 1,
                ';' if round == 0 => break,
                '{' if round == 0 => {
                    end = Some(end_of_braces(code, at + offset));
                    break;
                }
                _ => {}
            }
        }
        if let Some(end) = end {
            found.push((name, at..end));
        }
    }
    found
}

/// The position behind the brace that closes the one at `open`.
fn end_of_braces(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at + 1;
        }
    }
    code.len()
}

/// `code` with each item behind `#[cfg(test)]` made of spaces.
fn blank_tests(mut code: String) -> String {
    let mark = "#[cfg(test)]";
    while let Some(start) = code.find(mark) {
        let after = start + mark.len();
        let end = match code[after..].find(['{', ';']) {
            Some(at) if code[after + at..].starts_with('{') => end_of_braces(&code, after + at),
            Some(at) => after + at + 1,
            None => code.len(),
        };
        code.replace_range(start..end, &blank(&code[start..end]));
    }
    code
}

/// Spaces in place of `text`, byte for byte, its line ends kept.
fn blank(text: &str) -> String {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// `text` with comments and the inside of strings and characters made of spaces.
fn blank_comments_and_strings(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let before = code.chars().next_back();
        let (kept, blanked) = token(rest, c, before);
        code.push_str(&rest[..kept]);
        code.push_str(&blank(&rest[kept..kept + blanked]));
        rest = &rest[kept + blanked..];
    }
    code
}

/// How many bytes at the start of `rest` to keep, and how many behind them to blank.
fn token(rest: &str, c: char, before: Option<char>) -> (usize, usize) {
    let until = |end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
    if rest.starts_with("//") {
        return (0, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (0, until("*/"));
    }
    let raw = rest.strip_prefix('r').filter(|_| !before.is_some_and(|c| is_word(c) && c != 'b'));
    if let Some(raw) = raw.filter(|raw| raw.trim_start_matches('#').starts_with('"')) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let open = 2 + hashes;
        let close = format!("\"{}", "#".repeat(hashes));
        let inside = &rest[open..];
        return (open, inside.find(&close).map_or(inside.len(), |at| at + close.len()));
    }
    if c == '"' {
        return (1, end_of_quotes(&rest[1..], '"'));
    }
    if c == '\'' {
        let mut inside = rest[1..].chars();
        let first = inside.next();
        let is_char = first == Some('\\') || inside.next() == Some('\'');
        if is_char {
            return (1, end_of_quotes(&rest[1..], '\''));
        }
    }
    (c.len_utf8(), 0)
}

/// Bytes up to the `quote` that ends a literal, and with it.
fn end_of_quotes(inside: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    inside.len()
}

#[test]
fn the_reader_of_sources_is_not_fooled() {
    let text = r##"
// crate::index::a
use crate::{Error, quantize::{own, b}, graph}; /* std::fs */
const A: &str = "std::fs \" {"; const B: char = '"'; const C: char = '\''; fn d<'a>() {}
const E: &str = r#"" std::net "#;
#[cfg(test)]
mod tests { fn f() { std::env::args().next().unwrap(); } }
fn long(x: [u8; 3]) -> u8 {
    x[0]
}
"##;
    let code = blank_comments_and_strings(text);
    assert_eq!(code.len(), text.len());
    assert_eq!(first_segments(&code, "crate::"), ["Error", "quantize", "graph"]);
    assert_eq!(first_segments(&code, "std::"), ["env"]);
    let code = blank_tests(code);
    assert!(first_segments(&code, "std::").is_empty() && !code.contains("unwrap"));
    let functions: Vec<_> =
        functions(&code).into_iter().map(|(name, at)| (name, code[at].lines().count())).collect();
    assert_eq!(functions, [("d".to_owned(), 1), ("long".to_owned(), 3)]);
    let exported = exports("pub use error::Error; pub use index::{A, build};");
    assert_eq!(exported["Error"], "error");
    assert_eq!(exported["build"], "index");
    assert!(names_a_file("page/layout.rs") && names_a_file("docs/format.md"));
    assert!(!names_a_file("items.npy") && !names_a_file("a b.rs") && !names_a_file("l2/ip"));
}
