//! The guarantees of a commit, on files in memory that lose, tear and refuse writes.
//!
//! The model is a list of the bodies after every commit. Whatever happens, an index that is opened
//! again has exactly the bodies of one commit, and this commit is not older than the last one that
//! was acknowledged.

mod logs;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;

use pagehop_engine::{BODY_BYTES, Error, PageId, PageSink, Pages, PagesMut, Reader};
use pagehop_store::{Durability, IndexFile, Name, OpenOptions, StorageSink};
use support::storage::MemStorage;
use support::{Random, body_of};

type Model = Vec<Arc<Vec<u8>>>;

fn options() -> OpenOptions {
    OpenOptions { write: true, cache_bytes: 64 * 8192, ..OpenOptions::default() }
}

/// An index of `count` pages.
fn new_index(count: u32) -> (MemStorage, Model) {
    let storage = MemStorage::default();
    let mut sink = StorageSink::create(Arc::new(storage.clone()), *b"random").unwrap();
    for page in (1..count).chain([0]) {
        sink.write(PageId(page), &body_of(page)).unwrap();
    }
    sink.finish().unwrap();
    (storage, (0..count).map(|page| Arc::new(body_of(page))).collect())
}

fn open(storage: &MemStorage, options: &OpenOptions) -> IndexFile {
    IndexFile::open_on(Arc::new(storage.clone()), options).unwrap()
}

/// Changes some pages in one transaction. Returns the bodies that the pages have if it is
/// committed.
fn change(pages: &IndexFile, model: &Model, random: &mut Random) -> (Model, Result<(), Error>) {
    let mut next = model.clone();
    let mut transaction = match pages.begin() {
        Ok(transaction) => transaction,
        Err(error) => return (next, Err(error)),
    };
    for _ in 0..random.below(3) {
        let count = 1 + random.below(5);
        assert_eq!(transaction.allocate(count).unwrap().0 as usize, next.len());
        next.resize(next.len() + count as usize, Arc::new(vec![0; BODY_BYTES]));
    }
    for _ in 0..1 + random.below(30) {
        let mut some: Vec<u32> = (0..1 + random.below(4)).map(|_| random.below(next.len() as u32)).collect();
        some.sort_unstable();
        some.dedup();
        random.shuffle(&mut some);
        let ids: Vec<_> = some.iter().map(|&page| PageId(page)).collect();
        let size_end = if random.below(10) == 0 { 8000 } else { 60 };
        let (size, seed) = (1 + random.below(size_end), random.below(1 << 30));
        let result = transaction.step(&ids, &mut |bodies: &mut [&mut [u8]]| {
            let mut random = Random(u64::from(seed));
            for (body, &page) in bodies.iter_mut().zip(&some) {
                assert!(body[..] == next[page as usize][..], "a step sees the bodies as they are now");
                let start = 8 + random.below(BODY_BYTES as u32 - 8 - size) as usize;
                body[start..start + size as usize].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
                next[page as usize] = Arc::new(body.to_vec());
            }
            Ok(())
        });
        if let Err(error) = result {
            return (next, Err(error));
        }
    }
    (next, transaction.commit())
}

#[track_caller]
fn expect_model(pages: &IndexFile, model: &Model) {
    assert_eq!(pages.page_count() as usize, model.len());
    let mut reader = pages.reader();
    for (page, body) in model.iter().enumerate() {
        reader.start(PageId(page as u32), 0..64);
        assert!(*reader.finish(PageId(page as u32)).unwrap() == body[..], "page {page}");
        reader.release();
    }
}

#[test]
fn what_is_committed_is_read_now_and_when_opened_again() {
    let (storage, mut model) = new_index(100);
    let mut random = Random(1);
    for round in 0..12 {
        let pages = open(&storage, &options());
        expect_model(&pages, &model);
        for _ in 0..1 + round {
            let (next, result) = change(&pages, &model, &mut random);
            result.unwrap();
            model = next;
            expect_model(&pages, &model);
            if random.below(6) == 0 {
                pages.checkpoint().unwrap();
                assert_eq!(pages.log_used_bytes(), 0);
                expect_model(&pages, &model);
            }
        }
        if round % 3 == 0 {
            pages.close().unwrap();
            assert!(storage.content(Name::Log).is_none(), "nothing is left beside the index");
        } else {
            drop(pages);
        }
        expect_model(&open(&storage, &OpenOptions::default()), &model);
    }
}

#[test]
fn many_commits_to_one_page_stay_quick_to_read() {
    let (storage, mut model) = new_index(3);
    let pages = open(&storage, &options());
    for commit in 0..200_u8 {
        let mut transaction = pages.begin().unwrap();
        transaction
            .step(&[PageId(1)], &mut |bodies| {
                bodies[0][usize::from(commit) * 40] = commit ^ 0x5a;
                model[1] = Arc::new(bodies[0].to_vec());
                Ok(())
            })
            .unwrap();
        transaction.commit().unwrap();
        if commit % 20 == 0 {
            expect_model(&open(&storage, &OpenOptions::default()), &model);
        }
    }
    assert!(pages.log_used_bytes() < 200 * 200 + 8 * 8192, "{}", pages.log_used_bytes());
}

#[test]
fn what_is_undone_was_never_there() {
    let (storage, model) = new_index(50);
    let pages = open(&storage, &options());
    let mut transaction = pages.begin().unwrap();
    let new = transaction.allocate(2).unwrap();
    let ids = [PageId(7), new];
    let fill = &mut |bodies: &mut [&mut [u8]]| {
        bodies.iter_mut().for_each(|body| body.fill(1));
        Ok(())
    };
    transaction.step(&ids, fill).unwrap();
    let failed = transaction.step(&ids, &mut |bodies| {
        bodies[0].fill(2);
        Err(Error::Interrupted)
    });
    assert!(matches!(failed, Err(Error::Interrupted)));
    {
        let reader = transaction.reader();
        assert_eq!(reader.finish(PageId(7)).unwrap()[9], 1, "a failed step changes nothing");
        assert_eq!(reader.finish(PageId(new.0 + 1)).unwrap()[9], 0);
        assert!(reader.finish(PageId(new.0 + 2)).is_err());
        assert_eq!(reader.finish(PageId(8)).unwrap()[..], body_of(8)[..]);
    }
    expect_model(&pages, &model);
    drop(transaction);
    expect_model(&pages, &model);
    pages.begin().unwrap().commit().unwrap();
    assert_eq!((pages.counters().commits, pages.log_used_bytes()), (0, 0), "nothing changed, nothing is written");
}

#[test]
fn commit_numbers_grow_over_checkpoints_and_openings() {
    let (storage, mut model) = new_index(20);
    let mut random = Random(3);
    let mut last = 0;
    for round in 0..20 {
        let pages = open(&storage, &options());
        let mut reader = pages.reader();
        let before = reader.snapshot(true);
        assert!(before >= last);
        let number = pages.begin().unwrap().commit_number();
        assert!(number > before && number < 1 << 48);
        let (next, result) = change(&pages, &model, &mut random);
        result.unwrap();
        model = next;
        assert_eq!((reader.snapshot(false), reader.snapshot(true)), (before, number));
        last = number;
        match round % 4 {
            0 => pages.checkpoint().unwrap(),
            1 => {
                drop(reader);
                pages.close().unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn a_snapshot_holds_the_oldest() {
    let (storage, mut model) = new_index(20);
    let pages = open(&storage, &options());
    let mut random = Random(4);
    let (mut old, mut new) = (pages.reader(), pages.reader());
    let first = old.snapshot(true);
    for _ in 0..3 {
        model = change(&pages, &model, &mut random).0;
        new.snapshot(true);
        assert_eq!(pages.begin().unwrap().oldest_snapshot(), first);
        old.release();
    }
    drop(old);
    assert_eq!(pages.begin().unwrap().oldest_snapshot(), new.snapshot(false));
}

/// All pages as they are read now.
fn bodies_of(pages: &IndexFile) -> Vec<Vec<u8>> {
    let mut reader = pages.reader();
    let read = |page| {
        let body = reader.finish(PageId(page)).unwrap().to_vec();
        reader.release();
        body
    };
    (0..pages.page_count()).map(read).collect()
}

/// Commits until the power is lost, again and again. After each loss, the index must have the pages
/// of a commit.
fn lose_power(seed: u64, durability: Durability, rounds: u32) {
    let mut random = Random(seed);
    let (mut storage, first) = new_index(30);
    let mut models = vec![first];
    for round in 0..rounds {
        let small = OpenOptions { log_bytes: 40_000, durability, ..options() };
        storage.power_off_after(Some(u64::from(random.below(120))));
        let mut acknowledged = 0;
        if let Ok(pages) = IndexFile::open_on(Arc::new(storage.clone()), &small) {
            loop {
                let (next, result) = change(&pages, models.last().unwrap(), &mut random);
                models.push(next);
                if result.is_err() {
                    break;
                }
                acknowledged = models.len() - 1;
                if random.below(8) == 0 && pages.checkpoint().is_err() {
                    break;
                }
            }
        }
        storage = storage.after_a_loss_of_power(&mut random);
        let found = bodies_of(&open(&storage, &OpenOptions::default()));
        // Without its log, the index is refused or has everything.
        let alone = MemStorage::with([(Name::Index, storage.content(Name::Index).unwrap())]);
        if let Ok(pages) = IndexFile::open_on(Arc::new(alone), &OpenOptions::default()) {
            assert!(
                bodies_of(&pages) == found,
                "seed {seed}, round {round}: it lost commits with its log, silently"
            );
        }
        let is_found =
            |model: &Model| model.len() == found.len() && model.iter().zip(&found).all(|(a, b)| a[..] == b[..]);
        let at = models.iter().rposition(is_found);
        let at = at.unwrap_or_else(|| panic!("seed {seed}, round {round}: the index has the pages of no commit"));
        if durability == Durability::Commit {
            assert!(at >= acknowledged, "seed {seed}, round {round}: commit {acknowledged} is lost, found {at}");
        }
        models = vec![models.swap_remove(at)];
    }
}

#[test]
fn a_loss_of_power_takes_no_commit_that_was_acknowledged() {
    for seed in 0..6 {
        lose_power(seed, Durability::Commit, 20);
    }
}

#[test]
fn a_loss_of_power_takes_commits_whole_and_from_the_end() {
    for seed in 100..103 {
        lose_power(seed, Durability::Checkpoint, 20);
    }
}

#[test]
fn damage_anywhere_in_a_log_takes_commits_from_the_end_or_is_told() {
    let (storage, first) = new_index(4);
    let pages = open(&storage, &options());
    let mut models = vec![first];
    for commit in 0..4 {
        let mut next = models[commit].clone();
        let mut transaction = pages.begin().unwrap();
        let page = transaction.allocate(1).unwrap();
        next.push(Arc::new(vec![0; BODY_BYTES]));
        let ids = [PageId(2), page];
        transaction
            .step(&ids, &mut |bodies| {
                for (body, &PageId(page)) in bodies.iter_mut().zip(&ids) {
                    body[100 * commit..100 * commit + 9].fill(commit as u8 + 1);
                    next[page as usize] = Arc::new(body.to_vec());
                }
                Ok(())
            })
            .unwrap();
        transaction.commit().unwrap();
        models.push(next);
    }
    drop(pages);
    let (index, log) = (storage.content(Name::Index).unwrap(), storage.content(Name::Log).unwrap());
    let front = log.windows(4).rposition(|four| four == b"PHBK").unwrap().min(8192);
    let mut found_at = [0; 5];
    for at in (0..64).chain(4096..4160).chain(front..log.len()) {
        let mut damaged = log.clone();
        damaged[at] ^= 1 << (at % 8);
        let storage = MemStorage::with([(Name::Index, index.clone()), (Name::Log, damaged)]);
        let pages = open(&storage, &OpenOptions::default());
        let commits = pages.page_count() as usize - 4;
        expect_model(&pages, &models[commits]);
        found_at[commits] += 1;
    }
    assert!(found_at.iter().all(|&count| count > 0), "{found_at:?}");
    assert!(found_at[4] >= 128, "either copy of the header is enough: {found_at:?}");
}

#[test]
fn a_full_disk_undoes_the_commit_and_leaves_the_index_usable() {
    let (storage, mut model) = new_index(100);
    let mut random = Random(6);
    let pages = open(&storage, &options());
    let mut refusals = 0;
    for round in 0..200 {
        storage.limit_space((round % 10 > 4).then(|| storage.bytes() + 3000));
        let (next, result) = change(&pages, &model, &mut random);
        match result {
            Ok(()) => model = next,
            Err(error) => {
                assert!(error.to_string().contains("No space left"), "{error}");
                refusals += 1;
            }
        }
        expect_model(&pages, &model);
        if round % 20 == 19 {
            drop(pages.checkpoint());
            expect_model(&pages, &model);
        }
    }
    assert!(refusals > 10);
    storage.limit_space(None);
    expect_model(&open(&storage, &OpenOptions::default()), &model);
    pages.close().unwrap();
    expect_model(&open(&storage, &OpenOptions::default()), &model);
}

#[test]
fn a_full_disk_in_a_checkpoint_loses_nothing() {
    let (storage, mut model) = new_index(50);
    let pages = open(&storage, &options());
    let mut transaction = pages.begin().unwrap();
    transaction.allocate(3000).unwrap();
    transaction.commit().unwrap();
    model.resize(3050, Arc::new(vec![0; BODY_BYTES]));
    model = change(&pages, &model, &mut Random(7)).0;
    storage.limit_space(Some(storage.bytes() + (10 << 20)));
    for _ in 0..2 {
        let error = pages.checkpoint().unwrap_err();
        assert!(error.to_string().contains("checkpoint: No space left"), "{error}");
        expect_model(&pages, &model);
    }
    storage.limit_space(None);
    model = change(&pages, &model, &mut Random(8)).0;
    pages.checkpoint().unwrap();
    expect_model(&pages, &model);
    pages.close().unwrap();
    assert!(storage.content(Name::Log).is_none());
    expect_model(&open(&storage, &OpenOptions::default()), &model);
}

#[test]
fn a_checkpoint_writes_each_changed_page_once() {
    let (storage, _) = new_index(400);
    let pages = open(&storage, &options());
    for round in 0..3 {
        let mut transaction = pages.begin().unwrap();
        for page in (1..400).step_by(if round == 1 { 1 } else { 3 }) {
            transaction
                .step(&[PageId(page)], &mut |bodies| {
                    bodies[0][usize::try_from(page).unwrap()] ^= 1;
                    Ok(())
                })
                .unwrap();
        }
        transaction.commit().unwrap();
    }
    pages.checkpoint().unwrap();
    assert_eq!(pages.counters().page_bytes_written, 400 * 8192);
    pages.checkpoint().unwrap();
    assert_eq!((pages.counters().page_bytes_written, pages.counters().checkpoints), (400 * 8192, 1));
}

#[test]
fn an_index_with_the_newest_page_0_needs_no_log() {
    let mut random = Random(15);
    let (mut complete, mut incomplete) = (0, 0);
    for round in 0..200 {
        let (storage, mut model) = new_index(20);
        let pages = open(&storage, &options());
        let mut transaction = pages.begin().unwrap();
        for page in 1..20 {
            transaction
                .step(&[PageId(page)], &mut |bodies| {
                    bodies[0][400 * page as usize] ^= 1;
                    model[page as usize] = Arc::new(bodies[0].to_vec());
                    Ok(())
                })
                .unwrap();
        }
        transaction.commit().unwrap();
        storage.power_off_after(Some(round % 8));
        drop(pages.checkpoint());
        drop(pages);
        let index = storage.after_a_loss_of_power(&mut random).content(Name::Index).unwrap();
        // Before the checkpoint, the log position in page 0 is 0.
        let is_incomplete = index[8..14] == [0; 6];
        let alone = MemStorage::with([(Name::Index, index)]);
        if is_incomplete {
            let opened = IndexFile::open_on(Arc::new(alone), &OpenOptions::default());
            let error = opened.err().expect("it needs its log");
            assert!(error.to_string().contains("-log is missing"), "{error}");
            incomplete += 1;
            continue;
        }
        expect_model(&open(&alone, &OpenOptions::default()), &model);
        complete += 1;
    }
    assert!(complete > 20 && incomplete > 20, "{complete} and {incomplete}");
}

#[test]
fn after_a_sync_that_failed_nothing_is_committed_until_opened_again() {
    let (storage, model) = new_index(20);
    let pages = open(&storage, &options());
    let (model, result) = change(&pages, &model, &mut Random(9));
    result.unwrap();
    storage.fail_syncs(true);
    let error = change(&pages, &model, &mut Random(10)).1.unwrap_err();
    assert!(error.to_string().contains("does not answer"), "{error}");
    storage.fail_syncs(false);
    expect_model(&pages, &model);
    let error = pages.begin().err().expect("an error");
    assert!(error.to_string().contains("open it again"), "{error}");
    assert!(pages.checkpoint().is_err());
    drop(pages);
    let pages = open(&storage, &options());
    expect_model(&pages, &model);
    let (model, result) = change(&pages, &model, &mut Random(11));
    result.unwrap();
    expect_model(&pages, &model);
}

#[test]
fn a_transaction_that_needs_too_much_memory_is_refused() {
    let (storage, model) = new_index(100);
    let pages = open(&storage, &OpenOptions { transaction_bytes: 10 * 8192, ..options() });
    let mut transaction = pages.begin().unwrap();
    let mut fill = |page| {
        transaction.step(&[PageId(page)], &mut |bodies| {
            bodies[0][50] ^= 1;
            Ok(())
        })
    };
    (1..11).for_each(|page| fill(page).unwrap());
    fill(1).unwrap();
    let error = fill(11).unwrap_err();
    assert!(matches!(error, Error::Full { .. }) && error.to_string().contains("fewer rows"), "{error}");
    drop(transaction);
    expect_model(&pages, &model);
}
