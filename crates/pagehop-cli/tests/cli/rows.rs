//! `ids` and `get`: rows by their ids, as text, JSON and .npy.

use crate::support::{Folder, json_lines, vectors};

const DIM: usize = 24;

/// An index with the ids 100 to 599, which keeps vectors. Rows 0 to 99 were deleted.
fn index(folder: &Folder) -> Vec<Vec<f32>> {
    let items = vectors(600, DIM, 3);
    folder.index(&items, "--vectors float32");
    folder.write("gone.txt", (0..100).map(|id| format!("{id}\n")).collect::<String>());
    folder.run("delete items.pagehop gone.txt --quiet").ok();
    items
}

#[test]
fn ids_are_listed_in_order_from_any_on() {
    let folder = Folder::new();
    index(&folder);
    let all: String = (100..600).map(|id| format!("{id}\n")).collect();
    assert_eq!(folder.run("ids items.pagehop").ok(), all);
    assert_eq!(folder.run("ids items.pagehop --first 598").ok(), "598\n599\n");
    assert_eq!(folder.run("ids items.pagehop --first 50 --count 2").ok(), "100\n101\n");
    assert_eq!(folder.run("ids items.pagehop --first 600").ok(), "");
    assert_eq!(folder.run("ids items.pagehop -o ids.npy").ok(), "");
    // Other commands can read the file.
    let found = folder.run("get items.pagehop ids.npy --json").ok();
    assert_eq!(found.lines().count(), 500);
    assert!(folder.run("delete items.pagehop ids.npy").stderr.contains("500 rows deleted"));
    assert_eq!(folder.run("ids items.pagehop").ok(), "");
    assert_eq!(folder.run("ids items.pagehop -o none.npy").ok(), "");
    assert_eq!(folder.run("get items.pagehop none.npy").ok(), "");
}

#[test]
fn get_gives_the_vectors_in_the_order_of_the_ids() {
    let folder = Folder::new();
    let items = index(&folder);
    folder.write("some.txt", "599\n100\n599\n");
    let lines = json_lines(&folder.run("get items.pagehop some.txt --json").ok());
    for (line, id) in lines.iter().zip([599, 100, 599]) {
        assert_eq!(line["id"], id);
        let vector: Vec<f32> =
            line["vector"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
        assert_eq!(vector, items[id as usize]);
    }
    assert_eq!(lines.len(), 3);
    let text = folder.run("get items.pagehop some.txt").ok();
    let row: Vec<f32> =
        text.lines().nth(1).unwrap().split('\t').skip(1).map(|word| word.parse().unwrap()).collect();
    assert_eq!(row, items[100]);
    folder.run("get items.pagehop some.txt -o some.npy").ok();
    // The file can be read as queries: each vector finds its own row.
    let found = folder.run("search items.pagehop some.npy -k 1 --recall 1").ok();
    assert_eq!(found, "0\t599\t0\n1\t100\t0\n2\t599\t0\n");
}

#[test]
fn wrong_ids_and_files_are_refused_and_nothing_is_written() {
    let folder = Folder::new();
    index(&folder);
    folder.write("some.txt", "599\n7\n");
    let before = folder.names();
    let error = folder.run("get items.pagehop some.txt -o some.npy").error(2);
    assert!(error.contains("items.pagehop") && error.contains('7'), "{error}");
    folder.write("words.txt", "seven\n");
    assert!(folder.run("get items.pagehop words.txt").error(1).contains("words.txt"));
    assert!(folder.run("get none.pagehop some.txt").error(1).contains("none.pagehop"));
    assert!(folder.run("ids items.pagehop -o ids.txt").error(2).contains("must end in .npy"));
    assert!(folder.run("ids items.pagehop -o nowhere/ids.npy").error(1).contains("cannot write nowhere/ids.npy"));
    assert!(folder.run("ids . ").error(1).contains("is not a file"));
    assert!(folder.run("ids items.pagehop --count 0").error(2).contains("--count"));
    assert!(folder.run("get items.pagehop some.txt --json -o some.npy").error(2).contains("cannot be used"));
    let after = folder.names();
    assert_eq!(after.into_iter().filter(|name| name != "words.txt").collect::<Vec<_>>(), before);
}

#[test]
fn payloads_come_back_by_id_and_from_searches() {
    let folder = Folder::new();
    let items = vectors(300, DIM, 3);
    folder.fbin("items.fbin", &items);
    let lines = |word: &str| (0..300).map(|id| format!("{word} {id}\n")).collect::<String>();
    folder.write("texts.txt", lines("text"));
    folder.run("build items.fbin -o items.pagehop --payload texts.txt --quiet").ok();
    folder.write("some.txt", "7\n299\n7\n");
    assert_eq!(folder.run("get items.pagehop some.txt --payload").ok(), "7\ttext 7\n299\ttext 299\n7\ttext 7\n");
    folder.fbin("query.fbin", &items[5..6]);
    assert_eq!(
        folder.run("search items.pagehop query.fbin -k 1 --payload").ok().split('\t').nth(3),
        Some("text 5\n")
    );
    let found = json_lines(&folder.run("search items.pagehop query.fbin -k 2 --payload --json").ok());
    assert_eq!(found[0]["payload"][0], "text 5");
    folder.run("create more.pagehop --dim 24 --payload --quiet").ok();
    folder.write("other.txt", lines("other"));
    folder.run("add more.pagehop items.fbin --payload other.txt --quiet").ok();
    let before = folder.run("get more.pagehop some.txt --payload --json").ok();
    assert_eq!(json_lines(&before)[1]["payload"], "other 299");
    assert!(folder.run("retrain more.pagehop").stderr.contains("trained with 300 rows"));
    assert_eq!(folder.run("get more.pagehop some.txt --payload --json").ok(), before);
    assert!(folder.run("check more.pagehop").ok().contains("sound"));
    folder.write("few.txt", "one\n");
    assert!(
        folder.run("add more.pagehop items.fbin --payload few.txt").error(1).contains("few.txt: it has 1 lines")
    );
    folder.run("create none.pagehop --dim 24 --quiet").ok();
    assert!(folder.run("add none.pagehop items.fbin --payload texts.txt").error(2).contains("keeps no payloads"));
    assert!(folder.run("retrain none.pagehop").error(2).contains("no rows to train with"));
}
