//! Which types of Parquet are which kinds of columns.

use pagehop_engine::{Column, ColumnKind};
use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, Type};

/// How a number or some bytes are converted into a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// The column has no type: all its values are missing.
    Nothing,
    Bool,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Float16,
    Float32,
    Float64,
    Text,
    /// Bytes. A value of 16 bytes is a UUID; other lengths are refused.
    Bytes,
    /// Days since 1970.
    Days,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

/// The levels of a column of lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    /// Whether a list can be missing.
    pub(super) is_optional: bool,
    /// The definition level from which on a list has an element, which may be missing.
    pub(super) element: i16,
}

/// A column of a file.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) form: Form,
    pub(super) list: Option<List>,
    /// The leaf of the schema that has the values, and its place among all leaves.
    pub(super) leaf: ColumnDescPtr,
    pub(super) at: usize,
}

impl Source {
    /// The column of the index. As in Python, integers become floats and texts become UUIDs if the
    /// index has such a column of this name.
    pub(super) fn column(&self, known: &[Column]) -> Result<Column, String> {
        let name = &self.name;
        let known = known.iter().find(|column| column.name == *name).map(|column| column.kind);
        let kind = match (self.form, known) {
            _ if self.list.is_some() => ColumnKind::Tags,
            (Form::Nothing, Some(known)) => known,
            (Form::Nothing, None) => {
                return Err(format!("column {name:?} has no values and no type: give it one, or leave it out"));
            }
            (Form::Int32 | Form::Uint32 | Form::Int64 | Form::Uint64, Some(ColumnKind::Float)) => ColumnKind::Float,
            (Form::Int32 | Form::Uint32 | Form::Int64 | Form::Uint64, _) => ColumnKind::Int,
            (Form::Float16 | Form::Float32 | Form::Float64, _) => ColumnKind::Float,
            (Form::Text, Some(ColumnKind::Uuid)) | (Form::Bytes, _) => ColumnKind::Uuid,
            (Form::Text, _) => ColumnKind::Text,
            (Form::Bool, _) => ColumnKind::Bool,
            (Form::Days | Form::Milliseconds | Form::Microseconds | Form::Nanoseconds, _) => ColumnKind::Timestamp,
        };
        Ok(Column { name: name.clone(), kind })
    }
}

/// The columns of a file.
///
/// # Errors
///
/// What to tell the user, if the type of a column is not one that an index takes.
pub(super) fn sources(schema: &SchemaDescriptor) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    for (root, field) in schema.root_schema().get_fields().iter().enumerate() {
        let mut leaves = (0..schema.num_columns()).filter(|leaf| schema.get_column_root_idx(*leaf) == root);
        let refused = |(what, remedy): (String, &str)| {
            format!("column {:?} has {what}, which an index does not take: {remedy}", field.name())
        };
        let list = list_of(field).map_err(|(what, remedy)| refused((what.to_owned(), remedy)))?;
        let Some(at) = leaves.next() else {
            return Err(refused(("no values".to_owned(), "leave it out")));
        };
        let leaf = schema.column(at);
        let form = form_of(&leaf).map_err(refused)?;
        if list.is_some() && !matches!(form, Form::Text | Form::Nothing) {
            let type_ = type_name(&leaf);
            return Err(refused((format!("lists of {type_}"), "tags are texts, write lists of strings")));
        }
        sources.push(Source { name: field.name().to_owned(), form, list, leaf, at });
    }
    Ok(sources)
}

/// The levels of a field that is a list; `None` if it is a single value. The error says what the
/// field is instead, and what the user can do.
fn list_of(field: &Type) -> Result<Option<List>, (&'static str, &'static str)> {
    const NESTED: (&str, &str) = ("lists of lists or of structs", "write lists of strings");
    const MAP: (&str, &str) = ("maps", "write their keys or their values as lists of strings");
    const STRUCT: (&str, &str) = ("structs", "write their fields as columns of their own");
    let repeats = |field: &Type| {
        field.get_basic_info().has_repetition() && field.get_basic_info().repetition() == Repetition::REPEATED
    };
    if field.is_primitive() {
        return Ok(repeats(field).then_some(List { is_optional: false, element: 1 }));
    }
    let info = field.get_basic_info();
    match (info.logical_type_ref(), info.converted_type()) {
        (Some(LogicalType::List), _) | (None, ConvertedType::LIST) => {}
        (Some(LogicalType::Map), _) | (None, ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE) => return Err(MAP),
        _ => return Err(if repeats(field) { NESTED } else { STRUCT }),
    }
    let [middle] = field.get_fields() else { return Err(STRUCT) };
    // Old writers omit the group between the list and its elements.
    let element = match middle.is_primitive() {
        true => middle,
        false => match middle.get_fields() {
            [element] if element.is_primitive() && !repeats(element) => element,
            _ => return Err(NESTED),
        },
    };
    if repeats(field) || !repeats(middle) || !element.is_primitive() {
        return Err(NESTED);
    }
    let is_optional = info.repetition() == Repetition::OPTIONAL;
    Ok(Some(List { is_optional, element: i16::from(is_optional) + 1 }))
}

/// The form of the values of a leaf. The error has the type, and what the user can do.
fn form_of(leaf: &ColumnDescPtr) -> Result<Form, (String, &'static str)> {
    use LogicalType as L;
    let logical = logical_of(leaf);
    Ok(match (leaf.physical_type(), &logical) {
        (_, Some(L::Unknown)) => Form::Nothing,
        (Physical::BOOLEAN, None) => Form::Bool,
        (Physical::INT32, Some(L::Integer(int))) if !int.is_signed => Form::Uint32,
        (Physical::INT64, Some(L::Integer(int))) if !int.is_signed => Form::Uint64,
        (Physical::INT32, None | Some(L::Integer(_))) => Form::Int32,
        (Physical::INT64, None | Some(L::Integer(_))) => Form::Int64,
        (Physical::INT32, Some(L::Date)) => Form::Days,
        (Physical::INT64, Some(L::Timestamp(time))) => match time.unit {
            TimeUnit::MILLIS => Form::Milliseconds,
            TimeUnit::MICROS => Form::Microseconds,
            TimeUnit::NANOS => Form::Nanoseconds,
        },
        (Physical::FLOAT, None) => Form::Float32,
        (Physical::DOUBLE, None) => Form::Float64,
        (Physical::FIXED_LEN_BYTE_ARRAY, Some(L::Float16)) if leaf.type_length() == 2 => Form::Float16,
        (Physical::FIXED_LEN_BYTE_ARRAY, None | Some(L::Uuid)) if leaf.type_length() == 16 => Form::Bytes,
        (Physical::BYTE_ARRAY, Some(L::String | L::Enum | L::Json)) => Form::Text,
        (Physical::BYTE_ARRAY, None) => Form::Bytes,
        (Physical::INT96, _) => {
            return Err((type_name(leaf), "write it as timestamps of INT64, in microseconds"));
        }
        (_, Some(L::Decimal(_))) => return Err((type_name(leaf), "write it as floats or integers")),
        _ => return Err((type_name(leaf), "leave it out, or write it as numbers or strings")),
    })
}

/// The logical type of a leaf. Old writers store a converted type instead, which is translated.
fn logical_of(leaf: &ColumnDescPtr) -> Option<LogicalType> {
    if let Some(logical) = leaf.logical_type_ref() {
        return Some(logical.clone());
    }
    Some(match leaf.converted_type() {
        ConvertedType::UTF8 => LogicalType::String,
        ConvertedType::ENUM => LogicalType::Enum,
        ConvertedType::JSON => LogicalType::Json,
        ConvertedType::BSON => LogicalType::Bson,
        ConvertedType::DATE => LogicalType::Date,
        ConvertedType::DECIMAL => LogicalType::decimal(leaf.type_scale(), leaf.type_precision()),
        ConvertedType::TIME_MILLIS => LogicalType::time(true, TimeUnit::MILLIS),
        ConvertedType::TIME_MICROS => LogicalType::time(true, TimeUnit::MICROS),
        ConvertedType::TIMESTAMP_MILLIS => LogicalType::timestamp(true, TimeUnit::MILLIS),
        ConvertedType::TIMESTAMP_MICROS => LogicalType::timestamp(true, TimeUnit::MICROS),
        ConvertedType::UINT_8 => LogicalType::integer(8, false),
        ConvertedType::UINT_16 => LogicalType::integer(16, false),
        ConvertedType::UINT_32 => LogicalType::integer(32, false),
        ConvertedType::UINT_64 => LogicalType::integer(64, false),
        _ => return None,
    })
}

/// The name of a type in errors.
fn type_name(leaf: &ColumnDescPtr) -> String {
    let logical = match logical_of(leaf) {
        Some(LogicalType::Decimal(_)) => "decimals",
        Some(LogicalType::Time(_)) => "times of day",
        Some(LogicalType::Bson) => "BSON",
        Some(LogicalType::Date) => "dates",
        Some(LogicalType::Timestamp(_)) => "timestamps",
        _ => "",
    };
    let physical = match leaf.physical_type() {
        Physical::FIXED_LEN_BYTE_ARRAY => format!("fixed {} bytes", leaf.type_length()),
        physical => physical.to_string(),
    };
    if logical.is_empty() { format!("type {physical}") } else { format!("{logical} ({physical})") }
}
