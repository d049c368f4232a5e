//! Files of every format version there was are opened, searched and changed, forever.
//!
//! `golden/version-1.pagehop` was built by the last version of `pagehop build` before there were changes, from 60 rows
//! of 12 dimensions (see [`row`]) with the ids 1000, 1003, 1006 and so on. `golden/version-2.pagehop` was built the same way
//! by the first version with changes, which then deleted the ids of `DELETED` and added 1180 and 1183.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pagehop_engine::{Progress, SearchOptions};
use pagehop_store::{OpenOptions, add, delete, open, vacuum};

const DIM: usize = 12;
const DELETED: [u64; 3] = [1009, 1012, 1177];

fn row(number: u64) -> Vec<f32> {
    (0..DIM as u64).map(|d| ((number * (d + 3) * 37 + d * d) % 101) as f32 / 8.0).collect()
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Every row is the nearest to itself, and nothing else is there.
fn assert_rows(path: &Path, numbers: &[u64], version: u32) {
    let index = open(path, &OpenOptions::default()).unwrap();
    let info = index.info().unwrap();
    assert_eq!((info.rows, info.dim, info.format_version), (numbers.len() as u64, DIM, version));
    let found = index.check(&mut go_on).unwrap();
    assert_eq!((found.nodes, found.reachable), (info.rows, info.rows));
    let options = SearchOptions { search_list: 100, slack: f32::INFINITY, beam_width: 4 };
    for number in numbers {
        let hits = index.search(&row(*number), numbers.len(), &options).unwrap().hits;
        assert_eq!(hits.len(), numbers.len());
        assert!(hits[0].distance < 1e-3, "row {number}: {:?}", hits[0]);
        assert!(hits.iter().take_while(|hit| hit.distance < 1e-3).any(|hit| hit.row_id == 1000 + 3 * number));
    }
}

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("pagehop-{name}-{}", std::process::id()));
    std::fs::copy(golden(name), &path).unwrap();
    path
}

fn change_all(path: &Path, numbers: &mut Vec<u64>) {
    let index = open(path, &OpenOptions { write: true, ..OpenOptions::default() }).unwrap();
    let more: Vec<u64> = (100..140).collect();
    let ids: Vec<u64> = more.iter().map(|number| 1000 + 3 * number).collect();
    let vectors: Vec<f32> = more.iter().flat_map(|number| row(*number)).collect();
    assert_eq!(add(&index, &ids, &vectors, Some([7, 8]), &mut go_on).unwrap().added, 40);
    assert_eq!(delete(&index, &[1000, 1003, 5], None).unwrap().deleted, 2);
    assert!(vacuum(&index, &mut go_on).unwrap().freed >= 2);
    assert_eq!(index.info().unwrap().mark, [7, 8]);
    index.into_pages().close().unwrap();
    numbers.retain(|number| *number > 1);
    numbers.extend(more);
}

#[test]
fn version_1_is_opened_and_changed() {
    let mut numbers: Vec<u64> = (0..60).collect();
    assert_rows(&golden("version-1.pagehop"), &numbers, 1);
    let path = scratch("version-1.pagehop");
    change_all(&path, &mut numbers);
    assert_rows(&path, &numbers, 2);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn version_2_is_opened_and_changed() {
    let mut numbers: Vec<u64> = (0..62).filter(|number| !DELETED.contains(&(1000 + 3 * number))).collect();
    assert_rows(&golden("version-2.pagehop"), &numbers, 2);
    let path = scratch("version-2.pagehop");
    change_all(&path, &mut numbers);
    assert_rows(&path, &numbers, 2);
    std::fs::remove_file(path).unwrap();
}
