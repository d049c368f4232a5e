//! Recall as a setting: `build` and `calibrate` measure it, `search` reaches it, `recall` audits
//! it, and `info` shows it.

use crate::support::{Folder, ibin, json_lines, nearest, vectors};

const DIM: usize = 16;

fn folder() -> Folder {
    let folder = Folder::new();
    let mut items = vectors(3000, DIM, 7);
    let queries = items.split_off(2900);
    folder.index(&items, "");
    folder.fbin("queries.fbin", &queries);
    let truth: Vec<_> = queries.iter().map(|query| nearest(&items, query, 10)).collect();
    folder.write("truth.ibin", ibin(&truth));
    folder
}

/// Recall and hops of a search with `options`.
fn searched(folder: &Folder, options: &str) -> (f64, f64) {
    let line = format!("search items.pagehop queries.fbin --truth truth.ibin --json {options}");
    let lines = json_lines(&folder.run(&line).ok());
    let summary = &lines.last().unwrap()["summary"];
    (summary["recall"].as_f64().unwrap(), summary["hops"].as_f64().unwrap())
}

#[test]
fn a_search_reaches_the_recall_that_is_given() {
    let folder = folder();
    let (mut before, mut hops_before) = (0.0, 0.0);
    for recall in [0.9, 0.95, 0.99] {
        let (found, hops) = searched(&folder, &format!("--recall {recall}"));
        assert!(found > recall - 0.03 && found >= before && hops >= hops_before, "{recall}: {found}, {hops} hops");
        (before, hops_before) = (found, hops);
    }
    let (found, hops) = searched(&folder, "--recall 1");
    assert!(found > 0.99 && hops == 0.0, "{found}, {hops} hops");
}

#[test]
fn an_index_is_calibrated_later() {
    let folder = folder();
    let known = folder.info("items.pagehop")["calibrated"].clone();
    assert_eq!((&known["rows"], &known["samples"]), (&2900.into(), &256.into()), "{known}");
    folder.run("build items.fbin -o later.pagehop --no-calibrate").ok();
    assert!(folder.info("later.pagehop")["calibrated"].is_null());
    for line in ["search later.pagehop queries.fbin --recall 0.9", "recall later.pagehop --recall 0.9"] {
        let run = folder.run(line);
        let warned = "warning: later.pagehop was never calibrated, so the settings for --recall 0.9 are not known; \
                      `pagehop calibrate later.pagehop` measures them";
        assert_eq!(run.stderr.matches(warned).count(), 1, "{line}: {run:?}");
        run.ok();
    }
    assert!(!folder.run("search later.pagehop queries.fbin").stderr.contains("warning"));
    let report = json_lines(&folder.run("calibrate later.pagehop --json").ok()).remove(0);
    assert_eq!(report["samples"], 256);
    assert_eq!(folder.info("later.pagehop")["calibrated"], known);
    let text = folder.run("calibrate later.pagehop --queries queries.fbin").ok();
    assert_eq!(text.lines().count(), 21, "three numbers of neighbors, seven recalls: {text}");
    assert_eq!(folder.info("later.pagehop")["calibrated"]["samples"], 100);
}

#[test]
fn an_audit_agrees_with_searches_and_is_shown_if_stored() {
    let folder = folder();
    let run = folder.run("recall items.pagehop --queries queries.fbin --recall 0.9 --json");
    let report = json_lines(&run.ok()).remove(0);
    let (found, _) = searched(&folder, "--recall 0.9");
    assert!((report["recall"].as_f64().unwrap() - found).abs() < 0.01, "{report}, {found} by hand");
    assert_eq!((&report["samples"], &report["k"], &report["target"]), (&100.into(), &10.into(), &0.9.into()));
    assert!(folder.info("items.pagehop")["audit"].is_null());
    let text = folder.run("recall items.pagehop --samples 50 --slack 0 --store").ok();
    assert!(text.starts_with("recall@10 0.") && text.contains(" of 50 queries"), "{text}");
    let audit = folder.info("items.pagehop")["audit"].clone();
    assert_eq!((&audit["samples"], &audit["changes"]), (&50.into(), &0.into()), "{audit}");
    assert!(audit["target"].is_null());
}

#[test]
fn an_outdated_calibration_is_warned_of() {
    let folder = folder();
    let gone: String = (0..600).map(|id| format!("{id}\n")).collect();
    folder.write("gone.txt", gone);
    folder.run("delete items.pagehop gone.txt").ok();
    let expected = "600 rows were added or deleted since the index was calibrated at 2,900 rows";
    for line in ["search items.pagehop queries.fbin --recall 0.9", "info items.pagehop"] {
        let run = folder.run(line);
        assert!(run.stderr.contains(expected), "{line}: {run:?}");
    }
    let run = folder.run("search items.pagehop queries.fbin");
    assert!(!run.stderr.contains("warning"), "{run:?}");
    folder.run("calibrate items.pagehop --quiet").ok();
    let run = folder.run("info items.pagehop");
    assert!(!run.stderr.contains(expected), "{run:?}");
}

#[test]
fn a_recall_out_of_reach_is_a_warning_and_a_large_k_is_none() {
    let folder = folder();
    let run = folder.run("search items.pagehop queries.fbin --recall 0.999999 --json");
    let wanted =
        "--recall 0.999999 is above the highest recall that the calibration of items.pagehop reached for 10 rows";
    let warned = run.stderr.contains(wanted);
    let summary = json_lines(&run.ok()).pop().unwrap()["summary"].clone();
    assert_eq!((&summary["search_list"], &summary["slack"]), (&3200.into(), &serde_json::Value::Null));
    let best =
        json_lines(&folder.run("calibrate items.pagehop --json --quiet").ok()).remove(0)["settings"][7]["best"]
            .clone();
    assert_eq!(warned, best.as_f64().unwrap() < 0.999999, "{best}");
    let run = folder.run("search items.pagehop queries.fbin -k 290 --recall 0.9");
    assert_eq!((run.stderr.contains("warning"), run.stdout.lines().count()), (false, 29_000));
}

#[test]
fn what_cannot_be_measured_is_explained() {
    let folder = Folder::new();
    folder.index(&vectors(300, DIM, 1), "");
    let run = folder.run("calibrate items.pagehop");
    assert!(run.stderr.contains("300 rows are too few to calibrate"), "{run:?}");
    folder.fbin("queries.fbin", &vectors(20, DIM, 2));
    folder.run("search items.pagehop queries.fbin --recall 0.9").ok();
    let folder = self::folder();
    folder.fbin("few.fbin", &vectors(49, DIM, 2));
    let error = folder.run("calibrate items.pagehop --queries few.fbin").error(2);
    assert!(error.contains("there are 49 queries, a calibration takes 50"), "{error}");
    folder.fbin("wrong.fbin", &vectors(60, DIM + 1, 2));
    for command in ["calibrate", "recall"] {
        let error = folder.run(&format!("{command} items.pagehop --queries wrong.fbin")).error(2);
        assert!(error.contains("wrong.fbin has 17 dimensions, items.pagehop has 16"), "{error}");
    }
}
