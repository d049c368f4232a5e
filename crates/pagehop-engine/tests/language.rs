//! Plain English as a test: words that CONTRIBUTING bans do not occur in Rust sources, and comments
//! wrap.
//!
//! `python/tests/test_language.py` has the same rules for everything else that is written by hand.

use std::fs;
use std::path::{Path, PathBuf};

/// The line of CONTRIBUTING that lists the words.
const LIST: &str = "- Words that we do not use: ";
/// The file whose test uses banned words as examples.
const EXAMPLES: &str = "crates/pagehop-engine/tests/language.rs";

const COLUMNS_MAX: usize = 100;
/// Most breaches that a failure shows.
const SHOWN_MAX: usize = 50;

#[test]
fn banned_words_do_not_come_back() {
    let contributing = read("CONTRIBUTING.md");
    let (_, list) = contributing.split_once(LIST).expect("CONTRIBUTING lists the words");
    let list = list.split_once('.').expect("the list is a sentence").0;
    let banned: Vec<&str> = list.split(',').map(str::trim).collect();
    assert!(banned.len() > 8, "{banned:?}");
    assert_none(|text| banned_words(text, &banned));
}

#[test]
fn comments_wrap() {
    assert_none(wide);
}

/// Fails if a source has breaches, and lists them.
fn assert_none(breaches: impl Fn(&str) -> Vec<(usize, String)>) {
    let sources = sources();
    for room in ["crates/", "lab/loadgen/", "postgres/", "python/"] {
        assert!(sources.iter().any(|path| path.starts_with(room)), "no source of {room} is read");
    }
    let mut found = Vec::new();
    for path in sources.iter().filter(|path| *path != EXAMPLES) {
        let breaches = breaches(&read(path));
        found.extend(breaches.into_iter().map(|(line, what)| format!("{path}:{line}: {what}")));
    }
    let shown = found[..found.len().min(SHOWN_MAX)].join("\n");
    assert!(found.is_empty(), "{} breaches:\n{shown}", found.len());
}

/// The banned words and the numbers of their lines. A word may end in `s`. Parts of names, such as
/// `so_many`, are words.
fn banned_words(text: &str, banned: &[&str]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut before = String::new();
    for (line, text) in (1..).zip(text.lines()) {
        for word in text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()) {
            let word = word.to_ascii_lowercase();
            let is_banned = |banned: &&str| word == **banned || word.strip_suffix('s') == Some(banned);
            if banned.iter().any(is_banned) || before == "so" && word == "many" {
                found.push((line, word.clone()));
            }
            before = word;
        }
    }
    found
}

/// Comment lines that are too long. Tables, links and blocks of code cannot be wrapped.
fn wide(text: &str) -> Vec<(usize, String)> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            in_code = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        in_code ^= comment.starts_with("```");
        let is_wide = line.chars().count() > COLUMNS_MAX && !line.contains("://");
        if is_wide && !in_code && !comment.starts_with('|') {
            found.push((number, line.trim().to_owned()));
        }
    }
    found
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a crate is in crates/")
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Rust sources, relative to the repository, in order.
fn sources() -> Vec<String> {
    let root = repository();
    let (mut found, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder can be listed").flatten() {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap_or_default());
            let is_ignored = name.starts_with('.')
                || ["target", "__pycache__"].contains(&name.as_str())
                || name == "data" && folder == root;
            if path.is_dir() && !is_ignored {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let path = path.strip_prefix(&root).expect("it is in the repository");
                found.extend(path.to_str().map(str::to_owned));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_rules_find_what_they_ban() {
    let found =
        banned_words("let heirs = 1;\n/// Not so\n/// many. Estimates, forward.", &["heir", "ward", "mate"]);
    assert_eq!(found, [(1, "heirs".to_owned()), (3, "many".to_owned())]);
    let source = format!("// {0}\nlet x = \"{0}\";\n/// ```text\n/// {0}\n/// ```\n//! {0}", "x".repeat(100));
    assert_eq!(wide(&source).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 6]);
}
