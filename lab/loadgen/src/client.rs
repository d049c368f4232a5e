//! The trait of a connection that measurements use, for any protocol, and the socket below it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use crate::address::{Address, Scheme};
use crate::args::Setting;
use crate::errors::Error;
use crate::parameter::{ParameterType, Queries};
use crate::plan::{Plan, PlanCounts};
use crate::usage::Worker;

/// Rows as text; a value that is null is `None`.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

/// A connection that is ready for a query.
pub(crate) trait Client: Sized + Send {
    /// The kind of URL for servers of this protocol.
    const SCHEME: Scheme;

    /// Connects and logs in.
    fn open(address: &Address) -> Result<Self, Trouble>;

    /// The version that the server reports.
    fn server_version(&self) -> &str;

    /// Runs `sql`, without preparing it.
    fn simple(&mut self, sql: &str) -> Result<Rows, Trouble>;

    /// Prepares the statement. Its parameter has the type `wanted`, or the type that the server
    /// chooses.
    fn prepare(&mut self, sql: &str, wanted: Option<ParameterType>) -> Result<Prepared, Error>;

    /// Executes the prepared statement. Sets `ids` to the integers of the first column; a value
    /// that is null or of another type is `None`.
    fn execute(&mut self, parameter: Option<&[u8]>, ids: &mut Vec<Option<i64>>) -> Result<(), Trouble>;

    /// The SQL statement that makes a setting.
    fn set_sql(setting: &Setting) -> String;

    /// The SQL statement that shows the setting `name`.
    fn show_sql(name: &str) -> String;

    /// The plan of the prepared statement `sql` with the first of `queries`.
    fn plan(&mut self, sql: &str, queries: Option<&Queries>) -> Result<Plan, Trouble>;

    /// The plans that this connection used so far; `None` if the server does not count them.
    fn plan_counts(&mut self) -> Option<PlanCounts> {
        None
    }

    /// Writes the counters of this connection into the shared statistics of the server.
    fn publish(&mut self) -> Result<(), Trouble> {
        Ok(())
    }

    /// The number of blocks read so far, and of blocks found in the server's buffers.
    fn blocks(&mut self) -> Result<(f64, f64), Trouble>;

    /// The process or thread of the server that works for this connection. The server must run on
    /// this machine.
    fn worker(&mut self) -> Result<Worker, Error>;

    /// Runs `sql` and returns the first column of its first row.
    fn simple_value(&mut self, sql: &str) -> Result<String, Trouble> {
        let first = self.simple(sql)?.into_iter().next().and_then(|row| row.into_iter().next().flatten());
        first.ok_or_else(|| Trouble::Refused(format!("{sql}: no row came back")))
    }
}

/// The server's description of a prepared statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// The type of its parameter, if it has one.
    pub(crate) parameter: Option<ParameterType>,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The server refused the request. The connection can still be used.
    Refused(String),
    /// The connection cannot be used any more.
    Lost(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(text) | Self::Lost(text)) = self;
        f.write_str(text)
    }
}

/// A message that cannot be read ends the connection.
impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Self::Lost(text)
    }
}

/// The error of the command for an error of a server or a connection.
impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        Self::Failure(trouble.to_string())
    }
}

/// Adds to an error what the client was doing.
pub(crate) fn during(what: impl fmt::Display) -> impl FnOnce(Trouble) -> Error {
    move |trouble| Error::from(trouble).during(what)
}

/// A TCP or a Unix socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects to a server.
    pub(crate) fn connect(address: &Address) -> Result<Self, Trouble> {
        Self::open(address).map_err(|error| Trouble::Lost(error.to_string()))
    }

    /// Sends `bytes`.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let written = match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
        };
        written.map_err(|error| Trouble::Lost(format!("writing to the server: {error}")))
    }

    fn open(address: &Address) -> io::Result<Self> {
        if let Some(path) = &address.socket {
            return UnixStream::connect(path).map(Self::Unix);
        }
        let stream = TcpStream::connect((address.host.as_str(), address.port))?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }
}

/// A server for tests: it answers each group of bytes with the next of `answers`, and returns what
/// it received.
#[cfg(test)]
pub(crate) fn scripted(answers: &'static [&'static [u8]]) -> (Socket, std::thread::JoinHandle<Vec<Vec<u8>>>) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    // If the script is too short, the test fails and does not wait forever.
    ours.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let server = std::thread::spawn(move || {
        let mut heard = Vec::new();
        for answer in answers {
            let mut buffer = vec![0; 1 << 12];
            let bytes = theirs.read(&mut buffer).unwrap();
            heard.push(buffer[..bytes].to_vec());
            theirs.write_all(answer).unwrap();
        }
        heard
    });
    (Socket::Unix(ours), server)
}
