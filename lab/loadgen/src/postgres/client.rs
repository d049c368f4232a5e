//! One connection to PostgreSQL over a blocking socket, with as little work per query as the
//! protocol allows.
//!
//! A query is one write (Bind, Execute, Sync) and, if its answer fits into the buffer, one read.

use super::scram::{self, Scram};
use super::wire::{self, Incoming, Outgoing, PostgresFields};
use crate::address::Address;
use crate::client::{Rows, Socket, Trouble};

/// The name of the prepared statement, which is the same on every connection.
pub(super) const STATEMENT: &str = "loadgen";

/// The server's description of a column of a prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) type_oid: u32,
}

/// The server's description of a prepared statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) parameter_oids: Vec<u32>,
    pub(super) columns: Vec<Field>,
}

/// A connection that is ready for a query.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    incoming: Incoming,
    outgoing: Outgoing,
    pub(super) server_version: String,
}

impl Connection {
    /// Connects and logs in.
    pub(super) fn connect(address: &Address) -> Result<Self, Trouble> {
        Self::log_in(Socket::connect(address)?, address)
    }

    /// Logs in over an open socket.
    pub(super) fn log_in(socket: Socket, address: &Address) -> Result<Self, Trouble> {
        let (incoming, outgoing) = (Incoming::new(), Outgoing::default());
        let mut new = Self { socket, incoming, outgoing, server_version: String::new() };
        new.outgoing.startup(&[
            ("user", &address.user),
            ("database", &address.database),
            ("application_name", "pagehop-loadgen"),
            ("client_encoding", "UTF8"),
        ]);
        new.send()?;
        loop {
            match new.incoming.next(&mut new.socket)? {
                b'R' => new.authenticate(address)?,
                b'S' => {
                    let mut body = new.incoming.body();
                    if body.text()? == "server_version" {
                        new.server_version = body.text()?;
                    }
                }
                b'E' => return Err(Trouble::Lost(error_text(&new.incoming)?)),
                b'Z' => return Ok(new),
                _ => {} // a key to cancel with, a notice
            }
        }
    }

    /// Runs `sql` with the simple protocol. Returns the rows of all its statements as text.
    pub(super) fn query(&mut self, sql: &str) -> Result<Rows, Trouble> {
        self.outgoing.query(sql);
        self.send()?;
        let mut rows = Vec::new();
        self.until_ready(|tag, incoming| {
            if tag == b'D' {
                let mut body = incoming.body();
                let count = body.i16()?;
                let value = |_| Ok(body.value()?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
                rows.push((0..count).map(value).collect::<Result<_, String>>()?);
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// Prepares the statement. The server chooses the parameter types that are not given.
    pub(super) fn parse(&mut self, sql: &str, parameter_types: &[u32]) -> Result<Description, Trouble> {
        self.outgoing.parse(STATEMENT, sql, parameter_types);
        self.outgoing.describe(STATEMENT);
        self.outgoing.sync();
        self.send()?;
        let mut prepared = Description::default();
        self.until_ready(|tag, incoming| {
            let mut body = incoming.body();
            match tag {
                b't' => {
                    let count = body.i16()?;
                    prepared.parameter_oids = (0..count).map(|_| body.u32()).collect::<Result<_, _>>()?;
                }
                b'T' => {
                    for _ in 0..body.i16()? {
                        let name = body.text()?;
                        body.i32()?; // table
                        body.i16()?; // column of it
                        let type_oid = body.u32()?;
                        body.i16()?; // bytes of the type
                        body.i32()?; // its modifier
                        body.i16()?; // format
                        prepared.columns.push(Field { name, type_oid });
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(prepared)
    }

    /// Executes the prepared statement. Sets `ids` to the integers of the first column; a value
    /// that is null or of another type is `None`.
    pub(super) fn ask(&mut self, parameter: Option<&[u8]>, ids: &mut Vec<Option<i64>>) -> Result<(), Trouble> {
        ids.clear();
        self.outgoing.bind(STATEMENT, parameter);
        self.outgoing.execute();
        self.outgoing.sync();
        self.send()?;
        self.until_ready(|tag, incoming| {
            if tag == b'D' {
                let mut body = incoming.body();
                let first = if body.i16()? > 0 { body.value()? } else { None };
                ids.push(first.and_then(wire::integer));
            }
            Ok(())
        })
    }

    fn authenticate(&mut self, address: &Address) -> Result<(), Trouble> {
        let refuse = |text: String| Err(Trouble::Lost(text));
        match self.incoming.body().i32()? {
            0 => Ok(()),
            3 => {
                let Some(password) = &address.password else {
                    return refuse(format!("the server asks for a password of user {:?}", address.user));
                };
                self.outgoing.password(password);
                self.send()
            }
            10 => {
                let Some(password) = &address.password else {
                    return refuse(format!("the server asks for a password of user {:?}", address.user));
                };
                self.prove(password)
            }
            kind => {
                let name = if kind == 5 { "an MD5 password" } else { "a way to log in" };
                refuse(format!(
                    "the server asks for {name} (request {kind}); this client knows trust, peer, SCRAM and password in \
                     clear text: give it such a line in pg_hba.conf"
                ))
            }
        }
    }

    /// Runs the SCRAM-SHA-256 exchange that the server requested.
    fn prove(&mut self, password: &str) -> Result<(), Trouble> {
        let mut mechanisms = self.incoming.body();
        mechanisms.i32()?;
        loop {
            let name = mechanisms.text()?;
            if name == scram::MECHANISM {
                break;
            }
            if name.is_empty() {
                return Err(Trouble::Lost(format!("the server knows no {}", scram::MECHANISM)));
            }
        }
        let mut scram = Scram::begin(password)?;
        self.outgoing.sasl_first(scram::MECHANISM, &scram.first());
        self.send()?;
        let asked = self.sasl(11)?;
        let answer = scram.answer(&asked)?;
        self.outgoing.sasl_next(&answer);
        self.send()?;
        Ok(scram.check(&self.sasl(12)?)?)
    }

    /// The next message of the exchange, which must be of `kind`.
    fn sasl(&mut self, kind: i32) -> Result<String, Trouble> {
        match self.incoming.next(&mut self.socket)? {
            b'E' => return Err(Trouble::Lost(error_text(&self.incoming)?)),
            b'R' => {}
            tag => {
                return Err(Trouble::Lost(format!(
                    "the server left the log-in with a message {:?}",
                    char::from(tag)
                )));
            }
        }
        let mut body = self.incoming.body();
        match body.i32()? {
            found if found == kind => Ok(String::from_utf8_lossy(body.rest).into_owned()),
            other => Err(Trouble::Lost(format!("the server left the log-in with request {other}"))),
        }
    }

    fn send(&mut self) -> Result<(), Trouble> {
        let sent = self.socket.send(self.outgoing.bytes());
        self.outgoing.clear();
        sent
    }

    /// Calls `each` with every message until the server is ready. Returns the last refusal of the
    /// server, if there was one.
    fn until_ready(&mut self, mut each: impl FnMut(u8, &Incoming) -> Result<(), String>) -> Result<(), Trouble> {
        let mut refused = None;
        loop {
            let tag = match self.incoming.next(&mut self.socket) {
                Ok(tag) => tag,
                // The server's last error says more than that the connection ended.
                Err(text) => return Err(Trouble::Lost(refused.unwrap_or(text))),
            };
            match tag {
                b'Z' => return refused.map_or(Ok(()), |text| Err(Trouble::Refused(text))),
                b'E' => refused = Some(error_text(&self.incoming)?),
                b'G' => return Err(Trouble::Lost("COPY FROM STDIN cannot be measured".to_string())),
                _ => each(tag, &self.incoming)?,
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.outgoing.clear();
        self.outgoing.terminate();
        // If this fails, the server notices the closed socket.
        let _ = self.socket.send(self.outgoing.bytes());
    }
}

/// The text of an error message: severity, code, text, and details.
fn error_text(incoming: &Incoming) -> Result<String, String> {
    let (mut severity, mut code, mut message, mut more) =
        (String::new(), String::new(), String::new(), String::new());
    let mut body = incoming.body();
    loop {
        match body.u8()? {
            0 => return Ok(format!("{severity} {code}: {message}{more}")),
            b'S' => severity = body.text()?,
            b'C' => code = body.text()?,
            b'M' => message = body.text()?,
            b'D' => more += &format!("; {}", body.text()?),
            b'H' => more += &format!("; hint: {}", body.text()?),
            b'P' => more += &format!(" (at character {})", body.text()?),
            _ => drop(body.text()?),
        }
    }
}

#[cfg(test)]
mod tests;
