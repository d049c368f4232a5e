//! Documents name only files that exist.
//!
//! A path is whole, or below the folder of its document, or below the folder that a sentence says:
//! "Paths are below `postgres/src/`". Such a sentence holds until its section ends, and takes the
//! place of those of the sections around it. A name without a folder may also be the end of a path
//! that the document gave before, since the last such sentence.

use std::collections::BTreeSet;

use crate::assert_none;
use crate::sources::{files, read};

/// A word in backticks that ends like this is taken for a file of this repository.
const REPOSITORY_ENDINGS: [&str; 11] =
    [".rs", ".py", ".pyi", ".md", ".toml", ".sql", ".sh", ".yml", ".lock", ".lua", ".js"];
/// Says the folder of the paths that follow.
const BELOW: &str = "are below `";
/// Words that are no paths of this repository, with their documents, and the reason.
const NOT_PATHS: [(&str, &str, &str); 4] = [
    ("ARCHITECTURE.md", "errors.rs", "each face has one"),
    ("CONTRIBUTING.md", "mod.rs", "many folders have one"),
    ("lab/README.md", "report/", "a run makes it"),
    ("lab/ten-minutes.md", "mine.py", "the reader makes it"),
];

/// The files and folders of the repository.
struct Tree {
    files: BTreeSet<String>,
    /// With a `/` at the end.
    folders: BTreeSet<String>,
}

impl Tree {
    fn new(files: impl IntoIterator<Item = String>) -> Self {
        let files: BTreeSet<String> = files.into_iter().collect();
        let ends = |path: &str| path.match_indices('/').map(|(at, _)| at + 1).collect::<Vec<_>>();
        let folders =
            files.iter().flat_map(|path| ends(path).into_iter().map(|end| path[..end].to_owned())).collect();
        Self { files, folders }
    }

    /// The path of `word` below `place`, if it exists.
    fn below(&self, place: &str, word: &str) -> Option<String> {
        let path = format!("{place}{word}");
        let exists = if word.ends_with('/') {
            self.folders.contains(&path)
        } else {
            self.files.contains(&path) || self.folders.contains(&format!("{path}/"))
        };
        exists.then_some(path)
    }

    /// Whether `word` is the name of a file or a folder of this repository, if it is one at all.
    fn is_path(&self, places: &[&str], word: &str) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        if !word.chars().all(plain) || word.starts_with(['/', '.']) || word.contains("//") {
            return false;
        }
        let in_folder = |(top, _)| places.iter().any(|place| self.folders.contains(&format!("{place}{top}/")));
        REPOSITORY_ENDINGS.iter().any(|ending| word.ends_with(ending) && word.len() > ending.len())
            || word.ends_with('/')
            || word.split_once('/').is_some_and(in_folder)
    }

    /// The words of a document that are paths and lead to nothing, with their lines.
    fn missing(&self, document: &str, text: &str) -> Vec<(usize, String)> {
        let own = document.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        let mut below: Vec<(usize, String)> = Vec::new();
        let mut given = BTreeSet::new();
        let is_listed = |word: &str| NOT_PATHS.iter().any(|(of, name, _)| (*of, *name) == (document, word));
        let (mut depth, mut in_code, mut wrong) = (0, false, Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            in_code ^= line.starts_with("```");
            if line.starts_with('#') && !in_code {
                depth = line.len() - line.trim_start_matches('#').len();
                below.retain(|(at, _)| *at < depth);
            }
            if let Some((_, after)) = line.split_once(BELOW) {
                below.retain(|(at, _)| *at < depth);
                below.push((depth, after.split('`').next().unwrap_or_default().to_owned()));
                given.clear();
            }
            let said = below.last().map_or("", |(_, folder)| folder);
            let places = ["", &own, said];
            for word in line.split('`').skip(1).step_by(2) {
                let word = word.strip_prefix("./").unwrap_or(word);
                if !self.is_path(&places, word) || is_listed(word) {
                    continue;
                }
                match places.iter().find_map(|place| self.below(place, word)) {
                    Some(path) => drop(given.insert(path)),
                    None if given.iter().any(|path: &String| is_end_of(path, word)) => {}
                    None => wrong.push((number, word.to_owned())),
                }
            }
        }
        wrong
    }
}

/// Whether `word` is the name of the file at `path`.
fn is_end_of(path: &str, word: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(_, name)| name == word)
}

#[test]
fn documents_name_files_that_exist() {
    let tree = Tree::new(files(&[""]));
    let documents: Vec<&String> = tree.files.iter().filter(|path| path.ends_with(".md")).collect();
    for folder in ["", "docs/", "docs/decisions/", "lab/", "adapters/", "examples/"] {
        assert!(documents.iter().any(|path| path.starts_with(folder)), "no document of {folder} is read");
    }
    let mut wrong = Vec::new();
    for document in documents {
        let missing = tree.missing(document, &read(document));
        wrong.extend(missing.iter().map(|(number, word)| format!("{document}:{number}: {word} does not exist")));
    }
    assert_none(&wrong);
}

#[test]
fn a_path_that_leads_to_nothing_is_found() {
    let paths = ["a/src/vacuum.rs", "b/src/vacuum.rs", "b/src/build.rs", "b/src/in/mod.rs", "docs/c.md"];
    let tree = Tree::new(paths.map(str::to_owned));
    let missing =
        |text: &str| tree.missing("docs/c.md", text).into_iter().map(|(_, word)| word).collect::<Vec<_>>();
    assert_eq!(missing("`a/src/vacuum.rs`, `b/src/in/`, `b/src`, `c.md`, `docs/c.md`"), [""; 0]);
    assert_eq!(missing("`items.npy`, `a b.rs`, `l2/ip`, `.rs`, `/etc/a.toml`"), [""; 0]);
    assert_eq!(
        missing("`a/src/build.rs`, `a/in/`, `b/srk`, `in/`, `d.md`"),
        ["a/src/build.rs", "a/in/", "b/srk", "in/", "d.md"]
    );
    // A name alone is not enough, if the document did not give its path before.
    assert_eq!(missing("`build.rs`, `b/src/build.rs`\n`build.rs`"), ["build.rs"]);
    // A section says where its paths are, and the sections below it may say otherwise.
    let text = "# C\nPaths are below `b/src/`: `build.rs`, `in/mod.rs`, `in/gone`\n## D\nThey are below `a/src/`.\n\
                `vacuum.rs`, `build.rs`\n## E\n`build.rs`";
    assert_eq!(missing(text), ["in/gone", "build.rs"]);
}
