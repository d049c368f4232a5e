//! One connection to MariaDB over a blocking socket, with as little work per query as the protocol
//! allows.
//!
//! A query is one write and, if its answer fits into the buffer, one read.

use super::password::{self, PLUGIN};
use super::wire::{self, Field, Greeting, Incoming, MysqlFields, Outgoing};
use crate::address::Address;
use crate::client::{Rows, Socket, Trouble};
use crate::incoming::Fields;

/// Largest number of columns of a table or a view.
const COLUMNS_MAX: usize = 4096;

/// A statement that the server has prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Statement {
    id: u32,
    pub(super) parameters: u16,
    /// The first of its columns, if it has any.
    pub(super) first: Option<Field>,
}

/// A connection that is ready for a query.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    incoming: Incoming,
    outgoing: Outgoing,
    /// The number of the next packet.
    number: u8,
    pub(super) server_version: String,
    /// The statement that is measured.
    pub(super) prepared: Statement,
}

impl Connection {
    /// Connects and logs in.
    pub(super) fn connect(address: &Address) -> Result<Self, Trouble> {
        Self::log_in(Socket::connect(address)?, address)
    }

    /// Logs in over an open socket.
    pub(super) fn log_in(socket: Socket, address: &Address) -> Result<Self, Trouble> {
        let mut new = Self {
            socket,
            incoming: Incoming::new(),
            outgoing: Outgoing::default(),
            number: 0,
            server_version: String::new(),
            prepared: Statement::default(),
        };
        let greeting = Greeting::read(new.receive()?)?;
        new.server_version = greeting.version;
        let password = address.password.as_deref().unwrap_or_default();
        let proof = password::proof(password, &greeting.salt);
        new.outgoing.login(new.number, &address.user, &proof, &address.database, PLUGIN);
        new.send()?;
        // The server may request another plugin, once.
        for _ in 0..2 {
            let mut body = new.receive()?;
            match body.u8()? {
                wire::OK => return Ok(new),
                wire::ERROR => return Err(Trouble::Lost(wire::error_text(new.incoming.body())?)),
                wire::END => {
                    let (plugin, salt) = (body.text()?, body.rest);
                    let salt = salt.strip_suffix(&[0]).unwrap_or(salt);
                    if plugin != PLUGIN {
                        return Err(Trouble::Lost(format!(
                            "the server asks for {plugin} of user {:?}; this client knows {PLUGIN}: IDENTIFIED VIA {PLUGIN}",
                            address.user
                        )));
                    }
                    let proof = password::proof(password, salt);
                    new.outgoing.plain(new.number, &proof);
                    new.send()?;
                }
                _ => break,
            }
        }
        Err(Trouble::Lost("the server wants to know more than a password".to_string()))
    }

    /// Runs `sql`, without preparing it.
    pub(super) fn query(&mut self, sql: &str) -> Result<Rows, Trouble> {
        self.begin();
        self.outgoing.query(sql);
        self.send()?;
        let mut rows = Vec::new();
        self.answer(|columns, _, mut row| {
            let value = |_| Ok(row.text_value()?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
            rows.push((0..columns).map(value).collect::<Result<_, String>>()?);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Prepares a statement.
    pub(super) fn parse(&mut self, sql: &str) -> Result<Statement, Trouble> {
        self.begin();
        self.outgoing.prepare(sql);
        self.send()?;
        let mut body = self.receive()?;
        if body.u8()? == wire::ERROR {
            return Err(Trouble::Refused(wire::error_text(self.incoming.body())?));
        }
        let (id, columns, parameters) = (body.u32_le()?, body.u16_le()?, body.u16_le()?);
        let mut first = None;
        for _ in 0..parameters {
            self.receive()?;
        }
        for _ in 0..columns {
            let field = Field::read(self.receive()?)?;
            first = first.or(Some(field));
        }
        Ok(Statement { id, parameters, first })
    }

    /// Executes the statement that is measured. Sets `ids` to the integers of the first column; a
    /// value that is null or of another type is `None`.
    pub(super) fn ask(&mut self, parameter: Option<&[u8]>, ids: &mut Vec<Option<i64>>) -> Result<(), Trouble> {
        ids.clear();
        self.begin();
        self.outgoing.execute(self.prepared.id, parameter);
        self.send()?;
        self.answer(|columns, first, mut row| {
            ids.push(row.first_value(columns, first)?.and_then(|value| first.integer(value)));
            Ok(())
        })
    }

    /// Starts an exchange, whose packets are numbered from 0.
    fn begin(&mut self) {
        self.number = 0;
    }

    fn send(&mut self) -> Result<(), Trouble> {
        self.number = self.number.wrapping_add(1);
        let sent = self.socket.send(self.outgoing.bytes());
        self.outgoing.clear();
        sent
    }

    /// Reads the next packet.
    fn receive(&mut self) -> Result<Fields<'_>, Trouble> {
        let number = self.incoming.next(&mut self.socket)?;
        if number != self.number {
            let text = format!("packet {number} came for {}; is this a MariaDB server?", self.number);
            return Err(Trouble::Lost(text));
        }
        self.number = number.wrapping_add(1);
        Ok(self.incoming.body())
    }

    /// Reads an answer. Calls `each` for every row, with the number of columns and the first
    /// column.
    fn answer(
        &mut self,
        mut each: impl FnMut(usize, &Field, Fields<'_>) -> Result<(), String>,
    ) -> Result<(), Trouble> {
        let mut head = self.receive()?;
        let columns = match head.rest.first() {
            Some(&wire::OK) => return Ok(()),
            Some(&wire::ERROR) => return Err(Trouble::Refused(wire::error_text(head)?)),
            Some(&wire::NULL) => return Err(Trouble::Lost("LOAD DATA LOCAL cannot be measured".to_string())),
            _ => head.length()?,
        };
        if !(1..=COLUMNS_MAX).contains(&columns) {
            return Err(Trouble::Lost(format!("an answer of {columns} columns")));
        }
        let first = Field::read(self.receive()?)?;
        for _ in 1..columns {
            self.receive()?;
        }
        loop {
            let row = self.receive()?;
            match row.rest.first() {
                Some(&wire::END) => return Ok(()),
                Some(&wire::ERROR) => return Err(Trouble::Refused(wire::error_text(row)?)),
                _ => each(columns, &first, row)?,
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.outgoing.clear();
        self.outgoing.quit();
        // If this fails, the server notices the closed socket.
        let _ = self.socket.send(self.outgoing.bytes());
    }
}

#[cfg(test)]
mod tests;
