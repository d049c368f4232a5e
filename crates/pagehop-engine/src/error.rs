//! Errors, grouped by what the caller can do. Each face maps these kinds once.

use std::fmt;
use std::io;

use crate::ids::PageId;

/// Any failure of an index operation. An operation that failed has changed nothing, with two
/// exceptions: what one of several transactions, such as a vacuum takes, did before stays done; and
/// a host may not know whether a commit that failed is on the disk, which its `commit` then says.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Bytes of a page contradict the format, the checksum, or another page.
    Corrupt {
        /// The page that contradicts.
        page: PageId,
        /// What was expected and what was found.
        what: String,
    },
    /// The operating system refused an operation, for another reason than a full disk.
    Io {
        /// The operation and the file, for example `read of page 7 in items.pagehop`.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is not an index, or has a format version that this build does not read.
    Format {
        /// What was found.
        what: String,
    },
    /// A vector has another number of dimensions than the index.
    Dimension {
        /// Dimensions of the index.
        expected: usize,
        /// Dimensions of the vector that was given.
        got: usize,
    },
    /// An argument is outside what the operation accepts. The same call fails again.
    Argument {
        /// The argument, its value and the accepted range; or a row, and what it has.
        what: Refusal,
    },
    /// A build needs more memory than it may use, or the system does not give a search or a check
    /// what it needs.
    Memory {
        /// What needs it, how much, and what may be used.
        what: String,
        /// Bytes that would be enough; of a search, those that were refused.
        needed_bytes: u64,
    },
    /// Another process or thread is writing the index, or changed it several times during the
    /// operation. The same call may succeed later.
    Busy {
        /// What blocks the operation, and what ends that.
        what: String,
    },
    /// A limit is reached: of the index, of a transaction, of a cache, or the space on the disk.
    Full {
        /// The limit, and how to get around it; for a full disk, the operation and the file.
        what: String,
        /// The system's reason, where the disk is full.
        source: Option<io::Error>,
    },
    /// The index was opened for writing by the process that this one was forked from.
    Forked {
        /// The index, and what to do.
        what: String,
    },
    /// The progress callback asked to stop.
    Interrupted,
}

/// What is wrong with an argument. If the argument is rows, and one of them is wrong, it has the
/// place of that row, so that a caller who gave a part of its rows can count from the first of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The position of the row among those that were given; `None` if this is not about one row.
    pub row: Option<u64>,
    /// The number of that row's id, if ids are numbers.
    pub id: Option<u64>,
    /// What is wrong, without the row.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.row, self.id) {
            (Some(row), Some(id)) => write!(f, "row {row} (id {id}): {}", self.reason),
            (Some(row), None) => write!(f, "row {row}: {}", self.reason),
            (None, _) => f.write_str(&self.reason),
        }
    }
}

impl Error {
    /// [`Error::Corrupt`] for `page`.
    pub fn corrupt(page: PageId, what: impl Into<String>) -> Self {
        Self::Corrupt { page, what: what.into() }
    }

    /// [`Error::Argument`].
    pub fn argument(what: impl Into<String>) -> Self {
        Self::Argument { what: Refusal { row: None, id: None, reason: what.into() } }
    }

    /// The same error. The text of an [`Error::Argument`] then begins with `place`, such as
    /// `query 7`.
    #[must_use]
    pub fn about(self, place: impl fmt::Display) -> Self {
        match self {
            Self::Argument { what } => Self::argument(format!("{place}: {what}")),
            other => other,
        }
    }

    /// The same error. An [`Error::Argument`] is then about the row at `position`.
    pub(crate) fn of_row(self, position: usize, id: Option<u64>) -> Self {
        match self {
            Self::Argument { what } => Self::Argument { what: Refusal { row: Some(position as u64), id, ..what } },
            other => other,
        }
    }

    /// [`Error::Busy`].
    pub fn busy(what: impl Into<String>) -> Self {
        Self::Busy { what: what.into() }
    }

    /// [`Error::Full`], for another limit than the disk.
    pub fn full(what: impl Into<String>) -> Self {
        Self::Full { what: what.into(), source: None }
    }

    /// A refusal of the operating system during `what`: [`Error::Full`] if there is no space left,
    /// [`Error::Io`] otherwise.
    pub fn io(what: impl Into<String>, source: io::Error) -> Self {
        let what = what.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full { what, source: Some(source) }
            }
            _ => Self::Io { what, source },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt { page, what } => write!(f, "page {} is corrupt: {what}", page.0),
            Self::Io { what, source } | Self::Full { what, source: Some(source) } => write!(f, "{what}: {source}"),
            Self::Dimension { expected, got } => {
                write!(f, "the index has {expected} dimensions, the vector has {got}")
            }
            Self::Argument { what } => what.fmt(f),
            Self::Format { what }
            | Self::Memory { what, .. }
            | Self::Busy { what }
            | Self::Full { what, source: None }
            | Self::Forked { what } => f.write_str(what),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::Full { source: Some(source), .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_refusals_of_the_system() {
        let full = Error::io("write of page 7", io::ErrorKind::StorageFull.into());
        assert!(matches!(&full, Error::Full { source: Some(_), .. }), "{full:?}");
        assert_eq!(full.to_string(), "write of page 7: no storage space");
        let refused = Error::io("cannot open x", io::ErrorKind::PermissionDenied.into());
        assert!(matches!(refused, Error::Io { .. }), "{refused:?}");
    }

    #[test]
    fn a_refused_row_has_its_place_and_an_argument_names_what_it_is_about() {
        let refused = || Error::argument("component 3 is NaN");
        for (id, text) in [(Some(7), "row 41 (id 7): component 3 is NaN"), (None, "row 41: component 3 is NaN")] {
            let error = refused().of_row(41, id);
            assert!(
                matches!(&error, Error::Argument { what } if (what.row, what.id) == (Some(41), id)),
                "{error:?}"
            );
            assert_eq!(error.to_string(), text);
            let error = error.about("items.npy");
            assert!(matches!(&error, Error::Argument { what } if what.row.is_none()), "{error:?}");
            assert_eq!(error.to_string(), format!("items.npy: {text}"));
        }
        for other in [|| Error::busy("it is read"), || Error::Interrupted] {
            assert_eq!(other().of_row(41, None).to_string(), other().to_string());
            assert_eq!(other().about("query 7").to_string(), other().to_string());
        }
    }
}
