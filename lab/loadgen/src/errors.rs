//! The errors that end the command early, and their exit codes.

use std::fmt::Display;
use std::process::ExitCode;

/// Why the command ends early.
#[derive(Debug)]
pub(crate) enum Error {
    /// Wrong use: the options cannot be satisfied.
    Use(String),
    /// The measurement failed.
    Failure(String),
    /// Ctrl-C or a request to terminate. The results so far were printed.
    Interrupted,
}

impl Error {
    /// This error, with what the command was doing before its text.
    pub(crate) fn during(self, before: impl Display) -> Self {
        match self {
            Self::Use(text) => Self::Use(format!("{before}: {text}")),
            Self::Failure(text) => Self::Failure(format!("{before}: {text}")),
            Self::Interrupted => Self::Interrupted,
        }
    }

    /// Prints the error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let (text, code) = match self {
            Self::Use(text) => (text.as_str(), 2),
            Self::Failure(text) => (text.as_str(), 1),
            Self::Interrupted => ("interrupted", 130),
        };
        // There is nowhere to report an error of this write.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("error: {text}\n").as_bytes());
        ExitCode::from(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_and_keeps_its_kind() {
        let Error::Use(text) = Error::Use("no k".into()).during("--rows") else { panic!() };
        assert_eq!(text, "--rows: no k");
        let Error::Failure(text) = Error::Failure("gone".into()).during("query 3") else { panic!() };
        assert_eq!(text, "query 3: gone");
        assert!(matches!(Error::Interrupted.during("x"), Error::Interrupted));
    }
}
