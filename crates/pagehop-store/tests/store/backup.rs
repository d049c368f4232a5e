//! Backups: each is of one commit, whatever a writer does at the same time, and is complete or not
//! made at all.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support;
use crate::support::{Random, Scratch, this_program};
use pagehop_engine::{CreateOptions, Error, Index, Progress};
use pagehop_store::{AddOptions, BackupReport, IndexFile, OpenOptions};

const DIM: usize = 8;

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn opened(path: &Path, write: bool, log_bytes: u64) -> Index<IndexFile> {
    let options = OpenOptions { write, log_bytes, cache_bytes: 1 << 20, ..OpenOptions::default() };
    pagehop_store::open(path, &options).unwrap()
}

fn backup(index: &Index<IndexFile>, target: &Path, overwrite: bool) -> Result<BackupReport, Error> {
    pagehop_store::backup(index, target, overwrite, &mut go_on)
}

/// Ends the writer when the test ends, also when it panics.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The rows that a user has put into an index.
type Rows = BTreeMap<u64, [f32; DIM]>;

/// A vector of random components.
fn vector(random: &mut Random) -> [f32; DIM] {
    std::array::from_fn(|_| random.below(2001) as f32 / 1000.0 - 1.0)
}

/// Makes the same changes of some rows in `index` and `rows`, and marks the commit with `number`.
fn change(index: &Index<IndexFile>, rows: &mut Rows, random: &mut Random, number: u64) {
    let ids: Vec<u64> = (0..20).map(|_| random.below(400).into()).collect();
    let added: Vec<[f32; DIM]> = ids.iter().map(|_| vector(random)).collect();
    rows.extend(ids.iter().copied().zip(added.iter().copied()));
    let options = AddOptions { mark: Some([number, 0]), ..AddOptions::default() };
    pagehop_store::add(index, &ids, added.as_flattened(), options, &mut go_on).unwrap();
}

/// Fails unless `index` has exactly `rows`.
#[track_caller]
fn expect_rows(index: &Index<IndexFile>, rows: &Rows) {
    index.check(&mut go_on).unwrap();
    let ids = index.ids(0, usize::MAX).unwrap();
    assert!(ids.iter().eq(rows.keys()), "{} ids for {} rows", ids.len(), rows.len());
    let found = index.vectors(&ids).unwrap();
    for (found, row) in found.as_chunks::<DIM>().0.iter().zip(rows.values()) {
        assert!(found.iter().zip(row).all(|(a, b)| (a - b).abs() < 0.01), "{found:?} for {row:?}");
    }
}

#[test]
fn a_backup_is_of_one_commit_while_a_writer_goes_on() {
    let scratch = Scratch::new("backup-beside");
    let path = scratch.path("items");
    pagehop_store::create(&path, DIM, &CreateOptions::default(), false).unwrap();
    // The sizes of the log: with the smallest, checkpoints end during backups, and with the
    // largest, none does.
    for (round, log_bytes) in [(0, 1 << 16), (1, 1 << 20), (2, 1 << 30)] {
        let writer = opened(&path, true, log_bytes);
        let reader = opened(&path, false, 0);
        let commits: Mutex<BTreeMap<u64, Rows>> = Mutex::default();
        let (committed, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
        let mut rows = Rows::new();
        if round > 0 {
            let ids = writer.ids(0, usize::MAX).unwrap();
            let vectors = writer.vectors(&ids).unwrap();
            rows = ids.into_iter().zip(vectors.as_chunks().0.iter().copied()).collect();
        }
        commits.lock().unwrap().insert(writer.info().unwrap().mark[0], rows.clone());
        let first = 1 + 1_000_000 * round;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random(7 + round);
                for number in first.. {
                    if is_done.load(Ordering::SeqCst) {
                        break;
                    }
                    let mut next = rows.clone();
                    let seed = random.0;
                    // The rows are noted before a reader can see the commit.
                    let ids: Vec<u64> = (0..20).map(|_| random.below(400).into()).collect();
                    next.extend(ids.iter().map(|id| (*id, vector(&mut random))));
                    commits.lock().unwrap().insert(number, next.clone());
                    change(&writer, &mut rows, &mut Random(seed), number);
                    assert_eq!(rows, next);
                    committed.store(number, Ordering::SeqCst);
                }
            });
            let _ending = Ending(&is_done);
            for at in 0..12 {
                let before = committed.load(Ordering::SeqCst);
                let source = if at % 2 == 0 { &reader } else { &writer };
                let target = scratch.path("copy");
                let report = match backup(source, &target, true) {
                    // With the shortest log, a checkpoint may end in each pass of the backup.
                    Err(Error::Busy { .. }) if log_bytes == 1 << 16 => continue,
                    report => report.unwrap(),
                };
                let copy = opened(&target, false, 0);
                let info = copy.info().unwrap();
                assert!(info.mark[0] >= before, "commit {before} was reported, {} is in it", info.mark[0]);
                assert_eq!(report.pages, info.pages);
                assert_eq!(std::fs::metadata(&target).unwrap().len(), report.bytes);
                let expected = commits.lock().unwrap()[&info.mark[0]].clone();
                expect_rows(&copy, &expected);
                drop(copy);
            }
        });
        drop(reader);
        writer.into_pages().close().unwrap();
    }
    assert_eq!(scratch.names(), ["copy", "items"]);
}

#[test]
fn a_backup_of_an_index_at_rest_has_its_bytes_and_can_be_written() {
    let scratch = Scratch::new("backup-rest");
    let (path, target) = (scratch.path("items"), scratch.path("copy"));
    pagehop_store::create(&path, DIM, &CreateOptions::default(), false).unwrap();
    let mut rows = Rows::new();
    let index = opened(&path, true, 1 << 30);
    (0..5).for_each(|number| change(&index, &mut rows, &mut Random(number), number));
    index.into_pages().close().unwrap();
    backup(&opened(&path, false, 0), &target, false).unwrap();
    assert!(std::fs::read(&path).unwrap() == std::fs::read(&target).unwrap());
    // A writer that was killed leaves commits in the log. A backup has them and needs no log.
    let index = opened(&path, true, 1 << 30);
    change(&index, &mut rows, &mut Random(99), 99);
    drop(index);
    assert_eq!(scratch.names(), ["copy", "items", "items-log"]);
    backup(&opened(&path, false, 0), &target, true).unwrap();
    assert_eq!(scratch.names(), ["copy", "items", "items-log"]);
    let copy = opened(&target, true, 1 << 30);
    expect_rows(&copy, &rows);
    change(&copy, &mut rows, &mut Random(100), 100);
    expect_rows(&copy, &rows);
}

#[test]
fn what_is_no_place_for_a_backup_is_refused_and_stays() {
    let scratch = Scratch::new("backup-places");
    let path = scratch.path("items");
    pagehop_store::create(&path, DIM, &CreateOptions::default(), false).unwrap();
    let index = opened(&path, true, 1 << 30);
    // There is no log before the first commit.
    let error = backup(&index, &scratch.path("items-log"), false).unwrap_err().to_string();
    assert!(error.contains("belongs to the index"), "{error}");
    let mut rows = Rows::new();
    change(&index, &mut rows, &mut Random(1), 1);
    std::fs::write(scratch.path("mine"), "mine").unwrap();
    std::fs::create_dir(scratch.path("folder")).unwrap();
    std::os::unix::fs::symlink(&path, scratch.path("link")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scratch.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let before = scratch.names();
    for (name, overwrite, what) in [
        ("mine", false, "exists already"),
        ("folder", true, "is not a file"),
        ("pipe", true, "is not a file"),
        ("items", true, "belongs to the index"),
        ("link", true, "belongs to the index"),
        ("items-log", true, "belongs to the index"),
        ("items-shared", true, "belongs to the index"),
        ("nowhere/copy", true, "No such file"),
    ] {
        let error = backup(&index, &scratch.path(name), overwrite).unwrap_err().to_string();
        let file = name.split('/').next().unwrap();
        assert!(error.contains(what) && error.contains(file), "{name}: {error}");
    }
    // Another process writes the index that is at the target.
    pagehop_store::create(&scratch.path("other"), DIM, &CreateOptions::default(), false).unwrap();
    let other = opened(&scratch.path("other"), true, 1 << 30);
    assert!(matches!(backup(&index, &scratch.path("other"), true), Err(Error::Busy { .. })));
    other.into_pages().close().unwrap();
    std::fs::remove_file(scratch.path("other")).unwrap();
    assert_eq!(scratch.names(), before);
    assert_eq!(std::fs::read(scratch.path("mine")).unwrap(), b"mine");
    expect_rows(&index, &rows);
}

#[test]
fn a_backup_that_is_stopped_or_finds_damage_leaves_nothing() {
    let scratch = Scratch::new("backup-stopped");
    let path = scratch.path("items");
    pagehop_store::create(&path, DIM, &CreateOptions::default(), false).unwrap();
    let index = opened(&path, true, 1 << 30);
    let mut rows = Rows::new();
    (0..8).for_each(|number| change(&index, &mut rows, &mut Random(number), number));
    for wanted in ["copy", "log"] {
        let stopped = pagehop_store::backup(&index, &scratch.path("copy"), false, &mut |progress| {
            if progress.phase == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(stopped, Err(Error::Interrupted)), "{wanted}: {stopped:?}");
        assert!(!scratch.path("copy").exists());
    }
    index.into_pages().close().unwrap();
    let pages = std::fs::metadata(&path).unwrap().len() / 8192;
    let index = opened(&path, false, 0);
    support::flip(&path, pages as u32 - 1, 4000);
    let error = backup(&index, &scratch.path("copy"), false).unwrap_err();
    assert!(matches!(error, Error::Corrupt { page, .. } if u64::from(page.0) == pages - 1), "{error}");
    assert_eq!(scratch.names(), ["items", "items-shared"]);
}

/// A page that a checkpoint left torn is copied as the log has it, also when reads bypass the
/// system's page cache.
#[test]
fn torn_pages_are_copied_as_the_log_has_them() {
    for direct in [false, true] {
        let scratch = Scratch::new(if direct { "backup-torn-direct" } else { "backup-torn" });
        let path = scratch.path("items");
        pagehop_store::create(&path, DIM, &CreateOptions::default(), false).unwrap();
        let options = OpenOptions { write: true, direct: Some(direct), cache_bytes: 0, ..OpenOptions::default() };
        let index = pagehop_store::open(&path, &options).unwrap();
        let mut rows = Rows::new();
        (0..8).for_each(|number| change(&index, &mut rows, &mut Random(number), number));
        index.pages().checkpoint().unwrap();
        change(&index, &mut rows, &mut Random(9), 9);
        backup(&index, &scratch.path("newest"), false).unwrap();
        let (old, newest) = (std::fs::read(&path).unwrap(), std::fs::read(scratch.path("newest")).unwrap());
        let mut torn = old.clone();
        let mut count = 0;
        for page in 1..old.len() / 8192 {
            // Sectors of the newest version and of the one before it, as a loss of power leaves
            // them.
            let (front, back) = (page * 8192..page * 8192 + 4096, page * 8192 + 4096..(page + 1) * 8192);
            if old[back.clone()] != newest[back] {
                torn[front.clone()].copy_from_slice(&newest[front]);
                count += 1;
            }
        }
        assert!(count > 0);
        std::fs::write(&path, torn).unwrap();
        backup(&index, &scratch.path("copy"), false).unwrap();
        expect_rows(&opened(&scratch.path("copy"), false, 0), &rows);
    }
}

/// The backup runs in another process, because the limit, which stands for a full disk, holds for a
/// process.
#[test]
fn a_backup_for_which_there_is_no_space_leaves_what_was_there() {
    let scratch = Scratch::new("backup-full");
    let (path, target) = (scratch.path("items"), scratch.path("copy"));
    if let Some(path) = std::env::var_os("PAGEHOP_TEST_BACKUP_OF") {
        let path = Path::new(&path);
        let error = backup(&opened(path, false, 0), &path.with_file_name("copy"), true).unwrap_err();
        assert!(matches!(error, Error::Full { .. }), "{error}");
        assert!(error.to_string().contains("copy"), "{error}");
        println!("there was no space");
        return;
    }
    pagehop_store::create(&path, DIM, &CreateOptions::default(), false).unwrap();
    let index = opened(&path, true, 1 << 30);
    let mut rows = Rows::new();
    (0..8).for_each(|number| change(&index, &mut rows, &mut Random(number), number));
    index.into_pages().close().unwrap();
    std::fs::write(&target, "mine").unwrap();
    // The limit is 64 KiB. X-shared has 192 KiB, so it is made before the child begins.
    let _open = opened(&path, false, 0);
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$@\"";
    let name = "backup::a_backup_for_which_there_is_no_space_leaves_what_was_there";
    let child = std::process::Command::new("bash")
        .args(["-c", script, "bash"])
        .args(this_program())
        .args(["--exact", name, "--nocapture"])
        .env("PAGEHOP_TEST_BACKUP_OF", &path)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(output.contains("there was no space"), "{output} {}", String::from_utf8_lossy(&child.stderr));
    assert_eq!(std::fs::read(&target).unwrap(), b"mine");
    assert_eq!(scratch.names(), ["copy", "items", "items-shared"]);
}
