//! Changes that are refused or interrupted give a clear error, and each row is added completely or
//! not at all.

use std::fs;

use crate::support::{Folder, Run, Running, json_lines, unchanged, vectors};

/// A folder with `i`, an index of `rows` rows of 16 dimensions.
fn folder_with(rows: usize) -> Folder {
    let folder = Folder::new();
    folder.index(&vectors(rows, 16, 1), "");
    fs::rename(folder.path("items.pagehop"), folder.path("i")).unwrap();
    folder
}

#[test]
fn another_dimension_is_refused_before_anything_is_written() {
    let folder = folder_with(300);
    folder.fbin("wide.fbin", &vectors(50, 17, 1));
    let before = fs::read(folder.path("i")).unwrap();
    let error = folder.run("add i wide.fbin").error(2);
    assert!(error.contains("wide.fbin has 17 dimensions, i has 16"), "{error}");
    assert!(unchanged(&folder.path("i"), &before));
    assert_eq!(folder.names(), ["i", "items.fbin", "wide.fbin"]);
}

#[test]
fn an_invalid_row_is_named_and_earlier_batches_stay() {
    let folder = folder_with(300);
    let mut items = vectors(1000, 16, 2);
    items[777][3] = f32::NAN;
    folder.fbin("bad.fbin", &items);
    let error = folder.run("add i bad.fbin --batch 250").error(2);
    assert!(error.contains("bad.fbin: row 777 (id 777)"), "{error}");
    assert!(error.contains("the first 750 of 1,000 rows of bad.fbin are in i; the same command with --resume"));
    assert_eq!(folder.rows("i"), 750);
    folder.run("check i").ok();
    // If the first batch fails, there is nothing to resume.
    let error = folder.run("add i bad.fbin").error(2);
    assert!(error.contains("row 777") && !error.contains("--resume"), "{error}");
}

#[test]
fn invalid_ids_are_refused() {
    let folder = folder_with(300);
    for (name, bytes, expected) in [
        ("words.txt", "1\ntwo\n", "line 2 is \"two\""),
        ("negative.txt", "-1\n", "line 1 is \"-1\""),
        ("ids.npy", "no array", "ids.npy"),
    ] {
        folder.write(name, bytes);
        let error = folder.run(&format!("delete i {name}")).error(1);
        assert!(error.contains(name) && error.contains(expected), "{error}");
    }
    assert_eq!(folder.rows("i"), 300);
    folder.write("few.txt", "1\n2\n");
    let error = folder.run("add i items.fbin --ids few.txt").error(1);
    assert!(error.contains("holds 2 ids for 300 vectors"), "{error}");
}

#[test]
fn a_file_that_is_no_index_is_not_changed() {
    let folder = folder_with(10);
    let text = folder.write("text", "name,vector\n".repeat(5000));
    folder.write("ids.txt", "1\n");
    for line in ["add text items.fbin", "delete text ids.txt", "vacuum text", "checkpoint text"] {
        let error = folder.run(line).error(1);
        assert!(error.contains("text is not a Pagehop index"), "pagehop {line}: {error}");
    }
    assert!(unchanged(&text, "name,vector\n".repeat(5000).as_bytes()));
    assert_eq!(folder.names(), ["i", "ids.txt", "items.fbin", "text"]);
}

#[test]
fn one_process_writes_while_others_read() {
    let folder = Folder::new();
    folder.fbin("items.fbin", &vectors(20_000, 16, 1));
    folder.write("ids.txt", "1\n");
    folder.run("create i --dim 16").ok();
    let writer = Running::add(&folder, "add i items.fbin --batch 100", "i", 500);
    writer.signal("-STOP");
    for line in ["add i items.fbin", "delete i ids.txt", "vacuum i", "checkpoint i"] {
        let error = folder.run(line).error(2);
        assert!(
            error.contains("another process is writing /") && error.contains("/i, "),
            "pagehop {line}: {error}"
        );
    }
    let rows = folder.rows("i");
    assert!(rows >= 500);
    assert_eq!(folder.run("search i items.fbin -k 1").ok().lines().count(), 20_000);
    writer.signal("-CONT");
    writer.signal("-INT");
    writer.end().error(130);
    assert!(folder.rows("i") >= rows);
    folder.run("delete i ids.txt").ok();
}

#[test]
fn an_interrupted_import_says_how_to_continue() {
    let folder = Folder::new();
    folder.fbin("items.fbin", &vectors(6_000, 16, 1));
    folder.run("create i --dim 16").ok();
    let writer = Running::add(&folder, "add i items.fbin --batch 100", "i", 500);
    writer.signal("-INT");
    let error = writer.end().error(130);
    assert!(error.starts_with("error: interrupted; the first "), "{error}");
    assert!(error.contains("of 6,000 rows of items.fbin are in i; the same command with --resume"), "{error}");
    // The command ended in order: there are no files beside the index.
    assert_eq!(folder.names(), ["i", "items.fbin"]);
    let rows = folder.rows("i");
    assert!((500..6_000).contains(&rows) && rows.is_multiple_of(100), "{rows} rows");
    let rest = json_lines(&folder.run("add i items.fbin --resume --json").ok()).remove(0);
    assert_eq!((rest["first_row"].as_u64(), rest["added"].as_u64()), (Some(rows), Some(6_000 - rows)));
    folder.run("check i").ok();
}

#[test]
fn a_full_disk_keeps_what_was_added() {
    let folder = Folder::new();
    folder.fbin("items.fbin", &vectors(1500, 960, 1));
    folder.run("create i --dim 960").ok();
    // The limit of 9 MiB stands for a full disk: the file of shared memory fits, and the log does
    // not.
    let script = "trap '' XFSZ; ulimit -f 9216; exec \"$@\" add i items.fbin --batch 100";
    let error = Run::of(&mut folder.shell(script)).error(1);
    assert!(error.contains("i-log") && error.contains("--resume continues after them"), "{error}");
    let rows = folder.rows("i");
    assert!((100..1500).contains(&rows) && rows.is_multiple_of(100), "{rows} rows: {error}");
    folder.run("check i").ok();
    let rest = json_lines(&folder.run("add i items.fbin --resume --json").ok()).remove(0);
    assert_eq!((rest["first_row"].as_u64(), rest["added"].as_u64()), (Some(rows), Some(1500 - rows)));
    assert_eq!(folder.names(), ["i", "items.fbin"]);
    folder.run("check i").ok();
}

#[test]
fn an_index_without_write_permission_is_not_changed() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder_with(100);
    folder.write("ids.txt", "1\n");
    let allow = |name: &str, mode| {
        fs::set_permissions(folder.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    allow("i", 0o444);
    if fs::File::options().write(true).open(folder.path("i")).is_ok() {
        eprintln!("skipped: this user may write everything");
        return;
    }
    let lines = ["add i items.fbin", "delete i ids.txt", "vacuum i", "checkpoint i"];
    for line in lines {
        let error = folder.run(line).error(1);
        assert!(error.contains("cannot open i for writing"), "pagehop {line}: {error}");
    }
    allow("i", 0o644);
    allow("", 0o555);
    for line in lines {
        let error = folder.run(line).error(1);
        assert!(error.contains("i-shared"), "pagehop {line}: {error}");
    }
    assert_eq!(folder.rows("i"), 100);
    allow("", 0o755);
    folder.run("delete i ids.txt").ok();
}
