//! No two files of a crate import each other, directly or through other files.

use std::collections::{BTreeMap, BTreeSet};

use crate::assert_none;
use crate::imports::{Crate, circles};
use crate::sources::source_folders;

/// Files that may still be in a circle, as `folder: file`. Names may be removed from this list, but
/// none may be added.
const IN_CIRCLES: [&str; 0] = [];

#[test]
fn files_do_not_import_each_other_in_circles() {
    let mut wrong = Vec::new();
    for (folder, sources) in source_folders() {
        let source_files = Crate::new(&sources);
        let imports = source_files.imports();
        // In a crate of three files, it may be that no file imports another.
        let found = imports.values().map(BTreeSet::len).sum::<usize>();
        assert!(found > 0 || sources.len() <= 3, "{folder}: no file imports another");
        for circle in circles(&imports) {
            let is_allowed = |file: &String| IN_CIRCLES.contains(&format!("{folder}: {file}").as_str());
            if !circle.iter().all(is_allowed) {
                wrong.push(format!("{folder}: {}", described(&circle, &imports)));
            }
        }
    }
    assert_none(&wrong);
}

fn described(circle: &[String], imports: &BTreeMap<&str, BTreeSet<&str>>) -> String {
    let line = |file: &String| {
        let others: Vec<&str> = imports[file.as_str()]
            .iter()
            .copied()
            .filter(|other| circle.iter().any(|file| file == other))
            .collect();
        format!("\n    {file} -> {}", others.join(", "))
    };
    circle.iter().map(line).collect()
}
