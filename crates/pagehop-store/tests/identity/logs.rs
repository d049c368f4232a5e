//! An index and its log belong together: logs that are missing, moved, copied or exchanged.

use super::*;

#[test]
fn an_index_without_its_log_is_an_error() {
    let scratch = Scratch::new("no-log");
    let (path, log, kept) = (scratch.path("x"), scratch.path("x-log"), scratch.path("kept"));
    unclosed(&path);
    fs::rename(&log, &kept).unwrap();
    for options in [reading(), writing()] {
        let error = expect_error(open(&path, &options), &["x-log", "missing"]);
        assert!(matches!(error, Error::Format { .. }), "{error:?}");
    }
    for cut in [0, 8192, 9000] {
        fs::copy(&kept, &log).unwrap();
        File::options().write(true).open(&log).unwrap().set_len(cut).unwrap();
        let opened = rows_at(&path);
        if cut == 0 {
            expect_error(opened, &["x-log"]);
        }
    }
    fs::rename(&kept, &log).unwrap();
    assert_eq!(rows_at(&path).unwrap(), 100);
}

#[test]
fn a_log_whose_header_is_damaged_twice_says_what_can_be_done() {
    let scratch = Scratch::new("log-header");
    let (path, log) = (scratch.path("x"), scratch.path("x-log"));
    unclosed(&path);
    let whole = fs::read(&log).unwrap();
    let mut damaged = whole.clone();
    damaged[30] ^= 1;
    fs::write(&log, &damaged).unwrap();
    assert_eq!(rows_at(&path).unwrap(), 100, "the second copy is whole");
    damaged[4096 + 30] ^= 1;
    fs::write(&log, &damaged).unwrap();
    for options in [reading(), writing()] {
        expect_error(open(&path, &options), &["x-log", "Bring back a copy of the index and its log"]);
    }
    fs::write(&log, &whole).unwrap();
    assert_eq!(rows_at(&path).unwrap(), 100);
}

#[test]
fn a_log_that_is_removed_in_use_is_brought_into_the_index() {
    let scratch = Scratch::new("log-removed");
    let (path, log) = (scratch.path("x"), scratch.path("x-log"));
    empty(&path);
    for close in [true, false] {
        let index = open(&path, &writing()).unwrap();
        let first = rows_of(&index);
        let mut other = Other::new();
        assert_eq!(other.ask("read", &path), "open");
        add_rows!(index, first, 100).unwrap();
        assert_eq!(other.ask("rows", &path), (first + 100).to_string());
        fs::remove_file(&log).unwrap();
        add_rows!(index, first + 100, 100).unwrap();
        assert!(log.exists(), "there is a new one");
        assert_eq!(other.ask("rows", &path), (first + 200).to_string());
        fs::remove_file(&log).unwrap();
        if close {
            index.into_pages().close().unwrap();
        } else {
            drop(index);
        }
        assert_eq!(other.ask("rows", &path), (first + 200).to_string());
        other.leave();
        assert_eq!(rows_at(&path).unwrap(), first + 200);
    }
    // If the log of a writer that was killed is removed, the error says so.
    let mut other = Other::new();
    other.ask("write", &path);
    other.ask("add", &path);
    fs::remove_file(&log).unwrap();
    other.kill();
    expect_error(rows_at(&path), &["x-log", "missing"]);
}

#[test]
fn a_file_of_two_names_is_not_written() {
    let scratch = Scratch::new("hard-link");
    let (path, twin) = (scratch.path("x"), scratch.path("twin"));
    empty(&path);
    fs::hard_link(&path, &twin).unwrap();
    for path in [&path, &twin] {
        let error = expect_error(open(path, &writing()), &["2 names"]);
        assert!(matches!(error, Error::Argument { .. }));
        assert_eq!(rows_at(path).unwrap(), 0);
    }
    fs::remove_file(&twin).unwrap();
    let index = open(&path, &writing()).unwrap();
    // The file gets a second name while the index is open. Under that name it cannot be opened: a
    // reader would miss commits, and a writer would be the second one.
    fs::hard_link(&path, &twin).unwrap();
    add_rows!(index, 0, 100).unwrap();
    expect_error(open(&twin, &writing()), &["2 names"]);
    expect_error(open(&twin, &reading()), &["hard link"]);
    drop(index);
    expect_error(rows_at(&twin), &["twin-log", "missing"]);
    assert_eq!(rows_at(&path).unwrap(), 100);
}

#[test]
fn an_index_goes_nowhere_without_its_log() {
    let scratch = Scratch::new("moved");
    let (path, other) = (scratch.path("x"), scratch.path("y"));
    unclosed(&path);
    fs::copy(&path, &other).unwrap();
    expect_error(rows_at(&other), &["y-log", "missing"]);
    fs::copy(beside(&path, "-log"), beside(&other, "-log")).unwrap();
    assert_eq!(rows_at(&other).unwrap(), 100);
    fs::remove_file(beside(&other, "-log")).unwrap();
    fs::rename(&path, &other).unwrap();
    expect_error(rows_at(&other), &["y-log", "missing"]);
    expect_error(open(&other, &writing()), &["y-log", "missing"]);
    fs::rename(beside(&path, "-log"), beside(&other, "-log")).unwrap();
    assert_eq!(rows_at(&other).unwrap(), 100);
    // After it is closed, the index is one file.
    open(&other, &writing()).unwrap().into_pages().close().unwrap();
    fs::rename(&other, &path).unwrap();
    fs::copy(&path, &other).unwrap();
    assert_eq!((rows_at(&path).unwrap(), rows_at(&other).unwrap()), (100, 100));
}

#[test]
fn a_checkpoint_leaves_an_index_that_is_whole_by_itself() {
    let scratch = Scratch::new("checkpoint");
    let (path, copy) = (scratch.path("x"), scratch.path("copy"));
    empty(&path);
    let index = open(&path, &writing()).unwrap();
    for round in 1..4 {
        add_rows!(index, (round - 1) * 100, 100).unwrap();
        index.pages().checkpoint().unwrap();
        fs::copy(&path, &copy).unwrap();
        assert_eq!(rows_at(&copy).unwrap(), round * 100);
    }
}

#[test]
fn a_log_of_another_copy_is_not_taken_for_its_own() {
    let scratch = Scratch::new("swapped");
    let (a, b) = (scratch.path("a"), scratch.path("b"));
    empty(&a);
    fs::copy(&a, &b).unwrap();
    for (path, rows) in [(&a, 100), (&b, 70)] {
        let index = open(path, &writing()).unwrap();
        add_rows!(index, 0, rows).unwrap();
        drop(index);
    }
    let (log_a, log_b, kept) = (beside(&a, "-log"), beside(&b, "-log"), scratch.path("kept"));
    fs::rename(&log_a, &kept).unwrap();
    fs::rename(&log_b, &log_a).unwrap();
    fs::rename(&kept, &log_b).unwrap();
    for path in [&a, &b] {
        expect_error(rows_at(path), &["-log", "do not belong together"]);
    }
}

#[test]
fn copies_of_different_times_do_not_go_together() {
    let scratch = Scratch::new("times");
    let (path, log) = (scratch.path("x"), scratch.path("x-log"));
    let keep = |name: &str| {
        fs::copy(&path, scratch.path(&format!("{name}-x"))).unwrap();
        if log.exists() {
            fs::copy(&log, scratch.path(&format!("{name}-log"))).unwrap();
        }
    };
    let bring = |index: &str, of_log: &str| {
        fs::copy(scratch.path(&format!("{index}-x")), &path).unwrap();
        fs::copy(scratch.path(&format!("{of_log}-log")), &log).unwrap();
    };
    empty(&path);
    keep("clean");
    let index = open(&path, &writing()).unwrap();
    add_rows!(index, 0, 100).unwrap();
    keep("first");
    index.pages().checkpoint().unwrap();
    add_rows!(index, 100, 100).unwrap();
    keep("second");
    drop(index);
    bring("second", "second");
    assert_eq!(rows_at(&path).unwrap(), 200);
    bring("first", "first");
    assert_eq!(rows_at(&path).unwrap(), 100);
    bring("clean", "first");
    expect_error(rows_at(&path), &["older"]);
    bring("clean", "second");
    expect_error(rows_at(&path), &["older"]);
    bring("first", "second");
    expect_error(rows_at(&path), &["do not belong together"]);
    bring("second", "first");
    expect_error(rows_at(&path), &["do not belong together"]);
}
