//! One file under several names: relative paths, links, and a shared file that was removed.

use super::*;

#[test]
fn a_relative_path_means_the_same_file_when_the_directory_changes() {
    let scratch = Scratch::new("chdir");
    let (here, there) = (scratch.path("here"), scratch.path("there"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&there).unwrap();
    let mut other = Other::new();
    other.ask("go", &here);
    other.ask("create", Path::new("x"));
    assert_eq!(other.ask("write", Path::new("x")), "open");
    other.ask("go", &there);
    assert_eq!(other.ask("add", Path::new("")), "added");
    assert_eq!(other.ask("add", Path::new("")), "added");
    // A reader that opened the index before it had a log.
    let mut reader = Other::new();
    reader.ask("go", &here);
    assert_eq!(reader.ask("read", Path::new("x")), "open");
    reader.ask("go", &there);
    assert_eq!(other.ask("add", Path::new("")), "added");
    assert_eq!(reader.ask("rows", Path::new("")), "300");
    other.leave();
    reader.leave();
    assert_eq!(fs::read_dir(&there).unwrap().count(), 0, "nothing was written to the other directory");
    assert_eq!(rows_at(&here.join("x")).unwrap(), 300);
}

#[test]
fn a_build_gives_its_name_where_it_began() {
    let scratch = Scratch::new("chdir-build");
    let (here, there) = (scratch.path("here"), scratch.path("there"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&there).unwrap();
    let mut other = Other::new();
    other.ask("go", &here);
    assert_eq!(other.ask("begin", Path::new("x")), "begun");
    other.ask("go", &there);
    assert_eq!(other.ask("finish", Path::new("")), "finished");
    assert_eq!(fs::read_dir(&there).unwrap().count(), 0);
    assert_eq!(rows_at(&here.join("x")).unwrap(), 0);
}

#[test]
fn through_a_symbolic_link_it_is_the_same_index() {
    let scratch = Scratch::new("link");
    let (path, folder) = (scratch.path("x"), scratch.path("elsewhere"));
    fs::create_dir(&folder).unwrap();
    let link = folder.join("link");
    symlink(&path, &link).unwrap();
    empty(&path);
    let index = open(&path, &writing()).unwrap();
    add_rows!(index, 0, 100).unwrap();
    assert_eq!(rows_at(&link).unwrap(), 100);
    let error = expect_error(open(&link, &writing()), &["another process is writing"]);
    assert!(matches!(error, Error::Busy { .. }));
    drop(index);
    assert_eq!(rows_at(&link).unwrap(), 100);
    let index = open(&link, &writing()).unwrap();
    add_rows!(index, 100, 100).unwrap();
    index.into_pages().close().unwrap();
    assert_eq!(rows_at(&path).unwrap(), 200);
    assert_eq!(scratch.names(), ["elsewhere", "x"]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn a_writer_is_alone_when_the_shared_file_is_removed() {
    let scratch = Scratch::new("no-shared");
    let path = scratch.path("x");
    empty(&path);
    let index = open(&path, &writing()).unwrap();
    add_rows!(index, 0, 100).unwrap();
    fs::remove_file(beside(&path, "-shared")).unwrap();
    let error = expect_error(open(&path, &writing()), &["another process is writing"]);
    assert!(matches!(error, Error::Busy { .. }));
    let mut other = Other::new();
    assert!(other.ask("write", &path).contains("another process is writing"));
    // A reader would not be told of the next commit.
    let error = expect_error(open(&path, &reading()), &["x-shared", "removed"]);
    assert!(matches!(error, Error::Busy { .. }));
    add_rows!(index, 100, 100).unwrap();
    index.into_pages().close().unwrap();
    assert_eq!(rows_at(&path).unwrap(), 200);
    assert_eq!(other.ask("write", &path), "open");
    assert_eq!(other.ask("rows", &path), "200");
    other.ask("close", &path);
    assert_eq!(scratch.names(), ["x"]);
}

#[test]
fn a_writer_does_not_pass_a_reader_that_it_cannot_reach() {
    let scratch = Scratch::new("reader-no-shared");
    let path = scratch.path("x");
    unclosed(&path);
    let reader = open(&path, &reading()).unwrap();
    fs::remove_file(beside(&path, "-shared")).unwrap();
    expect_error(open(&path, &writing()), &["x-shared", "removed"]);
    assert_eq!(rows_of(&reader), 100);
    drop(reader);
    assert_eq!(rows_at(&path).unwrap(), 100);
}
