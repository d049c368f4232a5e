//! Commands on an index whose ids are texts.

use std::collections::BTreeMap;

use crate::support::{Folder, json_lines, vectors};

const DIM: usize = 24;
const ROWS: usize = 300;

fn id(row: usize) -> String {
    format!("doc-{row}/\u{e9} {}", row % 7)
}

fn lines(rows: impl Iterator<Item = usize>) -> String {
    rows.map(|row| id(row) + "\n").collect()
}

/// Builds an index with text ids, columns and payloads.
fn index(folder: &Folder) -> Vec<Vec<f32>> {
    let items = vectors(ROWS, DIM, 3);
    folder.write("ids.txt", lines(0..ROWS));
    folder.write("texts.txt", (0..ROWS).map(|row| format!("text {row}\n")).collect::<String>());
    folder.write("n.csv", (0..ROWS).fold("n:int\n".to_owned(), |all, row| all + &format!("{row}\n")));
    folder.index(&items, "--id-kind text --ids ids.txt --vectors float32 --payload texts.txt --columns n.csv");
    items
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn rows_come_back_by_their_texts() {
    let folder = Folder::new();
    let items = index(&folder);
    assert_eq!(folder.info("items.pagehop")["id_kind"], "text");
    assert!(folder.run("info items.pagehop").ok().contains("ids                text"));
    assert_eq!(sorted(&folder.run("ids items.pagehop").ok()), sorted(&lines(0..ROWS)));
    assert_eq!(folder.run("ids items.pagehop --count 7").ok().lines().count(), 7);
    let as_json = json_lines(&folder.run("ids items.pagehop --json").ok());
    assert!(as_json.len() == ROWS && as_json.iter().any(|text| *text == id(5).as_str()));

    folder.write("some.txt", format!("{}\r\n{}\n{}", id(299), id(0), id(299)));
    let rows = json_lines(&folder.run("get items.pagehop some.txt --json").ok());
    for (row, number) in rows.iter().zip([299, 0, 299]) {
        assert_eq!(row["id"], id(number).as_str());
        assert_eq!(row["vector"][3].as_f64().unwrap() as f32, items[number][3]);
    }
    let payloads = folder.run("get items.pagehop some.txt --payload").ok();
    assert_eq!(payloads.lines().nth(1), Some(format!("{}\ttext 0", id(0)).as_str()));
    folder.run("get items.pagehop some.txt -o some.npy").ok();
    let found = folder.run("search items.pagehop some.npy -k 1 --recall 1 --payload").ok();
    let line = |query, row| format!("{query}\t{}\t0\ttext {row}\n", id(row));
    assert_eq!(found, line(0, 299) + &line(1, 0) + &line(2, 299));
    let found = json_lines(&folder.run("search items.pagehop some.npy -k 2 --where n<9 --json").ok());
    let ids: Vec<&str> = found[1]["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert!(ids.len() == 2 && ids[0] == id(0) && (0..9).any(|row| ids[1] == id(row)));
}

#[test]
fn changes_name_rows_by_their_texts() {
    let folder = Folder::new();
    let items = index(&folder);
    folder.write("gone.txt", lines((0..20).chain(ROWS..ROWS + 2)));
    let run = folder.run("delete items.pagehop gone.txt --json");
    let report = json_lines(&run.ok()).remove(0);
    assert_eq!((&report["deleted"], report["unknown"].as_array().unwrap().len()), (&20.into(), 2));
    assert!(folder.run("delete items.pagehop gone.txt").stderr.contains("doc-0/"));
    folder.fbin("more.fbin", &items[..50]);
    folder.write("more.txt", lines(0..50));
    let report = folder.run("add items.pagehop more.fbin --ids more.txt --batch 17 --json").ok();
    let report = json_lines(&report).remove(0);
    assert_eq!([&report["added"], &report["replaced"], &report["unchanged"]], [&20, &30, &0]);
    folder.write("one.txt", lines(3..4));
    folder.write("values.csv", "n:int\n-5\n");
    folder.run("update-columns items.pagehop one.txt values.csv --quiet").ok();
    folder.fbin("query.fbin", &items[200..201]);
    let found = json_lines(&folder.run("search items.pagehop query.fbin -k 5 --where n=-5 --json").ok());
    assert_eq!(found[0]["ids"], serde_json::json!([id(3)]));
    for command in ["backup items.pagehop copy.pagehop", "retrain items.pagehop", "compact items.pagehop"] {
        folder.run(&format!("{command} --quiet")).ok();
    }
    for name in ["items.pagehop", "copy.pagehop"] {
        let rows: BTreeMap<String, ()> =
            folder.run(&format!("ids {name}")).ok().lines().map(|line| (line.to_owned(), ())).collect();
        assert!(rows.len() == ROWS && (0..ROWS).all(|row| rows.contains_key(&id(row))), "{name}");
        assert!(folder.run(&format!("check {name}")).ok().contains("sound"));
    }
    folder.run("create new.pagehop --dim 24 --id-kind text --quiet").ok();
    folder.run("add new.pagehop more.fbin --ids more.txt --quiet").ok();
    assert_eq!((folder.rows("new.pagehop"), folder.info("new.pagehop")["id_kind"].as_str()), (50, Some("text")));
}

#[test]
fn ids_of_the_other_kind_are_refused() {
    let folder = Folder::new();
    let items = index(&folder);
    folder.fbin("one.fbin", &items[..1]);
    let error = folder.run("add items.pagehop one.fbin").error(2);
    assert!(error.contains("this index has text ids, and int ids were given"), "{error}");
    folder.write("empty.txt", "a\n\nb\n");
    assert!(folder.run("get items.pagehop empty.txt").error(1).contains("empty.txt: line 2 has 0 bytes"));
    folder.write("long.txt", "x".repeat(1025));
    assert!(folder.run("delete items.pagehop long.txt").error(1).contains("line 1 has 1025 bytes"));
    folder.write("bytes.txt", b"a\n\xff\n");
    assert!(folder.run("get items.pagehop bytes.txt").error(1).contains("line 2 is not UTF-8"));
    folder.write("other.txt", "doc\n");
    assert!(folder.run("get items.pagehop other.txt").error(2).contains("\"doc\" is not in the index"));
    assert!(folder.run("add items.pagehop one.fbin --ids empty.txt").error(1).contains("line 2"));
    assert!(folder.run("add items.pagehop items.fbin --ids other.txt").error(1).contains("1 ids for 300 vectors"));
    for options in ["--first 5", "-o ids.npy"] {
        assert!(folder.run(&format!("ids items.pagehop {options}")).error(2).contains("its ids are texts"));
    }
    assert!(folder.run("search items.pagehop one.fbin -o found.npy").error(2).contains("its ids are texts"));
    assert!(folder.run("build items.fbin -o x.pagehop --id-kind text").error(2).contains("--ids"));
    folder.write("twice.txt", lines((0..ROWS - 1).chain(0..1)));
    let error = folder.run("build items.fbin -o x.pagehop --id-kind text --ids twice.txt").error(2);
    assert!(error.contains("is given to more than one row"), "{error}");
    let error = folder.run("build items.fbin -o x.pagehop --ids ids.txt").error(1);
    assert!(error.contains("ids.txt: line 1 is \"doc-0/"), "{error}");
}
