//! Columns and filters on the command line.

use serde_json::{Value, json};

use crate::support::{Folder, Run, json_lines, nearest, vectors};

const DIM: usize = 16;
const ROWS: usize = 1200;

fn topic(row: usize) -> usize {
    row % 12
}

/// The price of a row; `None` for some rows.
fn price(row: usize) -> Option<f64> {
    (!row.is_multiple_of(7)).then(|| (row * 37 % 500) as f64 / 2.0)
}

fn table(header: &str, rows: std::ops::Range<usize>) -> String {
    let line = |row: usize| {
        let price = price(row).map_or(String::new(), |price| price.to_string());
        format!(
            "{},{price},\"name, {}\",{},2024-03-{:02}\n",
            topic(row),
            row % 5,
            row.is_multiple_of(2),
            1 + row % 28
        )
    };
    std::iter::once(format!("{header}\n")).chain(rows.map(line)).collect()
}

/// The rows that an exact search with `filter` finds for each query.
#[track_caller]
fn found(folder: &Folder, index: &str, filter: &str) -> Vec<Vec<u64>> {
    let mut command = folder.command(&format!("search {index} queries.fbin -k 5 --recall 1 --json"));
    let mut lines = json_lines(&Run::of(command.args(["--where", filter])).ok());
    lines.pop();
    lines.iter().map(|line| serde_json::from_value(line["ids"].clone()).unwrap()).collect()
}

#[track_caller]
fn expect(folder: &Folder, index: &str, items: &[Vec<f32>], filter: &str, passes: impl Fn(usize) -> bool) {
    let ids: Vec<usize> = (0..items.len()).filter(|row| passes(*row)).collect();
    let kept: Vec<Vec<f32>> = ids.iter().map(|row| items[*row].clone()).collect();
    for (query, found) in vectors(5, DIM, 9).iter().zip(found(folder, index, filter)) {
        let truth: Vec<u64> = nearest(&kept, query, 5).iter().map(|at| ids[*at as usize] as u64).collect();
        assert_eq!(found.len(), truth.len(), "{filter}");
        let common = found.iter().filter(|id| truth.contains(id)).count();
        assert!(common + 1 >= truth.len(), "{filter}: {found:?} {truth:?}");
    }
}

fn folder() -> (Folder, Vec<Vec<f32>>) {
    let (folder, items) = (Folder::new(), vectors(ROWS, DIM, 3));
    folder.fbin("items.fbin", &items);
    folder.fbin("queries.fbin", &vectors(5, DIM, 9));
    (folder, items)
}

#[test]
fn searches_find_rows_that_pass() {
    let (folder, items) = folder();
    folder.write("columns.csv", table("topic,price,name,even,day", 0..ROWS));
    folder.run("build items.fbin -o i --columns columns.csv --quiet").ok();
    let columns = folder.info("i")["columns"].clone();
    let kinds: Vec<&str> =
        columns.as_array().unwrap().iter().map(|column| column["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["int", "float", "text", "bool", "timestamp"]);
    assert!(folder.run("info i").ok().contains("topic (int), price (float), name (text)"));
    expect(&folder, "i", &items, "topic = 7", |row| topic(row) == 7);
    expect(&folder, "i", &items, "topic = 7 and price < 100", |row| {
        topic(row) == 7 && price(row).is_some_and(|price| price < 100.0)
    });
    expect(&folder, "i", &items, "price is null or name = 'name, 3'", |row| price(row).is_none() || row % 5 == 3);
    expect(&folder, "i", &items, "even = false and day >= '2024-03-20'", |row| row % 2 == 1 && row % 28 >= 19);
    expect(&folder, "i", &items, "topic = 99", |_| false);
    folder.run("check i").ok();
}

#[test]
fn values_are_added_and_updated() {
    let (folder, items) = folder();
    folder.run(&format!("create i --dim {DIM} --column topic:int --column price:float --quiet")).ok();
    let of_topic: String = (0..ROWS).map(|row| format!("{}\n", topic(row))).collect();
    folder.write("topic.csv", format!("topic\n{of_topic}"));
    folder.run("add i items.fbin --columns topic.csv --batch 500 --quiet").ok();
    expect(&folder, "i", &items, "topic in (2, 3) and price is null", |row| [2, 3].contains(&topic(row)));
    folder.write("ids.txt", "7\n8\n9\n");
    folder.write("price.csv", "price\n10\n\"\"\n30.5\n");
    let report = |line: &str| -> Value { json_lines(&folder.run(line).ok()).remove(0) };
    let updated = report("update-columns i ids.txt price.csv --batch 2 --json --quiet");
    assert_eq!(updated["changed"], json!(2));
    expect(&folder, "i", &items, "price >= 10", |row| row == 7 || row == 9);
    folder.run("vacuum i --quiet").ok();
    folder.run("check i").ok();
    expect(&folder, "i", &items, "price = 30.5 and topic = 9", |row| row == 9);
}

/// The tags of a row: an empty set for some rows, and `None` for others.
fn tags(row: usize) -> Option<Vec<String>> {
    let all = [format!("topic, \"{}\"", topic(row)), "all".to_owned(), format!("hundred {}", row / 100)];
    (!row.is_multiple_of(7)).then(|| all[..row % 4].to_vec())
}

#[test]
fn searches_find_rows_that_have_tags() {
    let (folder, items) = folder();
    let field = |tags: Option<Vec<String>>| tags.map_or_else(String::new, |tags| json!(tags).to_string());
    let line = |row: usize| format!("{},\"{}\"\n", topic(row), field(tags(row)).replace('"', "\"\""));
    let lines: String = (0..ROWS).map(line).collect();
    folder.write("columns.csv", format!("topic,labels:tags\n{lines}"));
    folder.run("build items.fbin -o i --columns columns.csv --quiet").ok();
    assert!(folder.run("info i").ok().contains("topic (int), labels (tags)"));
    let has = |row: usize, tag: &str| tags(row).is_some_and(|tags| tags.iter().any(|other| other == tag));
    expect(&folder, "i", &items, "labels contains 'all'", |row| has(row, "all"));
    expect(&folder, "i", &items, "labels contains 'topic, \"3\"' and topic < 5", |row| has(row, "topic, \"3\""));
    expect(&folder, "i", &items, "labels contains any ('hundred 3', 'hundred 7')", |row| {
        has(row, "hundred 3") || has(row, "hundred 7")
    });
    expect(&folder, "i", &items, "labels contains all ('all', 'hundred 3')", |row| has(row, "hundred 3"));
    expect(&folder, "i", &items, "labels not contains 'all'", |row| tags(row).is_some() && !has(row, "all"));
    expect(&folder, "i", &items, "labels is null", |row| tags(row).is_none());
    folder.write("ids.txt", "7\n8\n");
    folder.write("labels.csv", "labels\n\"[\"\"a\"\", \"\"b\"\", \"\"a\"\"]\"\n[]\n");
    folder.run("update-columns i ids.txt labels.csv --quiet").ok();
    expect(&folder, "i", &items, "labels contains all ('b', 'a')", |row| row == 7);
    folder.run("check i").ok();

    let refused = |text: &str| {
        folder.write("bad.csv", format!("labels:tags\n{text}\n"));
        folder.run("update-columns i ids.txt bad.csv --quiet").error(2)
    };
    assert!(
        refused("new").contains("bad.csv, line 2, column \"labels\": new is not a list of tags, such as [\"new\"")
    );
    assert!(refused("[1]").contains("not a list of tags"));
    let empty = refused("\"[\"\"\"\"]\"");
    assert!(empty.contains("bad.csv, line 2: row 0, column \"labels\": a tag is empty"), "{empty}");
    let search = |filter: &str| Run::of(folder.command("search i queries.fbin").args(["--where", filter])).error(2);
    assert!(search("labels = 'all'").contains("use contains"));
    assert!(search("labels contains all").contains("expected ("));
    assert!(search("topic contains 'a'").contains("only columns of tags"));
}

#[test]
fn searches_find_rows_with_a_uuid() {
    let (folder, items) = folder();
    let uuid = |row: usize| format!("{:08x}-89ab-4def-8011-2233445566{:02x}", row % 9, row % 9);
    let lines: String = (0..ROWS).map(|row| format!("{}\n", uuid(row))).collect();
    folder.write("columns.csv", format!("u:uuid\n{lines}"));
    folder.run("build items.fbin -o i --columns columns.csv --quiet").ok();
    expect(&folder, "i", &items, &format!("u = '{}'", uuid(4).to_uppercase()), |row| row % 9 == 4);
    expect(&folder, "i", &items, &format!("u not in ('{}')", uuid(4).replace('-', "")), |row| row % 9 != 4);
    let search = |filter: &str| Run::of(folder.command("search i queries.fbin").args(["--where", filter])).error(2);
    assert!(search("u = 'x'").contains("'x' is not a value of kind uuid"));
    assert!(search(&format!("u < '{}'", uuid(4))).contains("no order"));
    folder.write("bad.csv", "u:uuid\n0123\n");
    let bad = folder.run("build items.fbin -o j --columns bad.csv --quiet").error(2);
    assert!(bad.contains("bad.csv, line 2, column \"u\": '0123' is not a value of kind uuid"), "{bad}");
}

#[test]
fn bad_columns_and_filters_are_refused() {
    let (folder, _) = folder();
    let build = |text: &str, code| {
        folder.write("bad.csv", text);
        folder.run("build items.fbin -o bad --columns bad.csv --quiet").error(code)
    };
    assert!(build("a\n1\n", 1).contains("bad.csv: it holds 1 rows of values for 1200 rows"));
    assert!(build("a:float\nx\n", 2).contains("bad.csv, line 2, column \"a\": 'x' is not a value of kind float"));
    assert!(build("a:number\n1\n", 2).contains("no kind of column \"number\""));
    assert!(build("a,b\n1\n", 1).contains("bad.csv"));
    assert!(build("a,a\n1,2\n", 2).contains("two columns have the name"));
    assert!(build("a,b\n1,\n", 1).contains("column \"b\" has no values"));
    let beyond = build("a,b\n1,2\n9223372036854775808,2\n", 2);
    assert!(beyond.contains("bad.csv, line 3, column \"a\": 9223372036854775808 is an integer beyond"), "{beyond}");
    // Such a number is a float beside others, or if the column says so.
    assert!(build("a\n9223372036854775808\n0.5\n", 1).contains("it holds 2 rows"));
    assert!(build("a:float\n9223372036854775808\n", 1).contains("it holds 1 rows"));
    assert!(build("a,b,c,d,e,f,g,h\n1,1,1,1,1,1,1,1\n", 2).contains("up to 7"));
    #[cfg(not(feature = "parquet"))]
    assert!(build("PAR1\u{15}\0", 1).contains("columns=pyarrow.parquet.read_table(path)"));
    assert!(build("", 1).contains("bad.csv"));
    assert!(folder.run("build items.fbin -o bad --columns none.csv").error(1).contains("none.csv"));
    assert!(!folder.path("bad").exists());

    folder.write("columns.csv", table("topic,price,name,even,day", 0..ROWS));
    folder.run("build items.fbin -o i --columns columns.csv --quiet").ok();
    let search = |filter: &str| Run::of(folder.command("search i queries.fbin").args(["--where", filter])).error(2);
    assert!(search("topic =").contains("expected a number"));
    assert!(search("weight = 1").contains("there is no column \"weight\"; the columns are topic, price"));
    assert!(search("topic = 'a'").contains("column \"topic\": 'a' is not a value of kind int"));
    assert!(search("name < 'a'").contains("no order"));
    assert!(search("day = 'today'").contains("'today' is not a value of kind timestamp"));
    folder.write("ids.txt", "7\n");
    folder.write("weight.csv", "weight\n10\n");
    assert!(folder.run("update-columns i ids.txt weight.csv").error(2).contains("no column \"weight\""));
    folder.write("ids.txt", "77777\n");
    folder.write("price.csv", "price\n10\n");
    assert!(folder.run("update-columns i ids.txt price.csv").error(2).contains("77777"));
    assert!(folder.run("create j --dim 3 --column topic").error(2).contains("NAME:KIND"));
}
