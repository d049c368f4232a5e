//! A build leaves a complete file, or the file that was there before.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Scratch, body_of, expect_body, open, this_command, write_pages};
use pagehop_engine::{Error, PageId, PageSink, Pages, Reader};
use pagehop_store::{NewIndexFile, OpenOptions};

/// Set for a child, which is this program started again: what it must do.
const CHILD: &str = "PAGEHOP_TEST_CHILD";

fn child(test: &str, path: &Path) -> Command {
    let mut command = this_command();
    command.args(["--exact", test, "--nocapture"]).env(CHILD, path);
    command
}

fn write_some(sink: &mut NewIndexFile, pages: u32) {
    for page in 1..pages {
        sink.write(PageId(page), &body_of(page)).unwrap();
    }
}

#[test]
fn nothing_is_left_of_an_unfinished_build() {
    let scratch = Scratch::new("unfinished");
    let path = scratch.path("items.pagehop");
    for pages in [1, 2, 1000] {
        let mut sink = NewIndexFile::create(&path, false).unwrap();
        write_some(&mut sink, pages);
        assert!(!path.exists());
        drop(sink);
        assert_eq!(scratch.names(), [""; 0]);

        let mut sink = NewIndexFile::create(&path, false).unwrap();
        write_some(&mut sink, pages);
        let error = sink.finish().unwrap_err();
        assert!(error.to_string().contains("page 0"), "{error}");
        assert_eq!(scratch.names(), [""; 0]);
    }
}

#[test]
fn the_old_file_stays_until_the_new_one_is_whole() {
    let scratch = Scratch::new("old-stays");
    let path = scratch.path("items.pagehop");
    write_pages(&path, 5);
    let mut sink = NewIndexFile::create(&path, true).unwrap();
    write_some(&mut sink, 300);
    sink.write(PageId(0), &body_of(0)).unwrap();
    assert_eq!(open(&path, &OpenOptions::default()).page_count(), 5);
    sink.finish().unwrap();
    assert_eq!(open(&path, &OpenOptions::default()).page_count(), 300);
    assert_eq!(scratch.names(), ["items.pagehop"]);
}

#[test]
fn what_exists_is_overwritten_only_if_that_is_meant() {
    let scratch = Scratch::new("exists");
    let path = scratch.path("notes.txt");
    fs::write(&path, "dear diary").unwrap();
    let error = NewIndexFile::create(&path, false).err().expect("an error");
    assert!(matches!(error, Error::Argument { .. }), "{error}");
    assert!(error.to_string().contains("notes.txt exists"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"dear diary");

    for overwrite in [false, true] {
        let error = NewIndexFile::create(&scratch.path("."), overwrite).err().expect("an error");
        assert!(error.to_string().contains("not a file"), "{error}");
    }
}

#[test]
fn a_file_that_appears_during_the_build_is_kept() {
    let scratch = Scratch::new("appears");
    let path = scratch.path("items.pagehop");
    let mut sink = NewIndexFile::create(&path, false).unwrap();
    sink.write(PageId(0), &body_of(0)).unwrap();
    fs::write(&path, "mine").unwrap();
    let error = sink.finish().unwrap_err();
    assert!(matches!(error, Error::Argument { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    assert_eq!(scratch.names(), ["items.pagehop"]);
}

#[test]
fn a_link_is_followed() {
    let scratch = Scratch::new("link");
    let (real, link) = (scratch.path("real"), scratch.path("link"));
    write_pages(&real, 3);
    std::os::unix::fs::symlink("real", &link).unwrap();
    write_pages(&link, 4);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(open(&real, &OpenOptions::default()).page_count(), 4);
    assert_eq!(scratch.names(), ["link", "real"]);
}

#[test]
fn permissions_of_the_old_file_stay() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("permissions");
    let path = scratch.path("items.pagehop");
    write_pages(&path, 3);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    write_pages(&path, 3);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn pages_out_of_order_are_refused() {
    let scratch = Scratch::new("order");
    let path = scratch.path("items.pagehop");
    let mut sink = NewIndexFile::create(&path, false).unwrap();
    write_some(&mut sink, 3);
    for page in [1, 2, 4, u32::MAX] {
        let error = sink.write(PageId(page), &body_of(page)).unwrap_err();
        assert!(error.to_string().contains("expected 3 or 0"), "{error}");
    }
    sink.write(PageId(0), &body_of(0)).unwrap();
    for page in [0, 3] {
        sink.write(PageId(page), &body_of(page)).unwrap_err();
    }
    sink.finish().unwrap();
    let pages = open(&path, &OpenOptions::default());
    assert_eq!(pages.page_count(), 3);
    expect_body(2, pages.reader().finish(PageId(2)).unwrap());
}

#[test]
fn a_place_that_cannot_be_written_says_why() {
    let scratch = Scratch::new("places");
    let error = NewIndexFile::create(&scratch.path("none/items.pagehop"), false).err().expect("an error");
    assert!(error.to_string().contains("items.pagehop: No such file"), "{error}");
    fs::write(scratch.path("file"), "").unwrap();
    let error = NewIndexFile::create(&scratch.path("file/items.pagehop"), false).err().expect("an error");
    assert!(error.to_string().contains("items.pagehop: Not a directory"), "{error}");
    for name in ["/proc/items.pagehop", "/sys/items.pagehop"] {
        let error = NewIndexFile::create(Path::new(name), false).err().expect("an error");
        assert!(matches!(error, Error::Io { .. }) && error.to_string().contains(name), "{error}");
    }
    for name in ["", "/", ".."] {
        NewIndexFile::create(Path::new(name), true).err().expect("an error");
    }
}

/// Runs as a child: builds forever.
#[test]
fn child_builds_for_ever() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else {
        return;
    };
    let mut sink = NewIndexFile::create(&path, true).unwrap();
    for page in 1.. {
        sink.write(PageId(page), &body_of(page)).unwrap();
        if page % 256 == 0 {
            println!("page {page}");
        }
    }
}

#[test]
fn a_killed_build_leaves_the_old_file_or_nothing() {
    let scratch = Scratch::new("killed");
    let path = scratch.path("items.pagehop");
    for (round, pages_of_old) in [0, 0, 4, 4].into_iter().enumerate() {
        if pages_of_old > 0 {
            write_pages(&path, pages_of_old);
        }
        let mut building = child("sink::child_builds_for_ever", &path).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(building.stdout.take().unwrap()).lines();
        let written = lines.map_while(Result::ok).filter(|line| line.contains("page ")).nth(round * 2);
        assert!(written.is_some());
        building.kill().unwrap();
        building.wait().unwrap();
        if pages_of_old == 0 {
            assert_eq!(scratch.names(), [""; 0]);
        } else {
            assert_eq!(scratch.names(), ["items.pagehop"]);
            assert_eq!(open(&path, &OpenOptions::default()).page_count(), pages_of_old);
        }
    }
}

/// Runs as a child on a file system of 2 MiB in memory.
#[test]
fn child_fills_the_disk() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else {
        return;
    };
    write_pages(&path, 10);
    for attempt in 0..3 {
        let mut sink = NewIndexFile::create(&path, true).unwrap();
        let error = (1..10_000).find_map(|page| sink.write(PageId(page), &body_of(page)).err()).unwrap();
        assert!(matches!(error, Error::Full { .. }), "{error}");
        assert!(error.to_string().contains("items.pagehop: No space left on device"), "{error}");
        if attempt > 0 {
            drop(sink);
        } else {
            // A caller that ignores the error must not get a file with missing pages.
            let _ = sink.write(PageId(0), &body_of(0));
            sink.finish().unwrap_err();
        }
        let pages = open(&path, &OpenOptions::default());
        assert_eq!(pages.page_count(), 10);
        expect_body(9, pages.reader().finish(PageId(9)).unwrap());
    }
    println!("the disk was full");
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let scratch = Scratch::new("full");
    let path = scratch.path("items.pagehop");
    let inner = child("sink::child_fills_the_disk", &path);
    let script =
        "mount -t tmpfs -o size=2m none \"$1\" && exec \"$2\" --exact sink::child_fills_the_disk --nocapture";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(scratch.path("."))
        .arg(inner.get_program())
        .env(CHILD, &path)
        .output();
    match output {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("the disk was full") => {}
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("running 1 test") => {
            panic!("{output:?}");
        }
        refused => println!("skipped: a small file system could not be made here: {refused:?}"),
    }
}
