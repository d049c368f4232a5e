//! One process writes and others read: commits are seen, snapshots are kept, and processes that
//! have ended hold nothing.
//!
//! The other process is this program, which starts itself again. Each line on its input is an
//! order.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::{Random, Scratch, body_of, expect_body, open, this_command, this_program, uring, write_pages};
use pagehop_engine::{Error, PageId, Pages, PagesMut, Reader};
use pagehop_store::{IndexFile, Io, NewIndexFile, OpenOptions};

/// The path of the index, for a child.
const CHILD: &str = "PAGEHOP_TEST_PROCESS";

const COUNT: u32 = 200;

fn writing() -> OpenOptions {
    OpenOptions { write: true, ..OpenOptions::default() }
}

fn fill(transaction: &mut impl PagesMut, page: u32, version: u8) {
    let step = &mut |bodies: &mut [&mut [u8]]| {
        bodies[0].fill(version);
        Ok(())
    };
    transaction.step(&[PageId(page)], step).unwrap();
}

/// Writes `version` into all of the first `COUNT` pages except page 0, in one commit, and adds a
/// page.
fn commit(pages: &IndexFile, version: u8) {
    let mut transaction = pages.begin().unwrap();
    for page in 1..COUNT {
        fill(&mut transaction, page, version);
    }
    let new = transaction.allocate(1).unwrap();
    let stamp = &mut |bodies: &mut [&mut [u8]]| {
        bodies[0][8] = version;
        bodies[1].fill(version);
        Ok(())
    };
    transaction.step(&[PageId(0), new], stamp).unwrap();
    transaction.commit().unwrap();
}

/// Reads every page. Versions must be at least `at_least`, and no page may have two. Returns the
/// newest version that was found.
fn look(pages: &IndexFile, reader: &mut impl Reader, at_least: u8) -> u8 {
    let mut newest = 0;
    for page in 1..COUNT {
        let body = reader.finish(PageId(page)).unwrap();
        assert!(body.iter().all(|byte| *byte == body[0]), "page {page} is torn");
        assert!(body[0] >= at_least, "page {page} is of {}, expected {at_least}", body[0]);
        newest = newest.max(body[0]);
        drop(body);
        reader.release();
    }
    assert!(pages.page_count() >= COUNT + u32::from(at_least));
    let last = reader.finish(PageId(COUNT + u32::from(at_least) - 1)).unwrap();
    assert!(at_least == 0 || last.iter().all(|byte| *byte == at_least));
    newest
}

/// An index whose pages are of version 0.
fn version_0(path: &Path) {
    write_pages(path, COUNT);
    let pages = open(path, &writing());
    let mut transaction = pages.begin().unwrap();
    for page in 1..COUNT {
        fill(&mut transaction, page, 0);
    }
    transaction.commit().unwrap();
    pages.close().unwrap();
}

struct Other {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn new(path: &Path) -> Self {
        let mut command = this_command();
        command.args(["--exact", "processes::child_does_what_it_is_told", "--nocapture"]).env(CHILD, path);
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output).lines() }
    }

    fn tell(&mut self, order: &str) {
        writeln!(self.input, "{order}").unwrap();
    }

    /// The answer of the child to an order.
    #[track_caller]
    fn ask(&mut self, order: &str) -> String {
        self.tell(order);
        self.hear().unwrap_or_else(|| panic!("the child ended before it answered {order:?}"))
    }

    fn hear(&mut self) -> Option<String> {
        self.output
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("answer: ").map(|(_, answer)| answer.to_owned()))
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Runs as a child: see [`Other`].
#[test]
fn child_does_what_it_is_told() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let mut pages: Option<IndexFile> = None;
    let mut held: Vec<u64> = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (order, number) = line.split_once(' ').unwrap_or((&line, "0"));
        let number: u8 = number.parse().unwrap();
        let answer = match order {
            "open" | "write" => {
                let options = OpenOptions { write: order == "write", cache_bytes: 4 << 20, ..writing() };
                match IndexFile::open(&path, &options) {
                    Ok(opened) => {
                        pages = Some(opened);
                        "open".into()
                    }
                    Err(error) => error.to_string(),
                }
            }
            "look" => {
                let pages = pages.as_ref().unwrap();
                let mut reader = pages.reader();
                reader.snapshot(true);
                look(pages, &mut reader, number).to_string()
            }
            "hold" => {
                let mut reader = pages.as_ref().unwrap().reader();
                held.push(reader.snapshot(true));
                // The snapshot is held until the process ends.
                std::mem::forget(reader);
                held[held.len() - 1].to_string()
            }
            "commit" => {
                commit(pages.as_ref().unwrap(), number);
                "committed".into()
            }
            "commits" => {
                for version in number.. {
                    commit(pages.as_ref().unwrap(), version);
                    println!("answer: {version}");
                }
                unreachable!()
            }
            "hammer" => hammer(pages.as_ref().unwrap(), number),
            "close" => pages.take().unwrap().close().map_or_else(|error| error.to_string(), |()| "closed".into()),
            _ => panic!("{line}"),
        };
        println!("answer: {answer}");
    }
}

/// Reads again and again until version `until` is there.
fn hammer(pages: &IndexFile, until: u8) -> String {
    let (mut seen, mut rounds) = (0, 0_u64);
    while seen < until {
        let mut reader = pages.reader();
        reader.snapshot(true);
        let mut random = Random(rounds);
        let mut newest = seen;
        for _ in 0..100 {
            let page = 1 + random.below(COUNT - 1);
            reader.start(PageId(1 + random.below(COUNT - 1)), 0..64);
            let body = reader.finish(PageId(page)).unwrap();
            assert!(body.iter().all(|byte| *byte == body[0]), "page {page} is torn");
            assert!(body[0] >= seen, "page {page} was of {seen} and is of {}", body[0]);
            newest = newest.max(body[0]);
            if random.below(4) == 0 {
                reader.release();
            }
        }
        drop(reader);
        // If a page had a version, the next snapshot has all commits up to the one before it.
        seen = newest.saturating_sub(1);
        if newest == until {
            break;
        }
        rounds += 1;
    }
    "seen".into()
}

#[test]
fn a_reader_process_sees_each_commit_of_a_writer_process() {
    let scratch = Scratch::new("sees");
    let path = scratch.path("items");
    version_0(&path);
    let mut other = Other::new(&path);
    assert_eq!(other.ask("open"), "open");
    assert_eq!(other.ask("look 0"), "0");
    let pages = open(&path, &writing());
    for version in 1..40 {
        commit(&pages, version);
        assert_eq!(other.ask(&format!("look {version}")), version.to_string());
        if version % 5 == 0 {
            pages.checkpoint().unwrap();
            assert_eq!(other.ask(&format!("look {version}")), version.to_string());
        }
        if version == 20 {
            let mut late = Other::new(&path);
            assert_eq!(late.ask("open"), "open");
            assert_eq!(late.ask("look 20"), "20");
            late.kill();
        }
    }
    pages.close().unwrap();
    assert_eq!(scratch.names(), ["items", "items-log", "items-shared"], "a process is still there");
    assert_eq!(other.ask("look 39"), "39");
    assert_eq!(other.ask("close"), "closed");
    assert_eq!(scratch.names(), ["items"]);
    look(&open(&path, &OpenOptions::default()), &mut open(&path, &OpenOptions::default()).reader(), 39);
    other.kill();
}

#[test]
fn readers_in_all_processes_go_on_while_one_writes() {
    let scratch = Scratch::new("go-on");
    let path = scratch.path("items");
    version_0(&path);
    for (io, cache_bytes) in [(uring(), 64 * 8192), (Io::Pread, 64 * 8192), (uring(), 64 << 20)] {
        version_0(&path);
        let pages = open(&path, &OpenOptions { io, cache_bytes, ..writing() });
        let mut others = [Other::new(&path), Other::new(&path)];
        for other in &mut others {
            assert_eq!(other.ask("open"), "open");
            other.tell("hammer 30");
        }
        std::thread::scope(|scope| {
            scope.spawn(|| hammer(&pages, 30));
            for version in 1..=30 {
                commit(&pages, version);
                if version % 7 == 0 {
                    pages.checkpoint().unwrap();
                }
            }
        });
        for other in &mut others {
            assert_eq!(other.hear().as_deref(), Some("seen"));
        }
        pages.close().unwrap();
        others.into_iter().for_each(Other::kill);
    }
}

#[test]
fn there_is_one_writer() {
    let scratch = Scratch::new("one-writer");
    let path = scratch.path("items");
    version_0(&path);
    let pages = open(&path, &writing());
    let error = IndexFile::open(&path, &writing()).err().expect("an error");
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    assert!(
        error.to_string().contains("another process is writing") && error.to_string().contains("items"),
        "{error}"
    );
    let mut other = Other::new(&path);
    assert!(other.ask("write").contains("another process is writing"));
    assert_eq!(other.ask("open"), "open");
    let error = open(&path, &OpenOptions::default()).begin().err().expect("an error");
    assert!(
        matches!(&error, Error::Argument { .. }) && error.to_string().contains("opened for reading"),
        "{error}"
    );

    let mut sink = NewIndexFile::create(&path, true).unwrap();
    (1..5)
        .chain([0])
        .for_each(|page| pagehop_engine::PageSink::write(&mut sink, PageId(page), &body_of(page)).unwrap());
    let error = sink.finish().unwrap_err();
    assert!(error.to_string().contains("another process is writing"), "{error}");

    pages.close().unwrap();
    assert_eq!(other.ask("write"), "open");
    assert_eq!(other.ask("commit 1"), "committed");
    other.kill();
    look(&open(&path, &writing()), &mut open(&path, &OpenOptions::default()).reader(), 1);
}

#[test]
fn an_index_that_is_built_again_loses_its_log() {
    let scratch = Scratch::new("again");
    let path = scratch.path("items");
    version_0(&path);
    let pages = open(&path, &writing());
    commit(&pages, 1);
    drop(pages);
    assert_eq!(scratch.names(), ["items", "items-log"]);
    let mut reading = Other::new(&path);
    assert_eq!(reading.ask("open"), "open");
    write_pages(&path, 7);
    assert_eq!(scratch.names(), ["items"]);
    let pages = open(&path, &OpenOptions::default());
    assert_eq!(pages.page_count(), 7);
    expect_body(6, pages.reader().finish(PageId(6)).unwrap());
    assert_eq!(reading.ask("close"), "closed");
    assert_eq!(scratch.names(), ["items", "items-shared"], "the old reader must not remove it");
    drop(pages);
    assert_eq!(scratch.names(), ["items"]);
    reading.kill();
}

#[test]
fn a_snapshot_of_another_process_is_kept_until_that_process_ends() {
    let scratch = Scratch::new("kept");
    let path = scratch.path("items");
    version_0(&path);
    let pages = open(&path, &writing());
    commit(&pages, 1);
    let mut other = Other::new(&path);
    assert_eq!(other.ask("open"), "open");
    let held: u64 = other.ask("hold").parse().unwrap();
    for version in 2..5 {
        commit(&pages, version);
        assert_eq!(pages.begin().unwrap().oldest_snapshot(), held);
    }
    let newest = pages.reader().snapshot(true);
    assert!(newest > held);
    other.kill();
    assert_eq!(pages.begin().unwrap().oldest_snapshot(), newest);
}

#[test]
fn a_killed_writer_leaves_every_commit_it_told_of() {
    let scratch = Scratch::new("killed-writer");
    let path = scratch.path("items");
    for round in 0..5 {
        version_0(&path);
        let reading = open(&path, &OpenOptions::default());
        let mut other = Other::new(&path);
        assert_eq!(other.ask("write"), "open");
        other.tell("commits 1");
        let mut told = 0;
        for _ in 0..1 + round * 3 {
            told = other.hear().unwrap().parse().unwrap();
        }
        std::thread::sleep(std::time::Duration::from_micros(300 * round));
        other.kill();
        let mut reader = reading.reader();
        reader.snapshot(true);
        look(&reading, &mut reader, told);
        let pages = open(&path, &writing());
        reader.snapshot(true);
        let there = look(&reading, &mut reader, told);
        assert_eq!(look(&pages, &mut pages.reader(), there), there, "all of a commit, or nothing");
        commit(&pages, there + 1);
        pages.checkpoint().unwrap();
        reader.snapshot(true);
        assert_eq!(look(&reading, &mut reader, there + 1), there + 1);
        drop(reader);
        drop((pages, reading));
        assert_eq!(scratch.names(), ["items"], "the last process removes a log that was emptied");
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_read_with_its_log() {
    let scratch = Scratch::new("read-only");
    let path = scratch.path("items");
    version_0(&path);
    let pages = open(&path, &writing());
    commit(&pages, 1);
    drop(pages);
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" && cd / && shift && exec \"$@\" --exact \
                  processes::child_does_what_it_is_told --nocapture";
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(scratch.path("."))
        .args(this_program())
        .env(CHILD, &path)
        .stderr(Stdio::null());
    let mut other = Other::of(command);
    let _ = writeln!(other.input, "open");
    match other.hear() {
        None => println!("skipped: a read-only file system could not be made here"),
        Some(answer) => {
            assert_eq!(answer, "open");
            assert_eq!(other.ask("look 1"), "1");
            let refused = other.ask("write");
            assert!(refused.contains("for writing: Read-only file system"), "{refused}");
            // The reader is not told of commits, but may find them after a checkpoint.
            let pages = open(&path, &writing());
            pages.checkpoint().unwrap();
            commit(&pages, 2);
            pages.checkpoint().unwrap();
            let found: u8 = other.ask("look 1").parse().unwrap();
            assert!((1..=2).contains(&found));
            other.kill();
        }
    }
}

#[test]
fn threads_of_the_writer_see_pages_of_one_commit_or_the_next() {
    let scratch = Scratch::new("threads");
    let path = scratch.path("items");
    version_0(&path);
    let pages = open(&path, &OpenOptions { cache_bytes: 64 * 8192, ..writing() });
    let (done, newest) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (pages, done, newest) = (&pages, &done, &newest);
            scope.spawn(move || {
                let mut random = Random(seed);
                while !done.load(Ordering::Relaxed) {
                    let mut reader = pages.reader();
                    let least = newest.load(Ordering::SeqCst) as u8;
                    let snapshot = reader.snapshot(true);
                    for _ in 0..20 {
                        let page = 1 + random.below(COUNT - 1);
                        let body = reader.finish(PageId(page)).unwrap();
                        assert!(body.iter().all(|byte| *byte == body[0]), "page {page} is torn");
                        assert!(body[0] >= least, "page {page}: {} after {least} was committed", body[0]);
                    }
                    assert_eq!(reader.snapshot(false), snapshot);
                }
            });
        }
        let write = || {
            for version in 1..50 {
                commit(&pages, version);
                newest.store(u64::from(version), Ordering::SeqCst);
                if version % 10 == 0 {
                    pages.checkpoint().unwrap();
                }
            }
        };
        let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(write));
        done.store(true, Ordering::Relaxed);
        written.unwrap();
    });
    pages.close().unwrap();
    assert_eq!(scratch.names(), ["items"]);
}
