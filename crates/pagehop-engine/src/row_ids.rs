//! The meaning of row ids, and whether the index or its host decides which rows are visible.

use std::fmt;
use std::hash::Hash;

use crate::Error;

/// Largest number of rows that share a node under [`IdKind::HostOwned`].
pub const NODE_ROWS_MAX: usize = 3;
/// Upper bound of ids under [`IdKind::HostOwned`], exclusive.
pub const HOST_ROW_ID_END: u64 = 1 << 48;

/// The meaning of row ids, and whether the index or its host decides which rows are visible. Chosen
/// when the index is made; it never changes. Pages store the number of the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdKind {
    /// Any 64-bit numbers that the user chooses. The index maps them to nodes, and shows each
    /// reader the rows of its snapshot.
    #[default]
    Int = 0,
    /// Locations of rows in the host: numbers from 1 to 2^48 - 1. The host decides which rows are
    /// visible, and passes ids together with their vectors, so there is no map. Up to
    /// [`NODE_ROWS_MAX`] rows with the same code share a node: versions of one row whose vector did
    /// not change.
    HostOwned = 1,
    /// Texts that the user chooses, of 1 to [`TEXT_ID_BYTES_MAX`] bytes of UTF-8. Each row keeps
    /// its text in its record; inside, the row has a number that follows from the text.
    Text = 2,
}

impl IdKind {
    /// Its name in Python, on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::HostOwned => "host",
            Self::Text => "text",
        }
    }
}

/// Longest text id, in bytes of UTF-8.
pub const TEXT_ID_BYTES_MAX: usize = 1024;

/// An id as a user gives it: a `u64` for an index under [`IdKind::Int`], a text for one under
/// [`IdKind::Text`].
pub trait RowId: Clone + fmt::Debug + Eq + Hash + sealed::Sealed {
    /// The kind of index that has such ids.
    const KIND: IdKind;

    /// The id.
    fn key(&self) -> IdKey<'_>;
}

/// An id of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdKey<'a> {
    /// Of an index under [`IdKind::Int`].
    Int(u64),
    /// Of an index under [`IdKind::Text`].
    Text(&'a str),
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for String {}
    impl Sealed for &str {}
}

impl RowId for u64 {
    const KIND: IdKind = IdKind::Int;

    fn key(&self) -> IdKey<'_> {
        IdKey::Int(*self)
    }
}

impl RowId for String {
    const KIND: IdKind = IdKind::Text;

    fn key(&self) -> IdKey<'_> {
        IdKey::Text(self)
    }
}

impl RowId for &str {
    const KIND: IdKind = IdKind::Text;

    fn key(&self) -> IdKey<'_> {
        IdKey::Text(self)
    }
}

/// Refuses ids of another kind than those of an index.
pub(crate) fn check_kind(index: IdKind, given: IdKind) -> Result<(), Error> {
    if index == given {
        return Ok(());
    }
    Err(Error::argument(match (index, given) {
        (IdKind::HostOwned, _) => "the host of this index owns its row ids".into(),
        (_, IdKind::HostOwned) => format!("this index has {} ids of its own, no host owns its rows", index.name()),
        _ => format!("this index has {} ids, and {} ids were given", index.name(), given.name()),
    }))
}

/// The id of a row in an error: its number, if the user knows it.
pub(crate) fn known_number(id_kind: IdKind, number: u64) -> Option<u64> {
    (id_kind != IdKind::Text).then_some(number)
}

/// Refuses a number that is not a row id under [`IdKind::HostOwned`].
pub(crate) fn check_hosted(row_id: u64) -> Result<(), Error> {
    if (1..HOST_ROW_ID_END).contains(&row_id) {
        return Ok(());
    }
    Err(Error::argument(format!("row id {row_id} is not between 1 and 2^48 - 1")))
}

/// Largest number of ids that an error lists; beyond it, the error has only their number.
const NAMED_MAX: usize = 10;

/// The error for ids that are not in an index.
pub(crate) fn unknown<I: fmt::Debug>(ids: &[I]) -> Error {
    let named: Vec<String> = ids.iter().take(NAMED_MAX).map(|id| format!("{id:?}")).collect();
    let more = ids.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let verb = if ids.len() == 1 { "is" } else { "are" };
    Error::argument(format!("{}{more} {verb} not in the index", named.join(", ")))
}
