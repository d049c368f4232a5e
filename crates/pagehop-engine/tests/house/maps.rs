//! Maps: a table or a list of files in the head of a `mod.rs`, `lib.rs` or `main.rs` names all of
//! them.

use crate::assert_none;
use crate::sources::{files, is_source, read};

/// Every folder below this has a map.
const MAPPED: &str = "crates/pagehop-engine/src";
const TABLE: &str = "//! |";
const LIST: &str = "//! - `";
/// Files that may have a map.
const ROOTS: [&str; 3] = ["mod.rs", "lib.rs", "main.rs"];

#[test]
fn a_map_names_every_file_and_folder_beside_it() {
    let paths: Vec<String> = files(&[".rs"]).into_iter().filter(|path| is_source(path)).collect();
    let (mut wrong, mut maps) = (Vec::new(), Vec::new());
    for path in &paths {
        let (folder, own) = path.rsplit_once('/').expect("it is in a folder");
        let head = head(&read(path));
        if !ROOTS.contains(&own) || names_in(&head).is_empty() && !folder.starts_with(MAPPED) {
            continue;
        }
        maps.push(folder);
        wrong.extend(breaches(folder, own, &head, &paths).iter().map(|what| format!("{path} {what}")));
    }
    assert_none(&wrong);
    for folder in ["crates/pagehop-sim/src/workload", "crates/pagehop-store/src/log", "postgres/src/pages"] {
        assert!(maps.contains(&folder), "the map of {folder} is not found");
    }
}

/// What is wrong with the map in `head` of the file `own` in `folder`.
fn breaches(folder: &str, own: &str, head: &str, paths: &[String]) -> Vec<String> {
    let beside = beside(folder, paths);
    let is_named = |name: &str| match name.ends_with('/') {
        true => head.contains(&format!("`{name}")), // the folder, or files in it
        false => head.contains(&format!("`{name}`")),
    };
    let unnamed = beside.iter().filter(|name| *name != own && !is_named(name));
    let gone = names_in(head).into_iter().filter(|name| {
        let place = format!("{folder}/{name}");
        !paths.iter().any(|path| *path == place || name.ends_with('/') && path.starts_with(&place))
    });
    let unnamed = unnamed.map(|name| format!("does not name {name}"));
    unnamed.chain(gone.map(|name| format!("names {name}, which does not exist"))).collect()
}

/// The lines at the top of a file that say what it is.
pub(crate) fn head(text: &str) -> String {
    text.lines().take_while(|line| line.starts_with("//!")).map(|line| format!("{line}\n")).collect()
}

/// Names of the files in a folder, and of its folders, which end in `/`.
fn beside(folder: &str, paths: &[String]) -> Vec<String> {
    let below = paths.iter().filter_map(|path| path.strip_prefix(folder)?.strip_prefix('/'));
    let mut names: Vec<String> = below
        .map(|path| match path.split_once('/') {
            Some((inner, _)) => format!("{inner}/"),
            None => path.to_owned(),
        })
        .collect();
    names.dedup();
    names
}

/// Files and folders in the first column of a table, and before the colon of a line of a list.
pub(crate) fn names_in(head: &str) -> Vec<&str> {
    let cell = |line| str::strip_prefix(line, TABLE).and_then(|line| line.split('|').next());
    let item = |line: &'_ str| line.starts_with(LIST).then(|| line.split("`: ").next().unwrap_or(line).len());
    let places = head.lines().filter_map(|line| cell(line).or(item(line).map(|end| &line[..end])));
    let words = places.flat_map(|place| place.split('`').skip(1).step_by(2));
    words.filter(|word| word.ends_with(".rs") || word.ends_with('/')).collect()
}

#[test]
fn a_file_that_a_map_does_not_name_is_found() {
    let paths = ["a/mod.rs", "a/b.rs", "a/c/mod.rs", "a/c/d.rs"].map(str::to_owned);
    assert_eq!(beside("a", &paths), ["mod.rs", "b.rs", "c/"]);
    let table = "//! | `b.rs`, `c/` | see `e.rs` |\n\n//! | `f.rs` | later |\n";
    assert_eq!(names_in(&head(table)), ["b.rs", "c/"]);
    let list = "//! - `b.rs`, `g.rs`: unlike `e.rs`\n//! - `Kind`: a type\n";
    assert_eq!(names_in(list), ["b.rs", "g.rs"]);
    let wrong = ["does not name c/", "names g.rs, which does not exist"];
    assert_eq!(breaches("a", "mod.rs", list, &paths), wrong);
}
