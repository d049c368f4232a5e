//! Compaction: the same rows in a smaller file, in place or in a new file. It is complete or not
//! made at all.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use crate::support::{Random, Scratch, this_program};
use pagehop_engine::{
    Column, ColumnKind, ColumnRows, CreateOptions, Effort, Error, Filter, Index, Metric, Progress, SearchOptions,
    Value, Vectors,
};
use pagehop_store::{AddOptions, CompactOptions, CompactReport, IndexFile, OpenOptions};

const DIM: usize = 8;
const OPTIONS: CompactOptions = CompactOptions { memory_bytes: 1 << 30, threads: 1 };

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn opened(path: &Path, write: bool) -> Index<IndexFile> {
    let options = OpenOptions { write, cache_bytes: 1 << 20, auto_vacuum: None, ..OpenOptions::default() };
    pagehop_store::open(path, &options).unwrap()
}

fn compact(path: &Path) -> Result<CompactReport, Error> {
    pagehop_store::compact(path, &OPTIONS, &mut go_on)
}

/// The rows that a user has put into an index, and the value of their column.
type Rows = BTreeMap<u64, ([f32; DIM], i64)>;

fn columns() -> Vec<Column> {
    vec![Column { name: "n".into(), kind: ColumnKind::Int }]
}

/// Makes an index of 1,500 rows, of which a third was deleted and a third replaced. Returns its
/// rows.
fn changed(path: &Path, vectors: Vectors, metric: Metric) -> Rows {
    pagehop_store::create(
        path,
        DIM,
        &CreateOptions { metric, vectors, columns: columns(), ..CreateOptions::default() },
        false,
    )
    .unwrap();
    let index = opened(path, true);
    let (mut rows, mut random) = (Rows::new(), Random(7));
    for (from, to) in [(0, 1500), (500, 1000)] {
        let ids: Vec<u64> = (from..to).collect();
        let mut values = ColumnRows::new(columns()).unwrap();
        let mut given = Vec::new();
        for id in &ids {
            let row: [f32; DIM] = std::array::from_fn(|_| random.below(2001) as f32 / 1000.0 - 0.9);
            let value = i64::from(random.below(9));
            values.push(&[Value::Int(value)]).unwrap();
            given.extend(row);
            rows.insert(*id, (row, value));
        }
        let options = AddOptions { mark: Some([5, 6]), ..AddOptions::default() };
        pagehop_store::add_with_columns(&index, &ids, &given, Some(&values), options, &mut go_on).unwrap();
    }
    let gone: Vec<u64> = (0..500).collect();
    pagehop_store::delete(&index, &gone, None, &mut go_on).unwrap();
    rows.retain(|id, _| !gone.contains(id));
    index.into_pages().close().unwrap();
    rows
}

/// Fails unless `index` has exactly `rows`. Components may differ by `error`.
#[track_caller]
fn expect_rows(index: &Index<IndexFile>, rows: &Rows, error: f32) {
    let report = index.check(&mut go_on).unwrap();
    assert_eq!((report.nodes, report.dead_nodes), (rows.len() as u64, 0));
    let ids = index.ids(0, usize::MAX).unwrap();
    assert!(ids.iter().eq(rows.keys()), "{} ids for {} rows", ids.len(), rows.len());
    let found = index.vectors(&ids).unwrap();
    for (found, (row, _)) in found.as_chunks::<DIM>().0.iter().zip(rows.values()) {
        assert!(found.iter().zip(row).all(|(a, b)| (a - b).abs() <= error), "{found:?} for {row:?}");
    }
    let plan = index.plan_filter(&Filter::In("n".into(), vec![Value::Int(3)])).unwrap();
    let mut searcher = index.searcher();
    let to_the_end = SearchOptions { search_list: 2500, slack: f32::INFINITY, beam_width: 8 };
    let hits = searcher.answer(&[0.1; DIM], 1000, &to_the_end.clone().into(), Some(&plan)).unwrap().hits;
    let mut passing: Vec<u64> = hits.iter().map(|hit| hit.row_id).collect();
    passing.sort_unstable();
    let expected: Vec<u64> = rows.iter().filter(|(_, row)| row.1 == 3).map(|(id, _)| *id).collect();
    assert_eq!(passing, expected);
}

#[test]
fn the_rows_are_the_same_and_the_file_is_smaller() {
    let scratch = Scratch::new("compact");
    for (number, vectors, metric, into) in [
        (0, Vectors::Codes, Metric::L2, false),
        (1, Vectors::Float16, Metric::InnerProduct, true),
        (2, Vectors::Float32, Metric::Cosine, false),
        (0, Vectors::Codes, Metric::InnerProduct, true),
    ] {
        let path = scratch.path(&format!("items-{number}-{into}"));
        let rows = changed(&path, vectors, metric);
        let error = [0.004, 0.0005, 0.0][number];
        let before = std::fs::metadata(&path).unwrap().len();
        let (target, report) = if into {
            let target = scratch.path("into");
            let index = opened(&path, false);
            let report = pagehop_store::compact_into(&index, &target, true, &OPTIONS, &mut go_on).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().len(), before);
            (target, report)
        } else {
            (path.clone(), compact(&path).unwrap())
        };
        let after = std::fs::metadata(&target).unwrap().len();
        assert_eq!((report.rows, u64::from(report.pages)), (1000, after / 8192));
        assert!(u64::from(report.pages_before) >= before / 8192 && after * 3 < before * 2, "{report:?}");
        let index = opened(&target, true);
        expect_rows(&index, &rows, error);
        let info = index.info().unwrap();
        assert_eq!((info.mark, info.dead_rows, info.vectors, info.metric), ([5, 6], 0, vectors, metric));
        assert!(info.calibrated.is_some() && index.options(10, &Effort::Recall(0.9)).is_ok());
        // The new index can be changed like any other.
        pagehop_store::delete(&index, &[1200], None, &mut go_on).unwrap();
        pagehop_store::vacuum(&index, &mut go_on).unwrap();
        let left = rows.into_iter().filter(|(id, _)| *id != 1200).collect();
        expect_rows(&index, &left, error);
        index.into_pages().close().unwrap();
    }
    let strays = scratch.names().into_iter().filter(|name| !name.starts_with("items-") && name != "into");
    assert_eq!(strays.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn an_index_of_which_nothing_is_left_becomes_empty() {
    let scratch = Scratch::new("compact-empty");
    let path = scratch.path("items");
    let rows = changed(&path, Vectors::Float32, Metric::L2);
    let index = opened(&path, true);
    pagehop_store::delete(&index, &rows.keys().copied().collect::<Vec<_>>(), None, &mut go_on).unwrap();
    index.into_pages().close().unwrap();
    assert_eq!(compact(&path).unwrap().rows, 0);
    assert!(std::fs::metadata(&path).unwrap().len() <= 2 * 8192);
    let index = opened(&path, true);
    let info = index.info().unwrap();
    assert_eq!((info.rows, info.vectors, info.columns, info.mark), (0, Vectors::Float32, columns(), [5, 6]));
    pagehop_store::add(&index, &[3], &[0.5; DIM], AddOptions::default(), &mut go_on).unwrap();
    assert_eq!(index.vectors(&[3]).unwrap(), [0.5; DIM]);
}

#[test]
fn an_index_that_is_open_elsewhere_is_not_replaced() {
    let scratch = Scratch::new("compact-open");
    let path = scratch.path("items");
    let rows = changed(&path, Vectors::Codes, Metric::L2);
    let bytes = std::fs::read(&path).unwrap();
    for write in [false, true] {
        let other = opened(&path, write);
        let error = compact(&path).unwrap_err();
        assert!(matches!(error, Error::Busy { .. }) && error.to_string().contains("items"), "{error}");
        other.into_pages().close().unwrap();
    }
    // The index is opened while the new file is being built: the old file stays and is complete.
    let mut other = None;
    let error = pagehop_store::compact(&path, &OPTIONS, &mut |_| {
        other.get_or_insert_with(|| opened(&path, false));
        ControlFlow::Continue(())
    });
    assert!(matches!(error, Err(Error::Busy { .. })), "{error:?}");
    drop(other);
    assert_eq!(scratch.names(), ["items"]);
    assert!(std::fs::read(&path).unwrap() == bytes);
    assert_eq!(compact(&path).unwrap().rows, rows.len() as u64);
    assert_eq!(scratch.names(), ["items"]);
}

#[test]
fn a_cursor_of_an_older_commit_goes_on_beside_a_copy() {
    let scratch = Scratch::new("compact-cursor");
    let path = scratch.path("items");
    let rows = changed(&path, Vectors::Float32, Metric::L2);
    let (reader, writer) = (opened(&path, false), opened(&path, true));
    let mut cursor = reader.cursor(&[0.0; DIM], &SearchOptions::default()).unwrap();
    let first = cursor.next_hit().unwrap().unwrap();
    pagehop_store::delete(&writer, &[first.row_id, 1100], None, &mut go_on).unwrap();
    pagehop_store::vacuum(&writer, &mut go_on).unwrap();
    let target = scratch.path("into");
    let report = pagehop_store::compact_into(&reader, &target, false, &OPTIONS, &mut go_on).unwrap();
    assert_eq!(report.rows, rows.len() as u64 - 2 + u64::from(first.row_id == 1100));
    let mut seen = 1;
    while cursor.next_hit().unwrap().is_some() {
        seen += 1;
    }
    assert_eq!(seen, rows.len());
    let left = rows.into_iter().filter(|(id, _)| *id != 1100 && *id != first.row_id).collect();
    expect_rows(&opened(&target, false), &left, 0.0);
}

#[test]
fn what_is_no_place_or_no_index_is_refused_and_stays() {
    let scratch = Scratch::new("compact-places");
    let path = scratch.path("items");
    changed(&path, Vectors::Codes, Metric::L2);
    let index = opened(&path, false);
    std::fs::write(scratch.path("mine"), "mine").unwrap();
    std::fs::create_dir(scratch.path("folder")).unwrap();
    let before = scratch.names();
    for (name, overwrite, what) in [
        ("mine", false, "exists already"),
        ("folder", true, "is not a file"),
        ("items", true, "belongs to the index"),
        ("items-log", true, "belongs to the index"),
        ("nowhere/copy", true, "No such file"),
    ] {
        let target = scratch.path(name);
        let error = pagehop_store::compact_into(&index, &target, overwrite, &OPTIONS, &mut go_on).unwrap_err();
        assert!(error.to_string().contains(what), "{name}: {error}");
    }
    drop(index);
    for name in ["mine", "folder", "nothing"] {
        let error = compact(&scratch.path(name)).unwrap_err().to_string();
        assert!(error.contains(name), "{name}: {error}");
    }
    let little = CompactOptions { memory_bytes: 1000, threads: 1 };
    let error = pagehop_store::compact(&path, &little, &mut go_on).unwrap_err().to_string();
    assert!(error.contains("memory"), "{error}");
    let mut phases = 0;
    let stopped = pagehop_store::compact(&path, &OPTIONS, &mut |_| {
        phases += 1;
        if phases > 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
    assert_eq!(scratch.names(), before.into_iter().filter(|name| name != "items-shared").collect::<Vec<_>>());
    assert_eq!(std::fs::read(scratch.path("mine")).unwrap(), b"mine");
}

/// The compaction runs in another process, because the limit, which stands for a full disk, holds
/// for a process.
#[test]
fn without_space_the_index_stays() {
    if let Some(path) = std::env::var_os("PAGEHOP_TEST_COMPACT") {
        let path = Path::new(&path);
        // After the index is open, no file may be longer than 64 KiB.
        let mut fill = |_: Progress| {
            let process = std::process::id().to_string();
            let limit = ["--fsize=65536:", "--pid", &process];
            assert!(std::process::Command::new("prlimit").args(limit).status().unwrap().success());
            ControlFlow::Continue(())
        };
        let error = pagehop_store::compact(path, &OPTIONS, &mut fill).unwrap_err();
        assert!(matches!(error, Error::Full { .. }) && error.to_string().contains("items"), "{error}");
        println!("there was no space in place");
        return;
    }
    if let Some(path) = std::env::var_os("PAGEHOP_TEST_COMPACT_INTO") {
        let path = Path::new(&path);
        let (index, target) = (opened(path, false), path.with_file_name("copy"));
        let error = pagehop_store::compact_into(&index, &target, true, &OPTIONS, &mut go_on).unwrap_err();
        assert!(matches!(error, Error::Full { .. }) && error.to_string().contains("copy"), "{error}");
        println!("there was no space beside");
        return;
    }
    let scratch = Scratch::new("compact-full");
    let path = scratch.path("items");
    changed(&path, Vectors::Codes, Metric::L2);
    let bytes = std::fs::read(&path).unwrap();
    let run = |variable: &str, script: &str, expected: &str| {
        let child = std::process::Command::new("bash")
            .args(["-c", script, "bash"])
            .args(this_program())
            .args(["--exact", "compact::without_space_the_index_stays", "--nocapture"])
            .env(variable, &path)
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&child.stdout);
        assert!(output.contains(expected), "{output} {}", String::from_utf8_lossy(&child.stderr));
        assert!(std::fs::read(&path).unwrap() == bytes);
    };
    run("PAGEHOP_TEST_COMPACT", "trap '' XFSZ; exec \"$@\"", "there was no space in place");
    assert_eq!(scratch.names(), ["items"]);
    // X-shared is longer than 64 KiB, so it is made before the child begins.
    let open = opened(&path, false);
    run("PAGEHOP_TEST_COMPACT_INTO", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "there was no space beside");
    drop(open);
    assert_eq!(scratch.names(), ["items"]);
}
