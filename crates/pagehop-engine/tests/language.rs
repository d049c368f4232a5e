//! Plain English as a test: words that CONTRIBUTING bans do not occur in sources, and comments
//! wrap.
//!
//! Every room has a largest number of breaches. It is a ratchet: numbers may only fall, and a room
//! that reached 0 stays clean. Documents have the same rules in `python/tests/test_documents.py`.

use std::fs;
use std::path::{Path, PathBuf};

/// A room (a folder, or the start of a path) and the largest numbers of banned words and of comment
/// lines over [`COLUMNS_MAX`] in it. A file belongs to the first room that its path starts with.
const ROOMS: [(&str, usize, usize); 9] = [
    ("crates/", 0, 0),
    ("python/", 0, 0),
    ("postgres/", 1, 0), // the system's user `nobody`
    ("release/", 0, 0),
    ("adapters/", 0, 0),
    ("examples/", 0, 2), // commands, which cannot be wrapped
    ("lab/loadgen/", 0, 0),
    ("servers/", 1, ANY), // the system's user `nobody`
    ("lab/", 1, ANY),     // a package whose name has the word
];

/// For rooms whose comments are not wrapped yet.
const ANY: usize = usize::MAX;

/// The line of CONTRIBUTING that lists the words.
const LIST: &str = "- Words that we do not use: ";
/// The file whose test uses banned words as examples.
const EXAMPLES: &str = "crates/pagehop-engine/tests/language.rs";

const COLUMNS_MAX: usize = 100;
/// Breaches of a room that a failure shows.
const SHOWN_MAX: usize = 50;

#[test]
fn banned_words_do_not_come_back() {
    let contributing = read("CONTRIBUTING.md");
    let (_, list) = contributing.split_once(LIST).expect("CONTRIBUTING lists the words");
    let list = list.split_once('.').expect("the list is a sentence").0;
    let banned: Vec<&str> = list.split(',').map(str::trim).collect();
    assert!(banned.len() > 8, "{banned:?}");
    assert_ratchet(|room| room.1, |text, _| banned_words(text, &banned));
}

#[test]
fn comments_wrap() {
    assert_ratchet(
        |room| room.2,
        |text, path| if path.ends_with(".rs") { wide_rust(text) } else { wide_python(text) },
    );
}

/// Fails if a room has more breaches than `most` allows, and names them all.
fn assert_ratchet(
    most: impl Fn(&(&str, usize, usize)) -> usize,
    breaches: impl Fn(&str, &str) -> Vec<(usize, String)>,
) {
    let mut found = vec![Vec::new(); ROOMS.len()];
    for path in sources() {
        let room = ROOMS.iter().position(|room| path.starts_with(room.0));
        if let Some(room) = room.filter(|_| path != EXAMPLES) {
            let breaches = breaches(&read(&path), &path);
            found[room].extend(breaches.into_iter().map(|(line, what)| format!("{path}:{line}: {what}")));
        }
    }
    for (room, found) in ROOMS.iter().zip(found) {
        let (count, most) = (found.len(), most(room));
        let shown = found[..count.min(SHOWN_MAX)].join("\n");
        assert!(count <= most, "{} has {count} breaches, {most} are allowed:\n{shown}", room.0);
    }
}

/// Banned words and the numbers of their lines. A word may end in `s`. Parts of names, such as
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
fn wide_rust(text: &str) -> Vec<(usize, String)> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            in_code = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        in_code ^= comment.starts_with("```");
        if !in_code && !comment.starts_with('|') && is_wide(line) {
            found.push((number, line.trim().to_owned()));
        }
    }
    found
}

/// The same for Python: comments on lines of their own, and documentation strings.
fn wide_python(text: &str) -> Vec<(usize, String)> {
    let (mut in_string, mut in_documentation) = (false, false);
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let start = line.trim_start();
        let begins = !in_string && start.starts_with("\"\"\"");
        let is_comment = !in_string && start.starts_with('#');
        if (is_comment || begins || in_documentation) && is_wide(line) {
            found.push((number, line.trim().to_owned()));
        }
        if line.matches("\"\"\"").count() % 2 == 1 {
            in_string = !in_string;
            in_documentation = in_string && begins;
        }
    }
    found
}

fn is_wide(line: &str) -> bool {
    line.chars().count() > COLUMNS_MAX && !line.contains("://")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a crate is in crates/")
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Rust and Python sources, relative to the repository, in order.
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
            } else if [".rs", ".py", ".pyi"].iter().any(|ending| name.ends_with(ending)) {
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
    let wide = format!("// {0}\nlet x = \"{0}\";\n/// ```text\n/// {0}\n/// ```\n//! {0}", "x".repeat(100));
    assert_eq!(wide_rust(&wide).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 6]);
    let wide = format!("# {0}\ny = \"\"\"\n# {0}\n\"\"\"\n\"\"\"Text\n {0}\n\"\"\"\ny = {0}", "x".repeat(100));
    assert_eq!(wide_python(&wide).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 6]);
}
