//! What can go wrong, in the words a user can act on.

use crate::page::PageId;

/// Any failure of an index operation. The index is unchanged by an operation that failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Bytes of a page contradict the format, the checksum, or another page.
    Corrupt {
        /// The page that holds the contradiction.
        page: PageId,
        /// What was expected and what was found.
        what: String,
    },
    /// The operating system refused; `what` names the operation and the file.
    Io {
        /// The operation and the file, for example `read of page 7 in items.pagehop`.
        what: String,
        /// The system's own word.
        source: std::io::Error,
    },
    /// Not an index, or an index of a version this build does not read.
    Format {
        /// What was found.
        what: String,
    },
    /// A vector has another length than the index.
    Dimension {
        /// Components of every vector of the index.
        expected: usize,
        /// Components of the vector that was given.
        got: usize,
    },
    /// An argument is outside what the operation accepts; `what` names it, its value and the range.
    Argument {
        /// The argument, its value and what would be accepted.
        what: String,
    },
    /// The progress callback asked to stop.
    Interrupted,
}

impl Error {
    /// A contradiction found on `page`.
    pub fn corrupt(page: PageId, what: impl Into<String>) -> Self {
        Self::Corrupt { page, what: what.into() }
    }

    /// An argument that cannot be accepted.
    pub fn argument(what: impl Into<String>) -> Self {
        Self::Argument { what: what.into() }
    }

    /// A refusal of the operating system during `what`.
    pub fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Corrupt { page, what } => write!(f, "page {} is corrupt: {what}", page.0),
            Self::Io { what, source } => write!(f, "{what}: {source}"),
            Self::Format { what } => f.write_str(what),
            Self::Dimension { expected, got } => {
                write!(f, "the index has {expected} dimensions, the vector has {got}")
            }
            Self::Argument { what } => f.write_str(what),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
