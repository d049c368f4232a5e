//! Losses of power after a sync of page 0 failed. The next process that opens the index sees a page
//! 0 that may not be on the disk. Commits must survive, whatever that process does.

use std::ops::ControlFlow;
use std::sync::Arc;

use pagehop_engine::{CreateOptions, Index, create};
use pagehop_sim::{Call, Fault, Refusal, SimDisk};
use pagehop_store::{AddOptions, IndexFile, OpenOptions, StorageSink, add};

/// What the process after the failure does before the power is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// There is no such process: the process with the failure closes or drops the index.
    Nothing,
    Read,
    Close,
    Checkpoint,
    Commit,
    /// A commit that fails when the new log exists and page 0 does not name it yet.
    FailedCommit,
}

const NEXTS: [Next; 6] =
    [Next::Nothing, Next::Read, Next::Close, Next::Checkpoint, Next::Commit, Next::FailedCommit];

fn open(disk: &SimDisk, write: bool) -> Index<IndexFile> {
    let options = OpenOptions { write, ..OpenOptions::default() };
    Index::open(IndexFile::open_on(Arc::new(disk.clone()), &options).unwrap()).unwrap()
}

fn add_row(index: &Index<IndexFile>, id: u64) -> Result<(), pagehop_engine::Error> {
    add(index, &[id], &[id as f32, 1.0], AddOptions::default(), &mut |_| ControlFlow::Continue(())).map(|_| ())
}

fn rows(disk: &SimDisk) -> u64 {
    open(disk, false).info().unwrap().rows
}

fn fail_sync(disk: &SimDisk, after: u64, refusal: Refusal) {
    disk.fail(Fault { calls: vec![Call::Sync], after, refusal, once: true });
}

/// Runs `fail`, which returns the number of committed rows, then each of `NEXTS`, and then loses
/// the power. This is repeated many times.
fn survive(fail: impl Fn(&SimDisk, &Index<IndexFile>, Refusal) -> u64) {
    for (next, refusal, is_killed) in NEXTS
        .into_iter()
        .flat_map(|next| [Refusal::Io, Refusal::Forgotten].map(|refusal| (next, refusal)))
        .flat_map(|(next, refusal)| [false, true].map(|is_killed| (next, refusal, is_killed)))
    {
        for seed in 0..24 {
            let mut disk = SimDisk::new(seed);
            let mut sink = StorageSink::create(Arc::new(disk.clone()), *b"page 0").unwrap();
            create(2, &CreateOptions { seed, ..CreateOptions::default() }, &mut sink).unwrap();
            sink.finish().unwrap();
            let index = open(&disk, true);
            let mut expected = fail(&disk, &index, refusal);
            if is_killed {
                disk.kill();
            }
            drop(index);
            expected += act(&disk, next);
            disk.crash(seed);
            let case = format!("{next:?} after {refusal:?}, killed: {is_killed}, seed {seed}");
            println!("{case}");
            let found = rows(&disk);
            let most = expected + u64::from(next == Next::FailedCommit);
            assert!((expected..=most).contains(&found), "{case}: {found} rows, expected {expected}");
        }
    }
}

/// Does what `next` says in a new process. Returns the number of rows that it committed.
fn act(disk: &SimDisk, next: Next) -> u64 {
    let disk = &disk.another_process();
    match next {
        Next::Nothing => return 0,
        Next::Read => drop(open(disk, false)),
        Next::Close => open(disk, true).into_pages().close().unwrap(),
        Next::Checkpoint => {
            let index = open(disk, true);
            index.pages().checkpoint().unwrap();
            std::mem::forget(index);
        }
        Next::Commit => {
            let index = open(disk, true);
            add_row(&index, 100).unwrap();
            std::mem::forget(index);
            return 1;
        }
        Next::FailedCommit => {
            let index = open(disk, true);
            fail_sync(disk, 1, Refusal::Io);
            let _ = add_row(&index, 100);
            std::mem::forget(index);
            disk.heal();
        }
    }
    0
}

#[test]
fn a_checkpoint_whose_page_0_was_not_synced_is_not_trusted() {
    survive(|disk, index, refusal| {
        add_row(index, 1).unwrap();
        add_row(index, 2).unwrap();
        // The log and the other pages are synced first.
        fail_sync(disk, 2, refusal);
        let error = index.pages().checkpoint().unwrap_err();
        assert!(error.to_string().contains("sync of the index"), "{error}");
        2
    });
}

#[test]
fn a_log_that_page_0_names_in_memory_only_is_named_again() {
    survive(|disk, index, refusal| {
        add_row(index, 1).unwrap();
        index.pages().checkpoint().unwrap();
        fail_sync(disk, 0, refusal);
        let error = add_row(index, 2).unwrap_err();
        assert!(error.to_string().contains("header of page 0"), "{error}");
        1
    });
}

#[test]
fn a_log_whose_name_may_be_gone_is_named_again() {
    survive(|disk, index, refusal| {
        add_row(index, 1).unwrap();
        index.pages().checkpoint().unwrap();
        // Page 0 names the log, but the commit is not written to it.
        disk.fail(Fault { calls: vec![Call::Write], after: 1, refusal: Refusal::Io, once: true });
        let error = add_row(index, 2).unwrap_err();
        assert!(error.to_string().contains("end of the index-log"), "{error}");
        // The change that removes the name of the log may or may not be on the disk.
        fail_sync(disk, 0, refusal);
        let error = index.pages().checkpoint().unwrap_err();
        assert!(error.to_string().contains("header of page 0"), "{error}");
        add_row(index, 3).unwrap();
        2
    });
}
