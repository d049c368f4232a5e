//! Documents name only files that exist.

use crate::assert_none;
use crate::sources::{files, read};

/// Documents whose paths are checked, besides all files in `docs/`.
const DOCUMENTS: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "lab/README.md",
    "lab/servers.md",
    "lab/loadgen/README.md",
];
/// A word in backticks that ends like this is taken for a file of this repository.
const REPOSITORY_ENDINGS: [&str; 9] = [".rs", ".py", ".pyi", ".md", ".toml", ".sql", ".sh", ".yml", ".lock"];

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

/// Whether a word in backticks is the name of a file or a folder of this repository.
fn names_a_file(word: &str) -> bool {
    let word = word.strip_prefix("./").unwrap_or(word);
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if !word.chars().all(plain) || word.starts_with(['/', '.']) || word.contains("//") {
        return false;
    }
    let top = word.split('/').next().unwrap_or_default();
    let of_repository = ["crates", "docs", "python", "postgres", "servers", "lab", "fuzz", "tests"];
    REPOSITORY_ENDINGS.iter().any(|ending| word.ends_with(ending) && word.len() > ending.len())
        || word.contains('/') && of_repository.contains(&top)
}

#[test]
fn words_that_are_no_files_are_not_taken_for_files() {
    assert!(names_a_file("page/layout.rs") && names_a_file("docs/format.md"));
    assert!(!names_a_file("items.npy") && !names_a_file("a b.rs") && !names_a_file("l2/ip"));
}
