//! Why a command ends early, and its exit code. Only this file maps errors of the engine.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use pagehop_engine::{Error as EngineError, Refusal};

/// Why the command ends early.
#[derive(Debug)]
pub(crate) enum Error {
    /// An argument or an input is not acceptable, another process is writing the index, or a check
    /// could not be made.
    Use(String),
    /// The work failed.
    Failure(String),
    /// The work failed, and standard output says so already.
    Reported,
    /// Ctrl-C or a request to terminate stopped the command before it changed anything.
    Interrupted,
    /// Like `Interrupted`, after a part of the work was done; the text says how to continue.
    Stopped(String),
    /// The reader of standard output closed it, as `head` does.
    PipeClosed,
}

impl Error {
    /// An error of the engine about the file at `path`; names the file unless the text does.
    pub(crate) fn about(path: &Path, error: &EngineError) -> Self {
        let name = path.display().to_string();
        let mut text = error.to_string();
        if !text.contains(&name) {
            text = format!("{name}: {text}");
        }
        Self::classify(error, text)
    }

    /// An error of the search for a query of the file `queries` in the index at `index`. If the
    /// query is refused, the error names the query.
    pub(crate) fn about_query(index: &Path, (queries, number): (&Path, u64), error: EngineError) -> Self {
        match error {
            EngineError::Argument { .. } => {
                error.about(format_args!("query {number} of {}", queries.display())).into()
            }
            other => Self::about(index, &other),
        }
    }

    /// An error of the change of the index at `index` by the rows of the file `rows` from number
    /// `first` on. If one of them is refused, the error names it as the file counts it.
    pub(crate) fn about_rows(index: &Path, (rows, first): (&Path, u64), error: EngineError) -> Self {
        match error {
            EngineError::Argument { what: Refusal { row: Some(row), id, reason } } => {
                let what = Refusal { row: Some(first + row), id, reason };
                EngineError::Argument { what }.about(rows.display()).into()
            }
            other => Self::about(index, &other),
        }
    }

    /// This error, followed by what the user can do.
    pub(crate) fn and(self, more: &str) -> Self {
        match self {
            Self::Use(text) => Self::Use(format!("{text}; {more}")),
            Self::Failure(text) => Self::Failure(format!("{text}; {more}")),
            Self::Interrupted => Self::Stopped(format!("interrupted; {more}")),
            other => other,
        }
    }

    /// This error with the exit code of wrong use, for a command whose code 1 has a meaning of its
    /// own.
    pub(crate) fn into_use(self) -> Self {
        match self {
            Self::Failure(text) => Self::Use(text),
            other => other,
        }
    }

    /// A failure to write to standard output.
    pub(crate) fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::PipeClosed;
        }
        Self::Failure(format!("cannot write to standard output: {error}"))
    }

    /// Writes the error to standard error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let (text, code) = match self {
            Self::Use(text) => (text.as_str(), 2),
            Self::Failure(text) => (text.as_str(), 1),
            Self::Interrupted => ("interrupted, nothing was changed", 130),
            Self::Stopped(text) => (text.as_str(), 130),
            Self::Reported => return ExitCode::from(1),
            Self::PipeClosed => return ExitCode::SUCCESS,
        };
        // If standard error cannot be written, there is nowhere to report it.
        let _ = io::Write::write_all(&mut io::stderr(), format!("error: {text}\n").as_bytes());
        ExitCode::from(code)
    }

    fn classify(error: &EngineError, text: String) -> Self {
        match error {
            EngineError::Interrupted => Self::Interrupted,
            EngineError::Argument { .. } | EngineError::Dimension { .. } | EngineError::Busy { .. } => {
                Self::Use(text)
            }
            EngineError::Corrupt { .. } => {
                Self::Failure(format!("{text}; restore the file from a copy or build it again"))
            }
            _ => Self::Failure(text),
        }
    }
}

/// For errors of `formats`, whose texts already name the file.
impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        let text = error.to_string();
        Self::classify(&error, text)
    }
}

#[cfg(test)]
mod tests {
    use pagehop_engine::PageId;

    use super::*;

    #[test]
    fn an_error_names_its_file_once() {
        let path = Path::new("items.pagehop");
        let corrupt = EngineError::corrupt(PageId(7), "checksum");
        let Error::Failure(text) = Error::about(path, &corrupt) else { panic!() };
        assert!(text.starts_with("items.pagehop: page 7 is corrupt: checksum; restore"), "{text}");
        let io = EngineError::io("cannot open items.pagehop", io::ErrorKind::NotFound.into());
        let Error::Failure(text) = Error::about(path, &io) else { panic!() };
        assert_eq!(text, "cannot open items.pagehop: entity not found");
    }

    #[test]
    fn an_error_names_the_query_or_the_row_of_the_file() {
        let (index, file) = (Path::new("items.pagehop"), Path::new("more.fbin"));
        let refused = |row, id| EngineError::Argument { what: Refusal { row, id, reason: "it has a NaN".into() } };
        let busy = || EngineError::busy("another writes");
        let text = |error: Error| match error {
            Error::Use(text) => text,
            other => panic!("{other:?}"),
        };
        let about = |error| text(Error::about_query(index, (file, 12), error));
        assert_eq!(about(refused(None, None)), "query 12 of more.fbin: it has a NaN");
        assert_eq!(about(busy()), "items.pagehop: another writes");
        let about = |error| text(Error::about_rows(index, (file, 2000), error));
        assert_eq!(about(refused(Some(41), Some(7))), "more.fbin: row 2041 (id 7): it has a NaN");
        assert_eq!(about(refused(Some(0), None)), "more.fbin: row 2000: it has a NaN");
        assert_eq!(about(refused(None, None)), "items.pagehop: it has a NaN");
        assert_eq!(about(busy()), "items.pagehop: another writes");
    }

    #[test]
    fn an_error_keeps_its_kind_when_more_is_said() {
        let Error::Use(text) = Error::Use("k is 0".into()).and("try 1") else { panic!() };
        assert_eq!(text, "k is 0; try 1");
        let Error::Stopped(text) = Error::Interrupted.and("go on") else { panic!() };
        assert_eq!(text, "interrupted; go on");
        assert!(matches!(Error::PipeClosed.and("more"), Error::PipeClosed));
        assert!(matches!(Error::Failure("it is gone".into()).into_use(), Error::Use(_)));
        assert!(matches!(Error::Interrupted.into_use(), Error::Interrupted));
    }

    #[test]
    fn wrong_use_is_told_from_failure() {
        let path = Path::new("x");
        let wrong = EngineError::argument("k is 0");
        assert!(matches!(Error::about(path, &wrong), Error::Use(_)));
        let wrong = EngineError::Dimension { expected: 3, got: 4 };
        assert!(matches!(Error::about(path, &wrong), Error::Use(_)));
        assert!(matches!(Error::about(path, &EngineError::busy("another writes")), Error::Use(_)));
        assert!(matches!(Error::about(path, &EngineError::full("4 billion nodes")), Error::Failure(_)));
        let memory = EngineError::Memory { what: "a build needs more memory".into(), needed_bytes: 1 };
        assert!(matches!(Error::about(path, &memory), Error::Failure(_)), "no argument is wrong");
        let failure = EngineError::Format { what: "not an index".into() };
        assert!(matches!(Error::about(path, &failure), Error::Failure(_)));
        assert!(matches!(Error::from(EngineError::Interrupted), Error::Interrupted));
    }
}
