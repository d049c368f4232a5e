//! The values of rows, as nodes hold them, and the payloads that come with them.

use super::tags::{self, TagSets};
use super::{COLUMN_NAME_MAX, COLUMNS_MAX, Column, ColumnKind, Value, unknown};
use crate::Error;

/// Number of tag columns in `columns`. For the columns before one, that is the index of its set in
/// the row.
pub(crate) fn tag_columns(columns: &[Column]) -> usize {
    columns.iter().filter(|column| column.kind == ColumnKind::Tags).count()
}

/// Bytes that `words` values of a row take in a node: a bit for each missing value, in eight bytes,
/// then the keys. Where rows may have records, the last value is the place of the row's record.
pub(crate) fn row_bytes(words: usize) -> usize {
    if words == 0 { 0 } else { 8 + 8 * words }
}

/// The values of one row, as a node holds them: [`row_bytes`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowValues<'a>(pub(crate) &'a [u8]);

impl RowValues<'_> {
    /// The key of a column's value; `None` if it is missing.
    #[inline]
    pub(crate) fn key(self, column: usize) -> Option<u64> {
        if self.0[0] >> column & 1 == 1 {
            return None;
        }
        let at = 8 + 8 * column;
        Some(u64::from_le_bytes(self.0[at..at + 8].try_into().expect("a slice of eight bytes")))
    }

    /// The last value: the place of the record, where rows may have records.
    pub(crate) fn last_key(self) -> Option<u64> {
        self.key((self.0.len() / 8).checked_sub(2)?)
    }
}

/// The error for payloads that an index does not keep.
pub(crate) fn keeps_no_payloads() -> Error {
    Error::argument("this index keeps no payloads: it must be built or created to keep them")
}

/// Sets the last value of a row.
pub(crate) fn set_last_key(row: &mut [u8], key: Option<u64>) {
    let last = row.len() / 8 - 2;
    row[0] = row[0] & !(1 << last) | u8::from(key.is_none()) << last;
    row[8 + 8 * last..].copy_from_slice(&key.unwrap_or(0).to_le_bytes());
}

/// Values of the columns of many rows, in the order of rows, and their payloads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnRows {
    columns: Vec<Column>,
    /// Whether each row has the place of its record after its values.
    has_places: bool,
    bytes: Vec<u8>,
    /// The tags of each row; none without columns of tags.
    sets: Vec<TagSets>,
    payloads: Option<Vec<Option<Vec<u8>>>>,
}

impl ColumnRows {
    /// No rows yet.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if there are more than [`COLUMNS_MAX`] columns, or a name is empty, too
    /// long or given twice.
    pub fn new(columns: Vec<Column>) -> Result<Self, Error> {
        if columns.len() > COLUMNS_MAX {
            let what = format!("there are {} columns, an index takes up to {COLUMNS_MAX}", columns.len());
            return Err(Error::argument(what));
        }
        for (at, column) in columns.iter().enumerate() {
            if !(1..=COLUMN_NAME_MAX).contains(&column.name.len()) {
                let what =
                    format!("a column's name has {} bytes, 1 to {COLUMN_NAME_MAX} are allowed", column.name.len());
                return Err(Error::argument(what));
            }
            if columns[..at].iter().any(|other| other.name == column.name) {
                return Err(Error::argument(format!("two columns have the name {:?}", column.name)));
            }
        }
        Ok(Self { columns, ..Self::default() })
    }

    /// No rows yet of an index with these columns, each with the place of its record if
    /// `has_places`.
    pub(crate) fn of_index(columns: Vec<Column>, has_places: bool) -> Self {
        Self { columns, has_places, ..Self::default() }
    }

    /// The same rows with payloads: bytes that an index keeps and gives back, `None` for a row
    /// without any. An index keeps payloads from its build on, or never.
    #[must_use]
    pub fn with_payloads(self, payloads: Vec<Option<Vec<u8>>>) -> Self {
        Self { payloads: Some(payloads), ..self }
    }

    /// The payloads, if rows come with any.
    pub fn payloads(&self) -> Option<&[Option<Vec<u8>>]> {
        self.payloads.as_deref()
    }

    /// The tags of a row in a column of tags; empty if its word has them all.
    pub(crate) fn set_of(&self, row: usize, column: usize) -> &[u64] {
        self.sets(row).get(tag_columns(&self.columns[..column])).map_or(&[], Vec::as_slice)
    }

    /// Whether there are columns of tags.
    pub(crate) fn has_tags(&self) -> bool {
        tag_columns(&self.columns) > 0
    }

    /// The tags of a row that its words do not have: a list for each column of tags.
    pub(crate) fn sets(&self, row: usize) -> &[Vec<u64>] {
        self.sets.get(row).map_or(&[], Vec::as_slice)
    }

    /// Whether each row has the place of its record.
    pub(crate) fn has_places(&self) -> bool {
        self.has_places
    }

    /// Values of a row as a node holds them: one for each column, and the place of its record.
    pub(crate) fn words(&self) -> usize {
        self.columns.len() + usize::from(self.has_places)
    }

    /// Adds a row; `values` has one value for each column.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the number of values is not that of the columns, or a column cannot
    /// hold its value. It names the row by its position.
    pub fn push(&mut self, values: &[Value]) -> Result<(), Error> {
        if values.len() != self.columns.len() {
            let (given, columns) = (values.len(), self.columns.len());
            let what = format!("it has {given} values, there are {columns} columns");
            return Err(Error::argument(what).of_row(self.len(), None));
        }
        let (mut missing, mut keys) = (0u8, [0u64; COLUMNS_MAX]);
        let (mut sets, mut tags) = (TagSets::new(), 0);
        for (at, (value, column)) in values.iter().zip(&self.columns).enumerate() {
            let named = |error: Error| error.about(format_args!("row {}, column {:?}", self.len(), column.name));
            if column.kind == ColumnKind::Tags {
                let set =
                    if let Value::Tags(tags) = value { tags::set_of(tags).map_err(named)? } else { Vec::new() };
                tags += set.len();
                sets.push(if set.len() > 1 { set } else { Vec::new() });
            }
            match value.key(column.kind).map_err(named)? {
                Some(key) => keys[at] = key,
                None => missing |= 1 << at,
            }
        }
        tags::check_count(tags).map_err(|error| error.of_row(self.len(), None))?;
        if values.is_empty() {
            return Ok(());
        }
        if !sets.is_empty() {
            self.sets.push(sets);
        }
        self.bytes.extend_from_slice(&u64::from(missing).to_le_bytes());
        keys[..values.len()].iter().for_each(|key| self.bytes.extend_from_slice(&key.to_le_bytes()));
        Ok(())
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The same columns of some of the rows.
    ///
    /// # Panics
    ///
    /// If there are fewer rows.
    pub fn part(&self, rows: std::ops::Range<usize>) -> Self {
        let length = row_bytes(self.words());
        let payloads = self.payloads.as_ref().map(|payloads| payloads[rows.clone()].to_vec());
        let bytes = self.bytes[rows.start * length..rows.end * length].to_vec();
        let sets = self.sets.get(rows).map_or_else(Vec::new, <[TagSets]>::to_vec);
        Self { columns: self.columns.clone(), bytes, sets, payloads, ..*self }
    }

    /// Adds the values of a row as a node holds them, and its tags.
    pub(crate) fn push_row(&mut self, row: &[u8], sets: TagSets) {
        self.bytes.extend_from_slice(row);
        if !sets.is_empty() {
            self.sets.push(sets);
        }
    }

    /// The values of all rows as nodes hold them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The values of a row as a node holds them.
    pub(crate) fn row(&self, row: usize) -> &[u8] {
        let length = row_bytes(self.words());
        &self.bytes[row * length..][..length]
    }

    /// Names the place of a row's record.
    pub(crate) fn set_place(&mut self, row: usize, place: Option<u64>) {
        let length = row_bytes(self.words());
        set_last_key(&mut self.bytes[row * length..][..length], place);
    }

    /// The number of rows; 0 without columns and payloads.
    pub fn len(&self) -> usize {
        let payloads = self.payloads.as_ref().map_or(0, Vec::len);
        self.bytes.len().checked_div(row_bytes(self.words())).unwrap_or(payloads)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses payloads if their number is not that of the rows.
    pub(crate) fn check_payloads(&self) -> Result<(), Error> {
        match &self.payloads {
            Some(payloads) if payloads.len() != self.len() => {
                let what = format!("there are columns of {} rows, and payloads of {}", self.len(), payloads.len());
                Err(Error::argument(what))
            }
            _ => Ok(()),
        }
    }

    /// The same rows with the columns in the order of `columns`, and no records yet, for which
    /// there are places if `has_places`. A column that these rows lack has no values.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if a column is not one of `columns`, or has another kind there, or if
    /// there are payloads and no places.
    pub(crate) fn arrange(&self, columns: &[Column], has_places: bool) -> Result<Self, Error> {
        self.check_payloads()?;
        if self.payloads.is_some() && !has_places {
            return Err(keeps_no_payloads());
        }
        let mut from = vec![None; columns.len()];
        for (at, column) in self.columns.iter().enumerate() {
            let place = columns.iter().position(|other| other.name == column.name);
            let place = place.ok_or_else(|| unknown(&column.name, columns))?;
            if columns[place].kind != column.kind {
                let (is, given) = (columns[place].kind.name(), column.kind.name());
                return Err(Error::argument(format!("column {:?} has kind {is}, not {given}", column.name)));
            }
            from[place] = Some(at);
        }
        let mut arranged = Self::of_index(columns.to_vec(), has_places);
        let sets_from = self.sets_of(columns);
        for row in 0..self.len() {
            let values = RowValues(self.row(row));
            let mut keys: Vec<Option<u64>> = from.iter().map(|at| at.and_then(|at| values.key(at))).collect();
            keys.resize(arranged.words(), None);
            arranged.push_keys(&keys);
            for (at, set) in sets_from.iter().enumerate() {
                let given = set.map_or_else(Vec::new, |set| self.sets[row][set].clone());
                arranged.sets[row][at] = given;
            }
        }
        Ok(arranged)
    }

    /// For each column of tags among `columns`, the index of its set in a row.
    pub(crate) fn sets_of(&self, columns: &[Column]) -> Vec<Option<usize>> {
        let of_tags = |column: &&Column| column.kind == ColumnKind::Tags;
        let mine: Vec<&str> = self.columns.iter().filter(of_tags).map(|column| column.name.as_str()).collect();
        let place = |column: &Column| mine.iter().position(|name| *name == column.name);
        columns.iter().filter(of_tags).map(place).collect()
    }

    /// Adds rows without values.
    pub(crate) fn push_empty(&mut self, rows: usize) {
        let keys = vec![None; self.words()];
        (0..rows).for_each(|_| self.push_keys(&keys));
    }

    /// Adds a row by its keys.
    pub(crate) fn push_keys(&mut self, keys: &[Option<u64>]) {
        if keys.is_empty() {
            return;
        }
        let missing = keys.iter().enumerate().fold(0u64, |bits, (at, key)| bits | u64::from(key.is_none()) << at);
        self.bytes.extend_from_slice(&missing.to_le_bytes());
        keys.iter().for_each(|key| self.bytes.extend_from_slice(&key.unwrap_or(0).to_le_bytes()));
        if self.has_tags() {
            self.sets.push(vec![Vec::new(); tag_columns(&self.columns)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{ColumnKind, float_key};

    #[test]
    fn rows_are_arranged_by_the_names_of_columns() {
        let column = |name: &str, kind| Column { name: name.into(), kind };
        let (topic, price) = (column("topic", ColumnKind::Int), column("price", ColumnKind::Float));
        let mut rows = ColumnRows::new(vec![price.clone()]).expect("a column");
        rows.push(&[Value::Float(2.5)]).expect("a value");
        rows.push(&[Value::Null]).expect("a value");
        let refused = rows.push(&[Value::Bool(true)]).expect_err("no float").to_string();
        assert!(refused.contains("row 2, column \"price\""), "{refused}");
        let arranged = rows.arrange(&[topic.clone(), price.clone()], false).expect("a known column");
        assert_eq!(arranged.len(), 2);
        assert_eq!(RowValues(arranged.row(0)).key(0), None);
        assert_eq!(RowValues(arranged.row(0)).key(1), float_key(2.5).ok());
        assert_eq!(RowValues(arranged.row(1)).key(1), None);
        assert!(rows.arrange(&[topic], false).is_err());
        let with_places =
            rows.clone().with_payloads(vec![None, Some(vec![7])]).arrange(std::slice::from_ref(&price), true);
        let mut with_places = with_places.expect("a known column");
        assert_eq!(RowValues(with_places.row(1)).last_key(), None);
        with_places.set_place(1, Some(9));
        assert_eq!(
            (RowValues(with_places.row(1)).last_key(), RowValues(with_places.row(0)).last_key()),
            (Some(9), None)
        );
        assert_eq!(RowValues(with_places.row(0)).key(0), float_key(2.5).ok());
        assert!(rows.clone().with_payloads(vec![None]).arrange(std::slice::from_ref(&price), true).is_err());
        assert!(rows.with_payloads(vec![None, None]).arrange(std::slice::from_ref(&price), false).is_err());
        assert!(ColumnRows::new(vec![price.clone(), price]).is_err());
    }
}
