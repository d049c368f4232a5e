//! Maps: a table of files in the head of a `mod.rs` or `lib.rs` names all of them.

use crate::assert_none;
use crate::sources::{files, is_shipped, read};

/// Every folder below this has a map, as a table or as a list.
const MAPPED: &str = "crates/pagehop-engine/src";
const TABLE: &str = "//! |";

#[test]
fn a_map_names_every_file_and_folder_beside_it() {
    let paths: Vec<String> = files(&[".rs"]).into_iter().filter(|path| is_shipped(path)).collect();
    let (mut wrong, mut maps) = (Vec::new(), 0);
    for path in paths.iter().filter(|path| path.ends_with("/mod.rs") || path.ends_with("/src/lib.rs")) {
        let (folder, own) = path.rsplit_once('/').expect("it is in a folder");
        let head = head(&read(path));
        if !head.contains(TABLE) && !folder.starts_with(MAPPED) {
            continue;
        }
        maps += 1;
        let beside = beside(folder, &paths);
        let is_named = |name: &str| match name.ends_with('/') {
            true => head.contains(&format!("`{name}")), // the folder, or files in it
            false => head.contains(&format!("`{name}`")),
        };
        let unnamed = beside.iter().filter(|name| *name != own && !is_named(name));
        wrong.extend(unnamed.map(|name| format!("{path} does not name {name}")));
        let gone = names_in(&head).filter(|name| {
            let place = format!("{folder}/{name}");
            !paths.iter().any(|path| *path == place || name.ends_with('/') && path.starts_with(&place))
        });
        wrong.extend(gone.map(|name| format!("{path} names {name}, which does not exist")));
    }
    assert_none(&wrong);
    assert!(maps >= 10, "{maps} maps");
}

/// The lines at the top of a file that say what it is.
fn head(text: &str) -> String {
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

/// Files and folders in the first column of a table.
fn names_in(head: &str) -> impl Iterator<Item = &str> {
    let cells = head.lines().filter_map(|line| line.strip_prefix(TABLE)?.split('|').next());
    let words = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    words.filter(|word| word.ends_with(".rs") || word.ends_with('/'))
}

#[test]
fn a_file_that_a_map_does_not_name_is_found() {
    let paths = ["a/mod.rs", "a/b.rs", "a/c/mod.rs", "a/c/d.rs"].map(str::to_owned);
    assert_eq!(beside("a", &paths), ["mod.rs", "b.rs", "c/"]);
    let text = "//! | `b.rs`, `c/` | see `e.rs` |\n\n//! | `f.rs` | later |\n";
    assert_eq!(names_in(&head(text)).collect::<Vec<_>>(), ["b.rs", "c/"]);
}
