//! An index that is open while the process forks, as with Python's `multiprocessing`.
#![allow(unsafe_code, reason = "running code in a forked child is unsafe")]

mod support;

use std::io::Error;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use pagehop_engine::{PageId, Pages, PagesMut, Reader};
use pagehop_store::{IndexFile, OpenOptions};
use support::{Random, Scratch, expect_body, open, ways, write_pages};

fn read_some(pages: &IndexFile, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..100 {
        let mut reader = pages.reader();
        for _ in 0..10 {
            let wanted: Vec<_> = (0..6).map(|_| random.below(1000)).collect();
            for &page in &wanted {
                reader.start(PageId(page), 0..64);
            }
            for &page in &wanted[..4] {
                expect_body(page, reader.finish(PageId(page)).unwrap());
            }
            reader.release();
        }
    }
}

#[test]
fn parent_and_child_both_go_on() {
    let scratch = Scratch::new("fork");
    let path = scratch.path("pages");
    write_pages(&path, 1000);
    for options in ways(64 * 8192) {
        let pages = Arc::new(open(&path, &options));
        read_some(&pages, 1);
        // A reader has reads in flight during the fork.
        let busy = pages.reader();
        busy.start(PageId(900), 0..64);
        expect_body(901, busy.finish(PageId(901)).unwrap());
        busy.start(PageId(902), 0..64);

        let theirs = Arc::clone(&pages);
        let search =
            move || std::panic::catch_unwind(|| read_some(&theirs, 2)).map_err(|_| Error::other("panicked"));
        let mut command = Command::new("true");
        // SAFETY: no other thread uses `pages`, so its locks are free in the child. The allocator
        // of glibc works after a fork.
        unsafe { command.pre_exec(search) };
        assert!(command.status().expect("the child read its pages").success());

        read_some(&pages, 3);
        for page in [900, 901, 902] {
            expect_body(page, busy.finish(PageId(page)).unwrap());
        }
    }
}

#[test]
fn a_child_that_lives_on_keeps_no_writer_out() {
    use std::io::{Read, Write};
    let scratch = Scratch::new("fork-lives");
    let path = scratch.path("pages");
    write_pages(&path, 100);
    let writing = OpenOptions { write: true, ..OpenOptions::default() };
    let pages = open(&path, &writing);
    let (mut end, mut says_so) = std::io::pipe().unwrap();
    // SAFETY: the child reads a pipe and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let _ = end.read(&mut [0]);
        // SAFETY: ends the child and runs no code of the parent.
        unsafe { libc::_exit(0) };
    }
    assert!(IndexFile::open(&path, &writing).is_err());
    pages.close().unwrap();
    open(&path, &writing).close().unwrap();
    assert_eq!(scratch.names(), ["pages"]);
    says_so.write_all(&[1]).unwrap();
    // SAFETY: `child` is a child of this process, and nothing else waits for it.
    assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
}

#[test]
fn the_child_of_a_writer_reads_and_does_not_write() {
    let scratch = Scratch::new("fork-writer");
    let path = scratch.path("pages");
    write_pages(&path, 1000);
    for options in ways(64 * 8192) {
        let pages = Arc::new(open(&path, &OpenOptions { write: true, ..options }));
        let change = |pages: &IndexFile| {
            let mut transaction = pages.begin()?;
            transaction.step(&[PageId(7)], &mut |bodies| {
                bodies[0][8000] ^= 1;
                Ok(())
            })?;
            transaction.commit()
        };
        change(&pages).unwrap();
        let mut held = pages.reader();
        let snapshot = held.snapshot(true);
        let theirs = Arc::clone(&pages);
        let child = move || {
            let read = || {
                read_some(&theirs, 2);
                let mut reader = theirs.reader();
                assert_eq!(reader.snapshot(true), snapshot);
                drop(reader);
                assert!(change(&theirs).unwrap_err().to_string().contains("forked"));
            };
            std::panic::catch_unwind(read).map_err(|_| Error::other("panicked"))
        };
        let mut command = Command::new("true");
        // SAFETY: as above.
        unsafe { command.pre_exec(child) };
        assert!(command.status().expect("the child read its pages").success());
        change(&pages).unwrap();
        assert_eq!(pages.begin().unwrap().oldest_snapshot(), snapshot, "the child has not released the snapshot");
        drop((held, command));
        Arc::into_inner(pages).expect("the command is gone").close().unwrap();
        assert_eq!(scratch.names(), ["pages"]);
    }
}
