//! The commands that change an index, on valid input: rows are added, replaced, deleted and
//! vacuumed, and an interrupted import is resumed.

use std::fs;

use crate::support::{Folder, Running, ibin, json_lines, nearest, vectors};
use serde_json::{Value, json};

const DIM: usize = 24;

/// The JSON report of a command that succeeds.
#[track_caller]
fn report(folder: &Folder, line: &str) -> Value {
    json_lines(&folder.run(&format!("{line} --json --quiet")).ok()).remove(0)
}

/// Ids as text, one per line.
fn lines(ids: impl IntoIterator<Item = u64>) -> String {
    ids.into_iter().map(|id| format!("{id}\n")).collect()
}

/// The recall of `index` over `queries`, whose true neighbors are among `items`.
fn recall(folder: &Folder, index: &str, items: &[Vec<f32>], queries: &[Vec<f32>]) -> f64 {
    let truth: Vec<_> = queries.iter().map(|query| nearest(items, query, 10)).collect();
    folder.write("truth.ibin", ibin(&truth));
    folder.fbin("queries.fbin", queries);
    let line = format!("search {index} queries.fbin --truth truth.ibin --search-list 300 --json");
    let summary = json_lines(&folder.run(&line).ok()).pop().unwrap();
    summary["summary"]["recall"].as_f64().unwrap()
}

#[test]
fn rows_are_added_deleted_and_vacuumed() {
    let folder = Folder::new();
    let mut items = vectors(3050, DIM, 7);
    let queries = items.split_off(3000);
    folder.fbin("items.fbin", &items);
    let created = report(&folder, &format!("create i --dim {DIM}"));
    assert_eq!(created, json!({ "index": "i", "dim": DIM, "metric": "l2" }));
    assert_eq!(folder.rows("i"), 0);
    assert_eq!(folder.run("search i items.fbin").ok(), "");

    let added = report(&folder, "add i items.fbin --batch 500");
    assert_eq!((&added["added"], &added["rows"], &added["first_row"]), (&json!(3000), &json!(3000), &json!(0)));
    assert!(added["rows_per_s"].as_f64().unwrap() > 0.0, "{added}");
    assert_eq!(folder.names(), ["i", "items.fbin"]);
    assert!(recall(&folder, "i", &items, &queries) >= 0.95);

    folder.write("gone.txt", lines((2000..3000).chain([2000, 9999])));
    let deleted = report(&folder, "delete i gone.txt --batch 300 --auto-vacuum off");
    assert_eq!((&deleted["deleted"], &deleted["unknown"]), (&json!(1000), &json!([9999])));
    let info = folder.info("i");
    assert_eq!(
        (&info["rows"], &info["dead_rows"], &info["deleted_rows"]),
        (&json!(2000), &json!(1000), &json!(1000))
    );
    let said = folder.run("info i");
    assert!(said.stderr.contains("1,000 dead rows beside 2,000 live ones"), "{said:?}");
    assert!(said.stderr.contains("`pagehop vacuum i`"), "{said:?}");
    assert!(folder.run("check i").stderr.contains("pagehop vacuum i"));
    assert!(recall(&folder, "i", &items[..2000], &queries) >= 0.95);

    let vacuumed = report(&folder, "vacuum i");
    assert_eq!((&vacuumed["freed"], &vacuumed["waiting"]), (&json!(1000), &json!(0)));
    assert!(vacuumed["repaired"].as_u64().unwrap() > 0, "{vacuumed}");
    assert!(recall(&folder, "i", &items[..2000], &queries) >= 0.95);
    let info = folder.info("i");
    assert_eq!((&info["rows"], &info["dead_rows"]), (&json!(2000), &json!(0)));
    assert!(info["free_slots"].as_u64().unwrap() >= 1000, "{info}");
    let check = report_of_check(&folder, "i");
    assert_eq!((&check["nodes"], &check["reachable"]), (&json!(2000), &json!(2000)));
    assert_eq!((&check["dead_nodes"], &check["free_slots"]), (&json!(0), &info["free_slots"]));
    assert!(check["stale_edges"].is_u64(), "{check}");
    folder.run("calibrate i --quiet").ok();
    let said = folder.run("info i");
    assert_eq!(said.stderr, "", "{said:?}");

    // New rows use the space that was freed.
    let pages = info["pages"].as_u64().unwrap();
    report(&folder, "add i items.fbin");
    assert_eq!(folder.rows("i"), 3000);
    assert!(folder.info("i")["pages"].as_u64().unwrap() < pages + pages / 5);
    assert!(recall(&folder, "i", &items, &queries) >= 0.95);
}

fn report_of_check(folder: &Folder, index: &str) -> Value {
    json_lines(&folder.run(&format!("check {index} --json")).ok()).remove(0)
}

#[test]
fn unchanged_rows_are_skipped_and_changed_rows_replaced() {
    let folder = Folder::new();
    let mut items = vectors(600, DIM, 3);
    folder.index(&items, "");
    let again = report(&folder, "add items.pagehop items.fbin");
    assert_eq!((&again["added"], &again["unchanged"]), (&json!(0), &json!(600)));
    for item in &mut items[100..150] {
        item[0] += 1.0;
    }
    folder.fbin("items.fbin", &items);
    let run = folder.run("add items.pagehop items.fbin");
    assert!(run.stderr.contains("0 rows added, 50 replaced, 550 unchanged"), "{run:?}");
    assert!(!run.stderr.contains('\r'), "no progress line without a terminal: {run:?}");
    folder.fbin("query.fbin", &items[120..121]);
    assert!(folder.run("search items.pagehop query.fbin -k 1").ok().starts_with("0\t120\t"));
    assert_eq!(folder.rows("items.pagehop"), 600);

    folder.fbin("more.fbin", &vectors(20, DIM, 4));
    folder.write("ids.txt", lines((0..20).map(|row| u64::MAX - row)));
    let more = report(&folder, "add items.pagehop more.fbin --ids ids.txt --durability checkpoint --cache 1MiB");
    assert_eq!(more["added"], 20);
    assert_eq!(report(&folder, "delete items.pagehop ids.txt")["deleted"], 20);
    folder.run("check items.pagehop").ok();
}

#[test]
fn ids_to_delete_are_text_or_a_column() {
    let folder = Folder::new();
    folder.index(&vectors(300, DIM, 3), "");
    let header = b"\x93NUMPY\x01\x00\x76\x00";
    let dictionary = format!("{:<117}\n", "{'descr': '<u4', 'fortran_order': False, 'shape': (3,), }");
    let mut column = [&header[..], dictionary.as_bytes()].concat();
    column.extend([5_u32, 700, 299].iter().flat_map(|id| id.to_le_bytes()));
    folder.write("ids.npy", column);
    let run = folder.run("delete items.pagehop ids.npy");
    assert!(run.stderr.contains("2 rows deleted"), "{run:?}");
    assert!(run.stderr.contains("; 1 id was not in the index: 700"), "{run:?}");
    assert_eq!(run.code, Some(0));
    folder.write("none.txt", "");
    assert_eq!(report(&folder, "delete items.pagehop none.txt")["deleted"], 0);
    folder.write("all.txt", lines((0..300).rev()));
    let rest = report(&folder, "delete items.pagehop all.txt --batch 7 --auto-vacuum off");
    assert_eq!((&rest["deleted"], &rest["unknown"]), (&json!(298), &json!([5, 299])));
    assert_eq!(report(&folder, "vacuum items.pagehop")["freed"], 300);
    assert_eq!(folder.rows("items.pagehop"), 0);
    assert_eq!(folder.run("search items.pagehop items.fbin").ok(), "");
    assert_eq!(report(&folder, "add items.pagehop items.fbin")["added"], 300);
    folder.run("check items.pagehop").ok();
}

#[test]
fn a_killed_import_is_resumed() {
    let folder = Folder::new();
    let mut items = vectors(6_030, 16, 9);
    let queries = items.split_off(6_000);
    folder.fbin("items.fbin", &items);
    folder.run("create whole --dim 16").ok();
    folder.run("add whole items.fbin --batch 6000").ok();
    folder.run("create i --dim 16").ok();
    // Twice, so that an import that was resumed is resumed again.
    for (line, rows) in [("add i items.fbin --batch 200", 1000), ("add i items.fbin --batch 200 --resume", 2000)] {
        Running::add(&folder, line, "i", rows).kill();
        let there = folder.rows("i");
        assert!(there >= rows && there.is_multiple_of(200), "{there} rows");
        folder.run("check i").ok();
    }
    let there = folder.rows("i");
    assert!(folder.names().contains(&"i-log".to_owned()));
    let run = folder.run("add i items.fbin --batch 500 --resume --json");
    let expected = format!("resuming: the first {},{:03} of 6,000 rows", there / 1000, there % 1000);
    assert!(run.stderr.starts_with(&expected), "{there}: {run:?}");
    let added = json_lines(&run.ok()).remove(0);
    assert_eq!((&added["first_row"], &added["added"]), (&json!(there), &json!(6_000 - there)));
    assert_eq!((&added["replaced"], &added["unchanged"]), (&json!(0), &json!(0)));
    assert!(!folder.names().iter().any(|name| name.contains("i-")), "{:?}", folder.names());

    for index in ["i", "whole"] {
        assert_eq!(folder.rows(index), 6_000);
        let check = report_of_check(&folder, index);
        assert_eq!((&check["nodes"], &check["reachable"]), (&json!(6_000), &json!(6_000)));
        let found = recall(&folder, index, &items, &queries);
        assert!(found >= 0.95, "{index}: {found}");
    }
}

#[test]
fn resuming_needs_the_same_files() {
    let folder = Folder::new();
    let items = vectors(900, DIM, 5);
    folder.fbin("items.fbin", &items);
    folder.fbin("others.fbin", &vectors(900, DIM, 6));
    folder.write("ids.txt", lines(0..900));
    folder.run(&format!("create i --dim {DIM}")).ok();
    let resume = |line: &str| {
        let run = folder.run(&format!("{line} --resume --json"));
        let said = run.stderr.clone();
        (json_lines(&run.ok()).remove(0), said)
    };
    let (added, said) = resume("add i items.fbin");
    assert!(said.starts_with("nothing to resume: "), "{said}");
    assert_eq!((&added["first_row"], &added["added"]), (&json!(0), &json!(900)));
    let (added, said) = resume("add i items.fbin");
    assert!(said.starts_with("resuming: the first 900 of 900 rows of items.fbin are in i"), "{said}");
    assert_eq!((&added["first_row"], &added["rows"]), (&json!(900), &json!(0)));
    let (added, _) = resume("add i items.fbin --ids ids.txt");
    assert_eq!((&added["first_row"], &added["unchanged"]), (&json!(0), &json!(900)));
    // The fingerprint depends only on the files, not on other changes of the index.
    folder.run("delete i ids.txt").ok();
    folder.run("vacuum i").ok();
    let (added, _) = resume("add i items.fbin --ids ids.txt");
    assert_eq!(added["first_row"], 900);
    let (added, _) = resume("add i others.fbin");
    assert_eq!((&added["first_row"], &added["added"]), (&json!(0), &json!(900)));
    assert!(folder.run("add i others.fbin --resume --quiet").stderr.is_empty());
}

#[test]
fn a_checkpoint_leaves_one_file() {
    let folder = Folder::new();
    folder.fbin("items.fbin", &vectors(6000, DIM, 5));
    folder.run(&format!("create i --dim {DIM}")).ok();
    Running::add(&folder, "add i items.fbin --batch 100", "i", 300).kill();
    let rows = folder.rows("i");
    assert!(folder.names().contains(&"i-log".to_owned()));
    let done = report(&folder, "checkpoint i");
    assert!(done["log_bytes"].as_u64().unwrap() > 0 && done["page_bytes_written"].as_u64().unwrap() > 0, "{done}");
    assert_eq!(done["alone"], true);
    assert_eq!(folder.names(), ["i", "items.fbin"]);
    fs::rename(folder.path("i"), folder.path("moved")).unwrap();
    assert_eq!(folder.rows("moved"), rows);
    folder.run("check moved").ok();
    let run = folder.run("checkpoint moved");
    assert!(run.stderr.contains("every commit was in the index file already"), "{run:?}");
    assert_eq!(report(&folder, "checkpoint moved")["page_bytes_written"], 0);
}

#[test]
fn a_backup_beside_a_writer_is_complete_and_replaces_only_if_asked() {
    let folder = Folder::new();
    folder.index(&vectors(2000, DIM, 7), "");
    folder.fbin("more.fbin", &vectors(20_000, DIM, 8));
    folder.write("ids.txt", lines(10_000..30_000));
    let line = "add items.pagehop more.fbin --ids ids.txt --batch 50 --quiet";
    let writing = Running::add(&folder, line, "items.pagehop", 2200);
    let done = report(&folder, "backup items.pagehop copy");
    writing.kill();
    assert_eq!(done["target"], json!("copy"));
    assert_eq!(done["bytes"], json!(fs::metadata(folder.path("copy")).unwrap().len()));
    let rows = folder.rows("copy");
    assert!(rows >= 2200 && rows.is_multiple_of(50), "{rows}");
    folder.run("check copy").ok();
    // The writer was killed, so its log stays. The copy has no log.
    let names = folder.names();
    assert!(names.contains(&"items.pagehop-log".into()) && !names.contains(&"copy-log".into()), "{names:?}");

    let before = fs::read(folder.path("copy")).unwrap();
    let error = folder.run("backup items.pagehop copy").error(2);
    assert!(error.contains("copy exists already; --overwrite replaces it"), "{error}");
    let error = folder.run("backup items.pagehop items.pagehop --overwrite").error(2);
    assert!(error.contains("belongs to the index"), "{error}");
    assert_eq!(fs::read(folder.path("copy")).unwrap(), before);
    folder.run("backup items.pagehop copy --overwrite --quiet").ok();
    assert!(folder.rows("copy") >= rows);
}

#[test]
fn an_index_that_keeps_vectors_gives_exact_distances() {
    let folder = Folder::new();
    let mut items = vectors(600, DIM, 3);
    folder.index(&items, "--vectors float32");
    report(&folder, &format!("create i --dim {DIM} --vectors float32"));
    report(&folder, "add i items.fbin");
    items[5] = items[6].iter().map(|x| x + 0.001).collect();
    folder.fbin("row.fbin", &items[5..6]);
    folder.write("five.txt", "5\n");
    for index in ["items.pagehop", "i"] {
        assert_eq!(folder.info(index)["vectors"], "float32");
        assert_eq!(report(&folder, &format!("add {index} row.fbin --ids five.txt"))["replaced"], 1);
        let found = folder.run(&format!("search {index} row.fbin -k 2 --recall 1")).ok();
        let expected: f64 =
            items[5].iter().zip(&items[6]).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
        let words: Vec<&str> = found.split_whitespace().collect();
        assert_eq!((words[1], words[2], words[4]), ("5", "0", "6"), "{found}");
        let distance: f64 = words[5].parse().unwrap();
        assert!((distance / expected - 1.0).abs() < 1e-5, "{distance}, expected {expected}");
        folder.run(&format!("check {index}")).ok();
        folder.run(&format!("backup {index} copy --overwrite --quiet")).ok();
        assert_eq!(folder.run("search copy row.fbin -k 2 --recall 1").ok(), found);
    }
    assert_eq!(folder.info("copy")["vectors"], "float32");
}
