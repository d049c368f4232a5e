//! Columns: what is known of a row besides its vector, for searches that filter.
//!
//! A value is stored as a key of 64 bits whose order is the order of values. Equal values have
//! equal keys. Text has no order here: its key is a hash.
//!
//! - `mod.rs`: columns, their kinds, and values.
//! - `key.rs`: keys of numbers and text.
//! - `tags.rs`: sets of tags.
//! - `text.rs`: values that are written as text.
//! - `rows.rs`: the values of rows, as nodes hold them.
//! - `signatures.rs`: what an edge says of the values of a row.

mod key;
mod rows;
pub(crate) mod signatures;
pub(crate) mod tags;
mod text;

use std::fmt;

use crate::Error;

use key::hash;
pub(crate) use key::{float_key, int_key};
pub use rows::ColumnRows;
pub(crate) use rows::{RowValues, keeps_no_payloads, row_bytes, set_last_key, tag_columns};
pub use tags::{TAG_BYTES_MAX, TAGS_MAX};

/// Most columns of an index.
pub const COLUMNS_MAX: usize = 7;
/// Longest name of a column, in bytes.
pub const COLUMN_NAME_MAX: usize = 63;

/// Characters of a text that an error shows.
const TEXT_SHOWN: usize = 40;

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// True and false.
    Bool,
    /// Integers from -2^63 to 2^63 - 1.
    Int,
    /// 64-bit floats, without NaN.
    Float,
    /// Text, which can only be equal or not: its 64-bit hash is stored. Two different texts of an
    /// index of a million rows have the same hash with a probability of 3e-8.
    Text,
    /// Microseconds since 1970, UTC.
    Timestamp,
    /// A set of tags, which are texts: up to [`TAGS_MAX`] in a row, of 1 to [`TAG_BYTES_MAX`] bytes
    /// each. Their 63-bit hashes are stored. The empty set is a value: it is not missing.
    Tags,
    /// 16 bytes, which can only be equal or not, as text.
    Uuid,
}

const KINDS: [ColumnKind; 7] = [
    ColumnKind::Bool,
    ColumnKind::Int,
    ColumnKind::Float,
    ColumnKind::Text,
    ColumnKind::Timestamp,
    ColumnKind::Tags,
    ColumnKind::Uuid,
];

impl ColumnKind {
    /// Its name in Python, on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::Text => "text",
            Self::Timestamp => "timestamp",
            Self::Tags => "tags",
            Self::Uuid => "uuid",
        }
    }

    /// The kind with this name.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for an unknown name.
    pub fn of_name(name: &str) -> Result<Self, Error> {
        let kind = KINDS.into_iter().find(|kind| kind.name() == name);
        let names = KINDS.map(Self::name).join(", ");
        kind.ok_or_else(|| Error::argument(format!("there is no kind of column {name:?}; the kinds are {names}")))
    }

    /// Whether values can be less than others.
    pub(crate) fn is_ordered(self) -> bool {
        !matches!(self, Self::Text | Self::Tags | Self::Uuid)
    }

    /// The number of the kind on a page.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Bool => 1,
            Self::Int => 2,
            Self::Float => 3,
            Self::Text => 4,
            Self::Timestamp => 5,
            Self::Tags => 6,
            Self::Uuid => 7,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.code() == code)
    }
}

/// A column of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, 1 to [`COLUMN_NAME_MAX`] bytes.
    pub name: String,
    /// The kind of its values. Any of them may be missing: [`Value::Null`].
    pub kind: ColumnKind,
}

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// See [`ColumnKind::Bool`].
    Bool(bool),
    /// See [`ColumnKind::Int`]; also a whole number for a column of floats.
    Int(i64),
    /// See [`ColumnKind::Float`]; also a number to compare integers with.
    Float(f64),
    /// See [`ColumnKind::Text`]; also what timestamps and UUIDs are compared with: see
    /// [`Value::parse`].
    Text(String),
    /// See [`ColumnKind::Timestamp`].
    Timestamp(i64),
    /// See [`ColumnKind::Tags`]; a tag may repeat.
    Tags(Vec<String>),
    /// See [`ColumnKind::Uuid`].
    Uuid([u8; 16]),
}

impl Value {
    /// The key of the value in a column of `kind`; `None` for [`Value::Null`].
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if a column of `kind` cannot hold the value.
    pub(crate) fn key(&self, kind: ColumnKind) -> Result<Option<u64>, Error> {
        Ok(Some(match (kind, self) {
            (_, Self::Null) => return Ok(None),
            (ColumnKind::Bool, Self::Bool(value)) => u64::from(*value),
            (ColumnKind::Int, Self::Int(value)) | (ColumnKind::Timestamp, Self::Timestamp(value)) => {
                int_key(*value)
            }
            (ColumnKind::Float, Self::Float(value)) => float_key(*value)?,
            (ColumnKind::Float, Self::Int(value)) => float_key(*value as f64)?,
            (ColumnKind::Text, Self::Text(text)) => hash(text.as_bytes()),
            (ColumnKind::Uuid, Self::Uuid(bytes)) => hash(bytes),
            (ColumnKind::Tags, Self::Tags(tags)) => tags::word(&tags::set_of(tags)?),
            _ => return Err(Error::argument(format!("{self} is not a value of kind {}", kind.name()))),
        }))
    }
}

/// The form in errors: long text is cut.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(text) => write!(f, "'{}'", text.chars().take(TEXT_SHOWN).collect::<String>()),
            Self::Timestamp(value) => write!(f, "the timestamp {value}"),
            Self::Tags(tags) => write!(f, "a set of {} tags", tags.len()),
            Self::Uuid(bytes) => {
                f.write_str("the UUID ")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// The error for a column that an index does not have.
pub(crate) fn unknown(name: &str, columns: &[Column]) -> Error {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    match names.as_slice() {
        [] => Error::argument(format!("there is no column {name:?}: the index has no columns")),
        names => Error::argument(format!("there is no column {name:?}; the columns are {}", names.join(", "))),
    }
}
