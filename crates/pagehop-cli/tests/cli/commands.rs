//! The commands on valid input: build, search, info and check, as text and as JSON.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use crate::support::{Folder, Run, ibin, json_lines, nearest, vectors};
use serde_json::Value;

const ROWS: usize = 2000;
const DIM: usize = 24;

fn folder_with_queries() -> (Folder, Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let folder = Folder::new();
    let mut items = vectors(ROWS + 100, DIM, 7);
    let queries = items.split_off(ROWS);
    folder.index(&items, "");
    folder.fbin("queries.fbin", &queries);
    (folder, items, queries)
}

#[test]
fn searching_finds_what_brute_force_finds() {
    let (folder, items, queries) = folder_with_queries();
    let truth: Vec<_> = queries.iter().map(|query| nearest(&items, query, 10)).collect();
    folder.write("truth.ibin", ibin(&truth));
    let line = "search items.pagehop queries.fbin --truth truth.ibin --search-list 400 --slack inf --json";
    let lines = json_lines(&folder.run(line).ok());
    assert_eq!(lines.len(), queries.len() + 1);

    let mut found = 0;
    for (number, (line, truth)) in lines.iter().zip(&truth).enumerate() {
        assert_eq!(line["query"], number);
        let ids: Vec<u64> = serde_json::from_value(line["ids"].clone()).unwrap();
        let distances: Vec<f32> = serde_json::from_value(line["distances"].clone()).unwrap();
        assert_eq!((ids.len(), distances.len()), (10, 10));
        assert!(distances.is_sorted(), "{line}");
        found += truth.iter().filter(|id| ids.contains(id)).count();
    }
    let recall = found as f64 / (queries.len() * 10) as f64;
    let summary = &lines.last().unwrap()["summary"];
    assert!((summary["recall"].as_f64().unwrap() - recall).abs() < 1e-9, "{summary}");
    assert!(recall >= 0.95, "recall {recall}");
    assert_eq!(summary["queries"], queries.len());
    for name in ["qps", "hops", "pages_read", "pages_missed", "distances", "seconds"] {
        assert!(summary[name].as_f64().unwrap() > 0.0, "{name} of {summary}");
    }
}

#[test]
fn the_instruction_set_changes_no_bit_of_an_answer() {
    for metric in ["l2", "ip", "cosine"] {
        let folder = Folder::new();
        let mut items = vectors(400, 333, 8);
        folder.fbin("queries.fbin", &items.split_off(300));
        folder.index(&items, &format!("--metric {metric}"));
        let answers = ["portable", "avx2", "avx512bw", "avx512"].map(|isa| {
            // An instruction set that this CPU lacks is ignored. JSON has every digit of a
            // distance.
            let mut search = folder.command("search items.pagehop queries.fbin --json");
            let lines = json_lines(&Run::of(search.env("PAGEHOP_ISA", isa)).ok());
            lines.into_iter().filter(|line| line.get("summary").is_none()).collect::<Vec<_>>()
        });
        assert_eq!(answers[0].len(), 100);
        assert!(answers.iter().all(|other| *other == answers[0]), "{metric}");
    }
}

#[test]
fn threads_and_cache_change_no_result() {
    let (folder, ..) = folder_with_queries();
    let search = |options: &str| folder.run(&format!("search items.pagehop queries.fbin {options}")).ok();
    let one = search("--threads 1");
    assert_eq!(one.lines().count(), 1000);
    let first: Vec<&str> = one.lines().next().unwrap().split('\t').collect();
    assert_eq!((first.len(), first[0]), (3, "0"));
    assert_eq!(search("--threads 3"), one);
    assert_eq!(search("--cache 64KiB --threads 2"), one);
}

#[test]
fn the_summary_goes_to_standard_error() {
    let (folder, ..) = folder_with_queries();
    let run = folder.run("search items.pagehop queries.fbin -k 1");
    assert!(run.stderr.contains("100 queries in"), "{run:?}");
    assert!(!run.stderr.contains("recall"), "{run:?}");
}

#[test]
fn ids_are_written_to_a_matrix() {
    let (folder, ..) = folder_with_queries();
    let line = "search items.pagehop queries.fbin -k 5 --json";
    let lines = json_lines(&folder.run(line).ok());
    let run = folder.run(&format!("{line} --output found.npy"));
    let summary = json_lines(&run.ok());
    assert!(summary.len() == 1 && summary[0]["summary"]["k"] == 5);

    let bytes = fs::read(folder.path("found.npy")).unwrap();
    assert_eq!(bytes.len(), 128 + 100 * 5 * 8);
    let ids = bytes[128..].as_chunks().0.iter().map(|&id| i64::from_le_bytes(id));
    let listed = lines.iter().take(100).flat_map(|line| line["ids"].as_array().unwrap());
    assert!(ids.eq(listed.map(|id| id.as_i64().unwrap())));

    // The matrix can be used as a file of true neighbors.
    let again = folder.run(&format!("{line} --truth found.npy")).ok();
    assert_eq!(json_lines(&again).last().unwrap()["summary"]["recall"], 1.0);
    assert_eq!(folder.names(), ["found.npy", "items.fbin", "items.pagehop", "queries.fbin"]);
}

#[test]
fn results_have_the_ids_that_were_given() {
    let folder = Folder::new();
    let items = vectors(50, 8, 3);
    folder.fbin("items.fbin", &items);
    let ids: String = (0..50).map(|row| format!("{}\n", u64::MAX - row)).collect();
    folder.write("ids.txt", ids);
    folder.run("build items.fbin -o items.pagehop --ids ids.txt").ok();
    folder.fbin("query.fbin", &items[17..18]);
    let found = folder.run("search items.pagehop query.fbin -k 1").ok();
    assert!(found.starts_with(&format!("0\t{}\t", u64::MAX - 17)), "{found}");
    let error = folder.run("search items.pagehop query.fbin -k 1 -o found.npy").error(1);
    assert!(error.contains("too large for the int64"), "{error}");
    assert!(!folder.names().iter().any(|name| name.contains("found")));
}

#[test]
fn every_metric_puts_its_nearest_first() {
    let folder = Folder::new();
    let items = vec![vec![1.0, 0.0], vec![3.0, 3.0], vec![0.0, 2.0]];
    folder.fbin("query.fbin", &[vec![1.0, 0.2]]);
    for (metric, nearest) in [("l2", 0), ("ip", 1), ("cosine", 0)] {
        folder.index(&items, &format!("--metric {metric} --overwrite"));
        let found = folder.run("search items.pagehop query.fbin -k 1").ok();
        assert!(found.starts_with(&format!("0\t{nearest}\t")), "{metric}: {found}");
        let info = json_lines(&folder.run("info items.pagehop --json").ok());
        assert_eq!(info[0]["metric"], metric);
    }
}

#[test]
fn the_same_seed_builds_the_same_bytes() {
    let folder = Folder::new();
    folder.fbin("items.fbin", &vectors(1000, 16, 5));
    for (name, options) in [("a", "--threads 1"), ("b", "--threads 2"), ("c", "--seed 99")] {
        folder.run(&format!("build items.fbin -o {name} {options}")).ok();
    }
    // The header of page 0 is left out: it has a random identity of the file.
    let [a, b, c] = ["a", "b", "c"].map(|name| fs::read(folder.path(name)).unwrap().split_off(24));
    assert!(a == b && a != c);
}

#[test]
fn reports_agree_with_the_file() {
    let folder = Folder::new();
    folder.fbin("items.fbin", &vectors(300, 16, 5));
    let run = folder.run("build items.fbin -o items.pagehop --json --seed 5");
    assert!(run.stderr.contains("300 rows of 16 dimensions"), "{run:?}");
    assert!(!run.stderr.contains('\r'), "no progress line without a terminal: {run:?}");
    let report = &json_lines(&run.ok())[0];
    let bytes = fs::metadata(folder.path("items.pagehop")).unwrap().len();
    let info = &json_lines(&folder.run("info items.pagehop --json").ok())[0];
    for about in [report, info] {
        assert_eq!((&about["rows"], &about["dim"]), (&Value::from(300), &Value::from(16)));
        assert_eq!(about["bytes"], bytes);
        assert_eq!(about["pages"], bytes / 8192);
    }
    assert_eq!(info["seed"], 5);
    let text = folder.run("info items.pagehop").ok();
    assert!(text.contains("rows               300\n"), "{text}");
}

#[test]
fn a_sound_index_checks() {
    let (folder, ..) = folder_with_queries();
    let text = folder.run("check items.pagehop").ok();
    assert!(text.starts_with("items.pagehop: sound"), "{text}");
    let report = &json_lines(&folder.run("check items.pagehop --json").ok())[0];
    assert_eq!((&report["ok"], &report["nodes"]), (&Value::from(true), &Value::from(ROWS)));
    assert_eq!((&report["reachable"], &report["anchored"]), (&ROWS.into(), &ROWS.into()));
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let (folder, ..) = folder_with_queries();
    let mut command = folder.command("search items.pagehop queries.fbin -k 1000");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 10]).unwrap();
    drop(stdout);
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
}

#[test]
fn a_full_disk_behind_standard_output_is_a_failure() {
    let (folder, ..) = folder_with_queries();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = Run::of(folder.command("info items.pagehop").stdout(full));
    assert!(run.error(1).contains("cannot write to standard output"));
}
