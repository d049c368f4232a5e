//! Files that are renamed in use, mounts, cleaners, and paths that are not files.

use super::*;

#[test]
fn an_index_that_is_renamed_in_use_keeps_its_log() {
    let scratch = Scratch::new("renamed");
    let (path, moved) = (scratch.path("x"), scratch.path("moved"));
    empty(&path);
    let index = open(&path, &writing()).unwrap();
    add_rows!(index, 0, 100).unwrap();
    fs::rename(&path, &moved).unwrap();
    expect_error(open(&moved, &writing()), &["another process is writing"]);
    expect_error(open(&moved, &reading()), &["moved-shared"]);
    // Another index gets the old name, and its writer uses the name of the log.
    empty(&path);
    let new = open(&path, &writing()).unwrap();
    add_rows!(new, 0, 7).unwrap();
    add_rows!(index, 100, 100).unwrap();
    drop(index);
    assert_eq!(rows_of(&new), 7);
    drop(new);
    let found = [rows_at(&path), rows_at(&moved)];
    for (found, expected) in found.into_iter().zip([7, 200]) {
        // Two indexes used one name for their logs. If commits are missing, the error says so.
        match found {
            Ok(rows) => assert_eq!(rows, expected),
            Err(error) => assert!(error.to_string().contains("missing"), "{error}"),
        }
    }
}

#[test]
fn a_mounted_file_has_one_writer() {
    let scratch = Scratch::new("mount-file");
    let (path, folder) = (scratch.path("x"), scratch.path("elsewhere"));
    fs::create_dir(&folder).unwrap();
    let mounted = folder.join("y");
    File::create(&mounted).unwrap();
    empty(&path);
    let Some(mut other) = Other::with_mount(&path, &mounted) else { return };
    let index = open(&path, &writing()).unwrap();
    add_rows!(index, 0, 100).unwrap();
    assert!(other.ask("write", &mounted).contains("another process is writing"));
    // The files beside the other name are not those of the writer.
    assert!(other.ask("read", &mounted).contains("bind mount"));
    drop(index);
    let answer = other.ask("read", &mounted);
    assert!(answer.contains("y-log is missing"), "{answer}");
    open(&path, &writing()).unwrap().into_pages().close().unwrap();
    assert_eq!(other.ask("write", &mounted), "open");
    expect_error(open(&path, &writing()), &["another process is writing"]);
    assert_eq!(other.ask("add", &mounted), "added");
    other.leave();
    expect_error(rows_at(&path), &["x-log", "missing"]);
}

#[test]
fn two_mounts_of_a_directory_are_one_place() {
    let scratch = Scratch::new("mount-folder");
    let (home, container) = (scratch.path("home"), scratch.path("container"));
    fs::create_dir(&home).unwrap();
    fs::create_dir(&container).unwrap();
    let (path, mounted) = (home.join("x"), container.join("x"));
    empty(&path);
    let Some(mut other) = Other::with_mount(&home, &container) else { return };
    let index = open(&path, &writing()).unwrap();
    assert_eq!(other.ask("read", &mounted), "open");
    add_rows!(index, 0, 100).unwrap();
    assert_eq!(other.ask("rows", &mounted), "100");
    assert!(other.ask("write", &mounted).contains("another process is writing"));
    index.into_pages().close().unwrap();
    assert_eq!(other.ask("write", &mounted), "open");
    assert_eq!(other.ask("add", &mounted), "added");
    expect_error(open(&path, &writing()), &["another process is writing"]);
    assert_eq!(rows_at(&path).unwrap(), 200);
    other.kill();
    assert_eq!(rows_at(&path).unwrap(), 200);
}

#[test]
fn a_cleaner_takes_no_rows() {
    let scratch = Scratch::new("cleaner");
    let path = scratch.path("x");
    empty(&path);
    let index = open(&path, &writing()).unwrap();
    let before = open(&path, &reading()).unwrap();
    let stop = AtomicBool::new(false);
    let mut rows = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for ending in ["-log", "-shared"] {
                    let _ = fs::remove_file(beside(&path, ending));
                }
                std::thread::sleep(std::time::Duration::from_millis(3));
            }
        });
        for _ in 0..60 {
            add_rows!(index, rows, 10).unwrap();
            rows += 10;
            // A reader that was open before sees every row, or says why it does not.
            if let Ok(info) = before.info() {
                assert_eq!(info.rows, rows);
            }
        }
        expect_error(open(&path, &writing()), &["another process is writing"]);
        stop.store(true, Ordering::Relaxed);
    });
    drop(before);
    index.into_pages().close().unwrap();
    assert_eq!(rows_at(&path).unwrap(), rows);
}

#[test]
fn what_is_no_file_is_refused_by_name() {
    let scratch = Scratch::new("no-file");
    let folder = scratch.path("folder");
    fs::create_dir(&folder).unwrap();
    let pipe = scratch.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    for path in [folder, pipe].iter().filter(|path| path.exists()) {
        for options in [reading(), writing()] {
            expect_error(open(path, &options), &["is not a file", path.file_name().unwrap().to_str().unwrap()]);
        }
    }
    made.unwrap();
    symlink(scratch.path("nothing"), scratch.path("dangling")).unwrap();
    expect_error(open(&scratch.path("dangling"), &reading()), &["dangling", "No such file"]);
    expect_error(create(&scratch.path("dangling"), DIM, &CreateOptions::default(), false), &["dangling"]);
}
