//! The types of Parquet that become columns, the types that are refused, and what damaged files
//! give.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pagehop_engine::ColumnKind as Kind;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type,
    Int64Type,
};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataWriter};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;

/// The number of damaged files for each version and compression.
const DAMAGED_FILES: usize = 400;

/// A file that is removed when this is dropped.
struct Written(PathBuf);

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Written {
    fn new(bytes: &[u8]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pagehop-columns-{}-{number}.parquet", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn read(&self, known: &[Column], rows: u64) -> Result<ColumnRows, Error> {
        read(&self.0, File::open(&self.0).unwrap(), known, rows)
    }
}

/// The values of a column in a row group, without the missing ones.
#[derive(Clone)]
enum Values {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Text(Vec<&'static [u8]>),
    Fixed(Vec<Vec<u8>>),
}

/// Values, their definition levels and their repetition levels, which are empty if there are none.
type Chunk = (Values, Vec<i16>, Vec<i16>);

/// The bytes of a file with `groups`. Each group has a chunk for each leaf of `schema`.
fn file(schema: &str, properties: WriterProperties, groups: &[Vec<Chunk>]) -> Vec<u8> {
    let schema = parse_message_type(&format!("message schema {{ {schema} }}")).unwrap();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties)).unwrap();
    for group in groups {
        let mut row_group = writer.next_row_group().unwrap();
        for (values, definition, repetition) in group {
            let mut column = row_group.next_column().unwrap().unwrap();
            let some = |levels: &&Vec<i16>| !levels.is_empty();
            let levels = (Some(definition).filter(some), Some(repetition).filter(some));
            fn put<T: DataType>(
                column: &mut parquet::file::writer::SerializedColumnWriter<'_>,
                values: &[T::T],
                (definition, repetition): (Option<&Vec<i16>>, Option<&Vec<i16>>),
            ) {
                column
                    .typed::<T>()
                    .write_batch(values, definition.map(Vec::as_slice), repetition.map(Vec::as_slice))
                    .unwrap();
            }
            let bytes =
                |texts: &[&'static [u8]]| texts.iter().map(|x| x.to_vec().into()).collect::<Vec<ByteArray>>();
            match values {
                Values::Bool(values) => put::<BoolType>(&mut column, values, levels),
                Values::Int32(values) => put::<Int32Type>(&mut column, values, levels),
                Values::Int64(values) => put::<Int64Type>(&mut column, values, levels),
                Values::Float(values) => put::<FloatType>(&mut column, values, levels),
                Values::Double(values) => put::<DoubleType>(&mut column, values, levels),
                Values::Text(values) => put::<ByteArrayType>(&mut column, &bytes(values), levels),
                Values::Fixed(values) => {
                    let values: Vec<_> = values.iter().map(|x| ByteArray::from(x.clone()).into()).collect();
                    put::<FixedLenByteArrayType>(&mut column, &values, levels);
                }
            }
            column.close().unwrap();
        }
        row_group.close().unwrap();
    }
    writer.close().unwrap();
    bytes
}

/// A file of one column without missing values.
fn column(type_: &str, values: Values) -> Written {
    let written =
        file(&format!("REQUIRED {type_};"), WriterProperties::default(), &[vec![(values, vec![], vec![])]]);
    Written::new(&written)
}

fn rows(columns: &[(&str, Kind)], rows: &[Vec<Value>]) -> ColumnRows {
    let column = |(name, kind): &(&str, Kind)| Column { name: (*name).to_owned(), kind: *kind };
    let mut all = ColumnRows::new(columns.iter().map(column).collect()).unwrap();
    rows.iter().for_each(|row| all.push(row).unwrap());
    all
}

/// Fails unless `values` of the type `type_` are read as the column `x` of this kind with the
/// `expected` values.
#[track_caller]
fn expect(type_: &str, kind: Kind, values: Values, expected: &[Value]) {
    let read = column(type_, values).read(&[], expected.len() as u64).unwrap();
    let expected: Vec<Vec<Value>> = expected.iter().map(|value| vec![value.clone()]).collect();
    assert_eq!(read, rows(&[("x", kind)], &expected), "{type_}");
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

fn tags(tags: &[&str]) -> Value {
    Value::Tags(tags.iter().map(|tag| (*tag).to_owned()).collect())
}

#[test]
fn every_type_becomes_its_kind() {
    use Value::{Bool, Float, Int, Null, Text, Timestamp, Uuid};
    expect("BOOLEAN x", Kind::Bool, Values::Bool(vec![true, false]), &[Bool(true), Bool(false)]);
    let small = || Values::Int32(vec![-1, 7]);
    for type_ in ["INT32 x", "INT32 x (INTEGER(8,true))", "INT32 x (INT_16)", "INT32 x (INTEGER(32,true))"] {
        expect(type_, Kind::Int, small(), &[Int(-1), Int(7)]);
    }
    for type_ in ["INT32 x (INTEGER(32,false))", "INT32 x (UINT_32)"] {
        expect(type_, Kind::Int, small(), &[Int(u32::MAX.into()), Int(7)]);
    }
    for type_ in ["INT64 x", "INT64 x (INT_64)"] {
        expect(type_, Kind::Int, Values::Int64(vec![i64::MIN, 9]), &[Int(i64::MIN), Int(9)]);
    }
    expect("INT64 x (INTEGER(64,false))", Kind::Int, Values::Int64(vec![i64::MAX]), &[Int(i64::MAX)]);
    expect("FLOAT x", Kind::Float, Values::Float(vec![0.1, f32::NAN]), &[Float(f64::from(0.1f32)), Null]);
    expect("DOUBLE x", Kind::Float, Values::Double(vec![f64::NAN, 1e300]), &[Null, Float(1e300)]);
    let halves = Values::Fixed([0xc100u16, 0x7e00].map(|half| half.to_le_bytes().to_vec()).to_vec());
    expect("FIXED_LEN_BYTE_ARRAY (2) x (FLOAT16)", Kind::Float, halves, &[Float(-2.5), Null]);
    let day = Timestamp(86_400_000_000);
    expect("INT32 x (DATE)", Kind::Timestamp, Values::Int32(vec![1, -1]), &[day, Timestamp(-86_400_000_000)]);
    let times = || Values::Int64(vec![1001, -1]);
    for (type_, expected) in [
        ("INT64 x (TIMESTAMP(MILLIS,true))", [1_001_000, -1000]),
        ("INT64 x (TIMESTAMP_MILLIS)", [1_001_000, -1000]),
        ("INT64 x (TIMESTAMP(MICROS,false))", [1001, -1]),
        ("INT64 x (TIMESTAMP_MICROS)", [1001, -1]),
        ("INT64 x (TIMESTAMP(NANOS,true))", [1, -1]),
    ] {
        expect(type_, Kind::Timestamp, times(), &expected.map(Timestamp));
    }
    for type_ in ["BYTE_ARRAY x (STRING)", "BYTE_ARRAY x (UTF8)", "BYTE_ARRAY x (ENUM)", "BYTE_ARRAY x (JSON)"] {
        let texts = Values::Text(vec!["é".as_bytes(), b""]);
        expect(type_, Kind::Text, texts, &[Text("é".into()), Text(String::new())]);
    }
    let uuid = Uuid(*b"0123456789abcdef");
    for type_ in ["FIXED_LEN_BYTE_ARRAY (16) x (UUID)", "FIXED_LEN_BYTE_ARRAY (16) x"] {
        let fixed = Values::Fixed(vec![b"0123456789abcdef".to_vec()]);
        expect(type_, Kind::Uuid, fixed, std::slice::from_ref(&uuid));
    }
    expect("BYTE_ARRAY x", Kind::Uuid, Values::Text(vec![b"0123456789abcdef"]), &[uuid]);
}

#[test]
fn a_kind_that_is_known_takes_integers_and_texts() {
    let known = |kind| [Column { name: "x".into(), kind }];
    let ints = column("INT32 x", Values::Int32(vec![3])).read(&known(Kind::Float), 1).unwrap();
    assert_eq!(ints, rows(&[("x", Kind::Float)], &[vec![Value::Float(3.0)]]));
    let texts = Values::Text(vec![b"30313233-3435-3637-3839-616263646566"]);
    let texts = column("BYTE_ARRAY x (STRING)", texts).read(&known(Kind::Uuid), 1).unwrap();
    assert_eq!(texts, rows(&[("x", Kind::Uuid)], &[vec![Value::Uuid(*b"0123456789abcdef")]]));
    // Other kinds are refused later, when the values are added to the index.
    let texts = column("BYTE_ARRAY x (STRING)", Values::Text(vec![b"2024-01-01"]));
    assert_eq!(texts.read(&known(Kind::Timestamp), 1).unwrap().columns()[0].kind, Kind::Text);
    let wrong = column("BYTE_ARRAY x (STRING)", Values::Text(vec![b"x"])).read(&known(Kind::Uuid), 1);
    assert!(refusal(wrong).contains(".parquet: row 0, column \"x\": 'x' is not a value of kind uuid"));
    let nothing = "OPTIONAL INT32 x (UNKNOWN);";
    let nothing = file(nothing, WriterProperties::default(), &[vec![(Values::Int32(vec![]), vec![0], vec![])]]);
    let nothing = Written::new(&nothing);
    assert!(refusal(nothing.read(&[], 1)).contains("column \"x\" has no values and no type"));
    let read = nothing.read(&known(Kind::Bool), 1).unwrap();
    assert_eq!(read, rows(&[("x", Kind::Bool)], &[vec![Value::Null]]));
}

/// The bytes of a file with several row groups, dictionaries, missing values and lists, and its
/// rows.
fn table(properties: WriterProperties) -> (Vec<u8>, ColumnRows) {
    const SCHEMA: &str = "
        OPTIONAL BYTE_ARRAY name (STRING);
        OPTIONAL group labels (LIST) { REPEATED group list { OPTIONAL BYTE_ARRAY element (STRING); } }
        REPEATED BYTE_ARRAY old (UTF8);
        REQUIRED group short (LIST) { REPEATED BYTE_ARRAY element (UTF8); }
        OPTIONAL INT64 n;";
    let columns = [
        ("name", Kind::Text),
        ("labels", Kind::Tags),
        ("old", Kind::Tags),
        ("short", Kind::Tags),
        ("n", Kind::Int),
    ];
    let (mut groups, mut expected) = (Vec::new(), Vec::new());
    for size in [300i64, 1, 129] {
        let (mut names, mut name_levels) = (Vec::new(), Vec::new());
        let (mut labels, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
        let (mut short, mut old_definition, mut old_repetition) = (Vec::new(), Vec::new(), Vec::new());
        let (mut numbers, mut number_levels) = (Vec::new(), Vec::new());
        for row in 0..size {
            let name: Option<&'static str> = [Some("red"), None, Some("green"), Some("")][row as usize % 4];
            name_levels.push(i16::from(name.is_some()));
            names.extend(name.map(str::as_bytes));
            let set: Option<&[&'static str]> =
                [None, Some(&[][..]), Some(&["new"]), Some(&["old", "new", "é"])][row as usize % 4];
            match set {
                None | Some([]) => definition.push(i16::from(set.is_some())),
                Some(tags) => definition.extend(tags.iter().map(|_| 3)),
            }
            repetition.extend((0..set.map_or(1, <[_]>::len).max(1)).map(|at| i16::from(at > 0)));
            labels.extend(set.iter().flat_map(|tags| tags.iter().map(|tag| tag.as_bytes())));
            let list = set.unwrap_or_default();
            old_definition.extend((0..list.len().max(1)).map(|_| i16::from(!list.is_empty())));
            old_repetition.extend((0..list.len().max(1)).map(|at| i16::from(at > 0)));
            short.extend(list.iter().map(|tag| tag.as_bytes()));
            number_levels.push(i16::from(row % 5 > 0));
            numbers.extend((row % 5 > 0).then_some(row * size));
            let number = if row % 5 > 0 { Value::Int(row * size) } else { Value::Null };
            expected.push(vec![
                name.map_or(Value::Null, |name| Value::Text(name.to_owned())),
                set.map_or(Value::Null, tags),
                tags(list),
                tags(list),
                number,
            ]);
        }
        groups.push(vec![
            (Values::Text(names), name_levels, vec![]),
            (Values::Text(labels), definition, repetition),
            (Values::Text(short.clone()), old_definition.clone(), old_repetition.clone()),
            (Values::Text(short), old_definition, old_repetition),
            (Values::Int64(numbers), number_levels, vec![]),
        ]);
    }
    (file(SCHEMA, properties, &groups), rows(&columns, &expected))
}

#[test]
fn every_writing_of_a_table_gives_its_rows() {
    let compressions = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
    ];
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for compression in compressions {
            for dictionary in [true, false] {
                let properties = WriterProperties::builder()
                    .set_writer_version(version)
                    .set_compression(compression)
                    .set_dictionary_enabled(dictionary)
                    .set_data_page_row_count_limit(50)
                    .set_write_batch_size(10);
                let (bytes, expected) = table(properties.build());
                let read = Written::new(&bytes).read(&[], 430).unwrap();
                assert_eq!(read, expected, "{version:?} {compression} {dictionary}");
            }
        }
    }
    for encoding in [Encoding::DELTA_BYTE_ARRAY, Encoding::DELTA_LENGTH_BYTE_ARRAY] {
        let properties = WriterProperties::builder().set_dictionary_enabled(false);
        let properties = properties.set_column_encoding("name".into(), encoding);
        let (bytes, expected) = table(properties.build());
        assert_eq!(Written::new(&bytes).read(&[], 430).unwrap(), expected, "{encoding}");
    }
}

#[test]
fn types_that_are_no_kind_are_refused_with_a_remedy() {
    let refused = |schema: &str, columns: usize| {
        let chunk = |_| (Values::Int32(vec![]), vec![0], vec![]);
        let schema = schema.to_owned();
        let none: Vec<Vec<Chunk>> = if columns == 0 { vec![] } else { vec![(0..columns).map(chunk).collect()] };
        refusal(Written::new(&file(&schema, WriterProperties::default(), &none)).read(&[], columns.min(1) as u64))
    };
    let text = refused("OPTIONAL group x { OPTIONAL INT32 a; }", 0);
    assert!(text.contains(".parquet: column \"x\" has structs"), "{text}");
    assert!(text.ends_with("write their fields as columns of their own"), "{text}");
    let map = "OPTIONAL group x (MAP) { REPEATED group key_value
        { REQUIRED BYTE_ARRAY key (STRING); OPTIONAL INT32 value; } }";
    assert!(refused(map, 0).contains("column \"x\" has maps"));
    assert!(refused("OPTIONAL INT32 x (DECIMAL(5,2));", 0).contains("decimals (INT32), which"));
    assert!(
        refused("OPTIONAL INT96 x;", 0).contains("INT96, which an index does not take: write it as timestamps")
    );
    assert!(refused("OPTIONAL INT64 x (TIME(MICROS,true));", 0).contains("times of day (INT64)"));
    assert!(refused("OPTIONAL FIXED_LEN_BYTE_ARRAY (5) x;", 0).contains("fixed 5 bytes"));
    assert!(refused("OPTIONAL FIXED_LEN_BYTE_ARRAY (12) x (INTERVAL);", 0).contains("fixed 12 bytes"));
    let ints = "OPTIONAL group x (LIST) { REPEATED group list { OPTIONAL INT64 element; } }";
    assert!(refused(ints, 0).contains("lists of type INT64, which an index does not take: tags are texts"));
    for nested in [
        "OPTIONAL group x (LIST) { REPEATED group list { OPTIONAL group element { OPTIONAL INT32 a; } } }",
        "OPTIONAL group x (LIST) { REPEATED group list { OPTIONAL group element (LIST)
            { REPEATED group list { OPTIONAL BYTE_ARRAY element (STRING); } } } }",
        "REPEATED group x { OPTIONAL INT32 a; }",
    ] {
        assert!(refused(nested, 0).contains("lists of lists or of structs"), "{nested}");
    }
    let many: String = (0..300).map(|at| format!("OPTIONAL INT32 c{at}; ")).collect();
    assert!(refused(&many, 300).contains("there are 300 columns, an index takes up to 7"));
    let long = "x".repeat(64);
    let long = column(&format!("INT32 {long}"), Values::Int32(vec![1]));
    assert!(refusal(long.read(&[], 1)).contains("64 bytes"));
    assert!(refused("OPTIONAL INT32 x; OPTIONAL INT32 x;", 2).contains("two columns have the name"));
}

#[test]
fn values_that_no_column_can_hold_are_refused_with_their_row() {
    let refused = |type_: &str, values, rows| refusal(column(type_, values).read(&[], rows));
    let text = refused("INT64 x (INTEGER(64,false))", Values::Int64(vec![1, -1]), 2);
    assert!(text.contains("row 1, column \"x\": 18446744073709551615 is above 2**63 - 1"), "{text}");
    let text = refused("INT64 x (TIMESTAMP(MILLIS,true))", Values::Int64(vec![i64::MAX]), 1);
    assert!(text.contains("row 0, column \"x\": 9223372036854775807 x 1000"), "{text}");
    let text = refused("BYTE_ARRAY x", Values::Text(vec![b"red"]), 1);
    assert!(text.contains("bytes of length 3, a UUID has 16; texts must have the type string"), "{text}");
    let text = refused("BYTE_ARRAY x (STRING)", Values::Text(vec![b"\xff"]), 1);
    assert!(text.contains("is not UTF-8"), "{text}");
    let text = refused("INT32 x", Values::Int32(vec![1, 2]), 3);
    assert!(text.contains("it holds 2 rows of values for 3 rows"), "{text}");
    let list = "OPTIONAL group x (LIST) { REPEATED group list { OPTIONAL BYTE_ARRAY element (STRING); } }";
    let chunk = (Values::Text(vec![b"a"]), vec![3, 2], vec![0, 1]);
    let text = refusal(Written::new(&file(list, WriterProperties::default(), &[vec![chunk]])).read(&[], 1));
    assert!(text.contains("row 0, column \"x\": NULL is not a tag"), "{text}");
    let chunk = (Values::Text(vec![b"a", b""]), vec![3, 3], vec![0, 1]);
    let text = refusal(Written::new(&file(list, WriterProperties::default(), &[vec![chunk]])).read(&[], 1));
    assert!(text.contains("row 0, column \"x\": a tag is empty"), "{text}");
}

/// The bytes of a file with the same pages and another end.
fn with_end(bytes: &[u8], change: impl Fn(ParquetMetaData) -> ParquetMetaData) -> Vec<u8> {
    let written = Written::new(bytes);
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(&written.0).unwrap()).unwrap();
    let end = bytes.len() - 8;
    let end = end - u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap()) as usize;
    let mut changed = bytes[..end].to_vec();
    ParquetMetaDataWriter::new(&mut changed, &change(metadata)).finish().unwrap();
    changed
}

#[test]
fn rows_that_are_only_promised_take_no_memory() {
    const PROMISED: i64 = 1 << 40;
    let (bytes, _) = table(WriterProperties::default());
    let promised = with_end(&bytes, |metadata| {
        let of_file = metadata.file_metadata();
        let (schema, version) = (of_file.schema_descr_ptr(), of_file.version());
        let about = parquet::file::metadata::FileMetaData::new(version, PROMISED, None, None, schema, None);
        let group = metadata.row_group(0).clone().into_builder().set_num_rows(PROMISED).build().unwrap();
        ParquetMetaData::new(about, vec![group])
    });
    let text = refusal(Written::new(&promised).read(&[], 430));
    assert!(text.contains("it holds 1099511627776 rows of values for 430 rows"), "{text}");
    // This holds even if there were this number of vectors.
    let text = refusal(Written::new(&promised).read(&[], PROMISED as u64));
    assert!(text.contains("a row group has fewer values than rows"), "{text}");
}

#[test]
fn damaged_files_give_rows_or_an_error() {
    let mut state = 5u64;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let (mut errors, mut panics, mut read) = (0, 0, 0);
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::LZ4_RAW] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = WriterProperties::builder().set_compression(compression).set_writer_version(version);
            let (whole, _) = table(properties.build());
            for _ in 0..DAMAGED_FILES {
                let mut bytes = whole.clone();
                for _ in 0..=below(3) {
                    // Half of the damage is in the end of the file, which has all lengths and
                    // positions.
                    let at =
                        if below(2) == 0 { below(bytes.len()) } else { bytes.len() - 1 - below(bytes.len() / 4) };
                    match below(8) {
                        0 => bytes.truncate(at.max(12)),
                        1 => drop(bytes.drain(at..bytes.len().min(at + 1 + below(20)))),
                        2 => bytes[at] = 0xff,
                        _ => bytes[at] ^= 1 << below(8),
                    }
                }
                match Written::new(&bytes).read(&[], 430) {
                    Ok(rows) => assert_eq!(rows.len(), 430),
                    Err(error) => {
                        errors += 1;
                        panics += usize::from(error.to_string().contains("write it again"));
                    }
                }
                read += 1;
            }
        }
    }
    println!("{read} damaged files: {errors} are refused, {panics} of them after a panic of the decoder");
    assert!(errors * 2 > read, "{errors} of {read} are refused");
}
