//! Tests of each behavior of the simulated disk.

use super::*;

const SEEDS: u64 = 400;

fn disk_with(name: Name, bytes: &[u8]) -> (SimDisk, Arc<dyn StorageFile>) {
    let disk = SimDisk::new(1);
    disk.put(name, bytes);
    let file = disk.open(name, false).unwrap().unwrap();
    (disk, file)
}

/// Runs `work` on an index file with the bytes `before` and then cuts the power, once per seed.
/// Returns the bytes of the file after each loss of power.
fn outcomes(before: &[u8], work: impl Fn(&SimDisk, &dyn StorageFile)) -> Vec<Vec<u8>> {
    (0..SEEDS)
        .map(|seed| {
            let (mut disk, file) = disk_with(Name::Index, before);
            work(&disk, &*file);
            disk.crash(seed);
            disk.bytes(Name::Index).unwrap()
        })
        .collect()
}

fn any(outcomes: &[Vec<u8>], like: impl Fn(&[u8]) -> bool) -> bool {
    outcomes.iter().any(|bytes| like(bytes))
}

#[test]
fn synced_writes_survive_a_loss_of_power() {
    let outcomes = outcomes(&[1; 4096], |_, file| {
        file.write_all_at(&[2; 8192], 0).unwrap();
        file.sync().unwrap();
    });
    assert!(outcomes.iter().all(|bytes| *bytes == [2; 8192]));
}

#[test]
fn unsynced_writes_survive_in_part_and_in_any_order() {
    let outcomes = outcomes(&[1; 4096], |_, file| {
        file.write_all_at(&[2; 1024], 0).unwrap();
        file.write_all_at(&[3; 1024], 2048).unwrap();
    });
    assert!(outcomes.iter().all(|bytes| bytes.len() == 4096));
    assert!(any(&outcomes, |bytes| bytes[0] == 1 && bytes[2048] == 1));
    assert!(any(&outcomes, |bytes| bytes[0] == 2 && bytes[2048] == 1));
    assert!(any(&outcomes, |bytes| bytes[0] == 1 && bytes[2048] == 3), "the later write without the earlier one");
    assert!(any(&outcomes, |bytes| bytes[0] == 2 && bytes[2048] == 3));
    assert!(any(&outcomes, |bytes| bytes[0] != bytes[512]), "torn");
    for sector in outcomes.iter().flat_map(|bytes| bytes.chunks(512)) {
        assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is whole");
    }
}

#[test]
fn a_sector_that_was_written_twice_is_one_of_its_three_versions() {
    let outcomes = outcomes(&[1; 512], |_, file| {
        file.write_all_at(&[2; 100], 0).unwrap();
        file.write_all_at(&[3; 100], 50).unwrap();
    });
    let versions = [(1, 1, 1), (2, 2, 1), (2, 3, 3)];
    for version in versions {
        assert!(any(&outcomes, |bytes| (bytes[0], bytes[99], bytes[120]) == version), "{version:?}");
    }
    assert!(outcomes.iter().all(|bytes| versions.contains(&(bytes[0], bytes[99], bytes[120]))));
}

#[test]
fn a_file_may_grow_without_its_bytes_but_bytes_do_not_survive_without_the_length() {
    let outcomes = outcomes(&[1; 512], |_, file| file.write_all_at(&[2; 1024], 512).unwrap());
    assert!(any(&outcomes, |bytes| bytes.len() == 512));
    assert!(any(&outcomes, |bytes| bytes.len() == 1536 && bytes[512..].iter().all(|byte| *byte == 0)));
    assert!(any(&outcomes, |bytes| bytes.len() == 1536 && bytes[512..].iter().all(|byte| *byte == 2)));
}

#[test]
fn a_truncation_that_was_lost_leaves_the_old_bytes() {
    let outcomes = outcomes(&[1; 1024], |_, file| {
        file.set_length(0).unwrap();
        file.write_all_at(&[2; 512], 0).unwrap();
    });
    assert!(any(&outcomes, |bytes| bytes == [1; 1024]));
    assert!(any(&outcomes, |bytes| bytes.is_empty()));
    assert!(any(&outcomes, |bytes| bytes == [0; 512]));
    assert!(any(&outcomes, |bytes| bytes == [2; 512]));
    assert!(outcomes.iter().all(|bytes| bytes.len() != 1024 || bytes[0] == 1));
}

#[test]
fn creations_and_removals_are_durable_only_after_a_sync_of_the_directory() {
    let made = |seed, sync| {
        let (mut disk, _) = disk_with(Name::Index, &[1]);
        let log = disk.open(Name::Log, true).unwrap().unwrap();
        log.write_all_at(&[5], 0).unwrap();
        log.sync().unwrap();
        if sync {
            disk.sync_directory().unwrap();
        }
        disk.crash(seed);
        disk.bytes(Name::Log)
    };
    assert!((0..SEEDS).all(|seed| made(seed, true) == Some(vec![5])));
    let outcomes: Vec<_> = (0..SEEDS).map(|seed| made(seed, false)).collect();
    assert!(outcomes.contains(&None) && outcomes.contains(&Some(vec![5])));
    let removed = |seed| {
        let (mut disk, _) = disk_with(Name::Log, &[1]);
        disk.remove(Name::Log).unwrap();
        assert!(disk.bytes(Name::Log).is_none());
        disk.crash(seed);
        disk.bytes(Name::Log)
    };
    let outcomes: Vec<_> = (0..SEEDS).map(removed).collect();
    assert!(outcomes.contains(&None) && outcomes.contains(&Some(vec![1])));
}

#[test]
fn an_open_file_stays_readable_after_its_removal_until_the_process_ends() {
    let (mut disk, file) = disk_with(Name::Log, &[1, 2]);
    disk.remove(Name::Log).unwrap();
    let mut byte = [0];
    assert_eq!((file.read_at(&mut byte, 1).unwrap(), byte), (1, [2]));
    let other = disk.another_process();
    let theirs = other.open(Name::Log, true).unwrap().unwrap();
    theirs.write_all_at(&[9], 0).unwrap();
    disk.kill();
    assert!(file.read_at(&mut byte, 0).is_err());
    assert_eq!((theirs.read_at(&mut byte, 0).unwrap(), byte), (1, [9]));
    disk.crash(1);
    assert!(theirs.read_at(&mut byte, 0).is_err() && other.open(Name::Log, false).is_err());
}

#[test]
fn a_killed_process_loses_no_write_and_makes_none_durable() {
    let mut vanished = false;
    for seed in 0..SEEDS {
        let (mut disk, file) = disk_with(Name::Index, &[1; 512]);
        file.write_all_at(&[2; 512], 0).unwrap();
        disk.kill();
        assert_eq!(disk.bytes(Name::Index).unwrap(), [2; 512]);
        disk.crash(seed);
        vanished |= disk.bytes(Name::Index).unwrap() == [1; 512];
    }
    assert!(vanished);
}

#[test]
fn calls_fail_as_their_fault_says() {
    let (disk, file) = disk_with(Name::Index, &[1; 512]);
    disk.fail(Fault { calls: vec![Call::Read], after: 1, refusal: Refusal::Io, once: true });
    let mut byte = [0];
    let results: Vec<bool> = (0..3).map(|_| file.read_at(&mut byte, 0).is_ok()).collect();
    assert_eq!(results, [true, false, true]);
    disk.fail(Fault { calls: vec![Call::Write, Call::Sync], after: 0, refusal: Refusal::NoSpace, once: false });
    let error = file.write_all_at(&[3], 0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(file.sync().is_err() && file.length().is_ok());
    disk.heal();
    assert!(file.sync().is_ok());
    disk.fail(Fault { calls: vec![Call::Read], after: 0, refusal: Refusal::Short, once: false });
    assert!((0..100).any(|_| file.read_at(&mut [0; 4], 0).unwrap() < 4));
    assert!(disk.failed() > 3);
}

#[test]
fn every_call_fails_after_the_last_allowed_one() {
    let (mut disk, file) = disk_with(Name::Index, &[1; 512]);
    disk.stop_after(1);
    assert!(file.write_all_at(&[2], 0).is_ok() && !disk.is_stopped());
    assert!(file.sync().is_err() && disk.is_stopped());
    assert!(file.read_at(&mut [0], 0).is_err() && disk.open(Name::Index, false).is_err());
    disk.kill();
    assert_eq!(disk.bytes(Name::Index).unwrap()[0], 2);
    assert!(disk.open(Name::Index, false).is_ok() && file.length().is_err());
}

#[test]
fn a_full_disk_refuses_only_what_needs_space() {
    let (disk, file) = disk_with(Name::Index, &[1; 8192]);
    disk.set_budget(Some(disk.used() + 4096));
    file.write_all_at(&[2; 8192], 0).unwrap();
    let error = file.write_all_at(&[3; 8192], 8192).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.length().unwrap(), 12_288);
    file.set_length(8192).unwrap();
    file.write_all_at(&[3; 4096], 8192).unwrap();
    disk.set_budget(None);
    file.write_all_at(&[3; 8192], 8192).unwrap();
}

#[test]
fn a_failed_sync_may_drop_writes_although_the_next_sync_succeeds() {
    let mut lost = false;
    for seed in 0..SEEDS {
        let mut disk = SimDisk::new(seed);
        disk.put(Name::Index, &[1; 512]);
        let file = disk.open(Name::Index, false).unwrap().unwrap();
        file.write_all_at(&[2; 512], 0).unwrap();
        disk.fail(Fault { calls: vec![Call::Sync], after: 0, refusal: Refusal::Forgotten, once: true });
        assert!(file.sync().is_err() && file.sync().is_ok());
        let mut byte = [0];
        file.read_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [2], "the page cache still has it");
        disk.crash(seed);
        lost |= disk.bytes(Name::Index).unwrap() == [1; 512];
    }
    assert!(lost);
}

#[test]
fn a_lying_disk_drops_what_it_reports_as_done() {
    let (mut disk, file) = disk_with(Name::Log, &[1; 512]);
    disk.lie(Lie::LogSync);
    let mut lost = false;
    for seed in 0..50 {
        let (mut disk, file) = disk_with(Name::Log, &[1; 512]);
        disk.lie(Lie::LogSync);
        file.write_all_at(&[2; 512], 0).unwrap();
        file.sync().unwrap();
        disk.crash(seed);
        lost |= disk.bytes(Name::Log).unwrap() == [1; 512];
    }
    assert!(lost);
    disk.lie(Lie::LogWrites { from: 0, to: 10 });
    file.write_all_at(&[7], 3).unwrap();
    file.write_all_at(&[7], 12).unwrap();
    disk.kill();
    let bytes = disk.bytes(Name::Log).unwrap();
    assert_eq!((bytes[3], bytes[12]), (1, 7));
}

/// Two pages that must never both be torn: a copy is written first, and then the page that it
/// protects. The writer syncs between the two writes, or does not.
#[test]
fn a_writer_that_does_not_sync_is_caught() {
    let broken = |syncs: bool| {
        let mut broken = 0;
        for seed in 0..SEEDS {
            let (mut disk, file) = disk_with(Name::Index, &[0; 8192]);
            // The copy is at 4096, and the page that it protects at 0.
            for at in [4096, 0] {
                file.write_all_at(&[1; 4096], at).unwrap();
                if syncs {
                    file.sync().unwrap();
                }
                if seed % 2 == 0 {
                    break;
                }
            }
            disk.crash(seed);
            let bytes = disk.bytes(Name::Index).unwrap();
            let whole = |half: &[u8]| half.iter().all(|byte| *byte == half[0]);
            broken += u32::from(!whole(&bytes[..4096]) && !whole(&bytes[4096..]));
            broken += u32::from(bytes[..4096].contains(&1) && bytes[4096..].contains(&0));
        }
        broken
    };
    assert_eq!(broken(true), 0);
    assert!(broken(false) > 10);
}

#[test]
fn a_seed_determines_what_survives() {
    let left = |seed| {
        let (mut disk, file) = disk_with(Name::Index, &[1; 4096]);
        (0..20).for_each(|i| file.write_all_at(&[i as u8; 700], i * 300).unwrap());
        disk.crash(seed);
        (disk.bytes(Name::Index), disk.trace())
    };
    for seed in 0..20 {
        assert_eq!(left(seed), left(seed));
    }
    assert_ne!(left(1).0, left(2).0);
}
