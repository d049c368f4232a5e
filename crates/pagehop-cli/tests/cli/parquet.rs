//! Columns from Parquet files on the command line.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::support::{Folder, vectors};

const ROWS: usize = 600;
/// Bytes of page 0. It differs between equal indexes in its checksum and in six bytes that identify
/// the file.
const PAGE_BYTES: usize = 8192;

fn topic(row: usize) -> Option<i64> {
    (!row.is_multiple_of(7)).then_some((row % 12) as i64)
}

fn label(row: usize) -> Option<Vec<&'static str>> {
    [None, Some(vec![]), Some(vec!["new"]), Some(vec!["old, \"worn\"", "new"])][row % 4].clone()
}

fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, impl std::io::Write + Send>,
    values: &[T::T],
    levels: [&[i16]; 2],
) {
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<T>()
        .write_batch(values, Some(levels[0]), Some(levels[1]).filter(|levels| !levels.is_empty()))
        .unwrap();
    column.close().unwrap();
}

/// A Parquet file with the topics and labels of `rows`, in row groups of 250 rows.
fn table(rows: std::ops::Range<usize>, compression: Compression) -> Vec<u8> {
    const SCHEMA: &str = "message schema {
        OPTIONAL INT64 topic;
        OPTIONAL group labels (LIST) { REPEATED group list { OPTIONAL BYTE_ARRAY element (STRING); } } }";
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    for part in rows.collect::<Vec<_>>().chunks(250) {
        let mut group = writer.next_row_group().unwrap();
        let topics: Vec<i64> = part.iter().filter_map(|row| topic(*row)).collect();
        let levels: Vec<i16> = part.iter().map(|row| i16::from(topic(*row).is_some())).collect();
        put::<Int64Type>(&mut group, &topics, [&levels, &[]]);
        let (mut tags, mut definition, mut repetition) = (Vec::<ByteArray>::new(), Vec::new(), Vec::new());
        for row in part {
            match label(*row).as_deref() {
                None | Some([]) => definition.push(i16::from(label(*row).is_some())),
                Some(set) => {
                    definition.extend(set.iter().map(|_| 3));
                    tags.extend(set.iter().map(|tag| ByteArray::from(*tag)));
                }
            }
            repetition.push(0);
            repetition.resize(definition.len(), 1);
        }
        put::<ByteArrayType>(&mut group, &tags, [&definition, &repetition]);
        group.close().unwrap();
    }
    writer.close().unwrap();
    bytes
}

fn csv(rows: std::ops::Range<usize>) -> String {
    let field = |row| label(row).map_or_else(String::new, |set| serde_json::json!(set).to_string());
    let topic = |row| topic(row).map_or_else(String::new, |topic| topic.to_string());
    let lines: Vec<String> =
        rows.map(|row| format!("{},\"{}\"\n", topic(row), field(row).replace('"', "\"\""))).collect();
    format!("topic:int,labels:tags\n{}", lines.concat())
}

fn pages(folder: &Folder, name: &str) -> Vec<u8> {
    std::fs::read(folder.path(name)).unwrap()[PAGE_BYTES..].to_vec()
}

#[test]
fn a_parquet_file_gives_the_same_index_as_the_csv_file_of_its_rows() {
    let (folder, items) = (Folder::new(), vectors(ROWS, 16, 3));
    folder.fbin("items.fbin", &items);
    folder.write("all.csv", csv(0..ROWS));
    folder.run("build items.fbin -o of-csv --columns all.csv --quiet").ok();
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
        // The content of a file tells its format, not its name.
        folder.write("all.values", table(0..ROWS, compression));
        folder.run("build items.fbin -o of-parquet --columns all.values --overwrite --quiet").ok();
        assert_eq!(folder.info("of-parquet")["columns"], folder.info("of-csv")["columns"]);
        assert!(pages(&folder, "of-parquet") == pages(&folder, "of-csv"), "{compression}");
    }

    let more: Vec<String> = (5000..5100).map(|id| format!("{id}\n")).collect();
    folder.write("more.txt", more.concat());
    folder.fbin("more.fbin", &vectors(100, 16, 4));
    folder.write("ids.txt", "1\n5001\n");
    for (index, end) in [("of-csv", "csv"), ("of-parquet", "parquet")] {
        folder.write("more.csv", csv(100..200));
        folder.write("more.parquet", table(100..200, Compression::LZ4_RAW));
        folder.write("two.csv", csv(2..4));
        folder.write("two.parquet", table(2..4, Compression::GZIP(Default::default())));
        folder.run(&format!("add {index} more.fbin --ids more.txt --columns more.{end} --threads 1 --quiet")).ok();
        folder.run(&format!("update-columns {index} ids.txt two.{end} --quiet")).ok();
        folder.run(&format!("checkpoint {index} --quiet")).ok();
        folder.run(&format!("check {index}")).ok();
    }
    assert!(pages(&folder, "of-parquet") == pages(&folder, "of-csv"));
}

#[test]
fn bad_parquet_files_are_refused() {
    let folder = Folder::new();
    folder.fbin("items.fbin", &vectors(ROWS, 16, 3));
    let build = |name: &str, bytes: &[u8]| {
        folder.write(name, bytes);
        folder.run(&format!("build items.fbin -o bad --columns {name} --quiet")).error(1)
    };
    let whole = table(0..ROWS, Compression::SNAPPY);
    assert!(build("x.parquet", &[]).contains("x.parquet: it is not a Parquet file: it does not begin with PAR1"));
    assert!(build("x.parquet", b"topic\n1\n").contains("it is not a Parquet file"));
    assert!(build("x.parquet", b"PAR1").contains("x.parquet: the Parquet file is damaged or incomplete"));
    assert!(build("x.csv", &whole[..whole.len() / 2]).contains("x.csv: the Parquet file is damaged or incomplete"));
    assert!(
        build("x.parquet", &table(0..ROWS - 1, Compression::SNAPPY)).contains("holds 599 rows of values for 600")
    );
    assert!(
        build("x.parquet", &table(0..ROWS + 1, Compression::SNAPPY)).contains("holds 601 rows of values for 600")
    );
    std::fs::create_dir(folder.path("folder.parquet")).unwrap();
    let run = |name: &str| folder.run(&format!("build items.fbin -o bad --columns {name} --quiet")).error(1);
    assert!(run("folder.parquet").contains("it is a directory"));
    assert!(run("none.parquet").contains("none.parquet"));
    assert!(!folder.path("bad").exists());

    folder.write("x.parquet", whole);
    folder.run("create i --dim 16 --column topic:text --column price:int --quiet").ok();
    let wrong = folder.run("add i items.fbin --columns x.parquet --quiet").error(2);
    assert!(wrong.contains("column \"topic\" has kind text, not int"), "{wrong}");
    folder.run("create j --dim 16 --column topic:int --quiet").ok();
    let wrong = folder.run("add j items.fbin --columns x.parquet --quiet").error(2);
    assert!(wrong.contains("no column \"labels\""), "{wrong}");
}
