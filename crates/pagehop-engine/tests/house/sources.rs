//! The files of the repository, and the parts of a source that ship.

use std::fs;
use std::path::{Path, PathBuf};

use crate::text::{blank_comments_and_strings, blank_tests};

pub(crate) const ENGINE: &str = "crates/pagehop-engine/src";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a crate is in crates/")
}

/// Every file whose name ends in one of `endings`, relative to the repository, sorted. What git
/// ignores is left out.
pub(crate) fn files(endings: &[&str]) -> Vec<String> {
    let root = repository();
    let ignored = read(".gitignore");
    let ignored: Vec<_> =
        ignored.lines().filter_map(|line| Some(root.join(line.strip_prefix('/')?.strip_suffix('/')?))).collect();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("it was listed").flatten() {
            let path = entry.path();
            let name = entry.file_name().into_string().unwrap_or_default();
            let kind = entry.file_type().expect("its folder can be read");
            if kind.is_dir() {
                let is_made = ["target", "node_modules", "__pycache__"].contains(&name.as_str());
                if !is_made && !ignored.contains(&path) && (!name.starts_with('.') || name == ".ci") {
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

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn is_shipped(path: &str) -> bool {
    let in_src = path.starts_with("crates/") && path.contains("/src/")
        || path.starts_with("python/src/")
        || path.starts_with("postgres/src/");
    in_src && !path.ends_with("/tests.rs") && !path.contains("/tests/")
}

/// Whether a file is code that ships, or the lab's load generator.
pub(crate) fn is_source(path: &str) -> bool {
    is_shipped(path) || path.starts_with("lab/loadgen/src/") && !path.ends_with("/tests.rs")
}

/// The sources in a folder `src/`, with paths below it.
pub(crate) fn sources_of(folder: &str) -> Vec<(String, String)> {
    source_folders().into_iter().find(|(name, _)| name == folder).expect("the crate has sources").1
}

/// Every folder of sources with its files, which are pairs of a path below the folder and the code
/// without comments, strings and tests.
pub(crate) fn source_folders() -> Vec<(String, Vec<(String, String)>)> {
    let mut folders: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for path in files(&[".rs"]).into_iter().filter(|path| is_source(path)) {
        let (folder, below) = path.split_once("/src/").expect("sources are in src/");
        // Files of tests, and programs, which are roots of other crates, are left out.
        if below.ends_with("tests.rs") || below.contains("/tests/") || below.starts_with("bin/") {
            continue;
        }
        let folder = format!("{folder}/src");
        let code = blank_tests(blank_comments_and_strings(&read(&path)));
        match folders.last_mut().filter(|(last, _)| *last == folder) {
            Some((_, sources)) => sources.push((below.to_owned(), code)),
            None => folders.push((folder, vec![(below.to_owned(), code)])),
        }
    }
    assert!(folders.len() > 6, "{} folders of sources", folders.len());
    folders
}
