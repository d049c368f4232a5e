//! The packets of MySQL's protocol, as MariaDB uses it: encodes and decodes bytes, without a
//! socket.
//!
//! A packet is the length of its body in 24 bits, a number that increases by one within an
//! exchange, and the body. All numbers are little-endian. The input is not trusted: a body that
//! ends early is an error. A body of the largest length would continue in another packet, so it is
//! an error too.

use std::io::Read;

use crate::incoming::{self, Fields};

/// The length of a body that continues in another packet. Packets of this client are shorter.
const BODY_BYTES_MAX: usize = 0xff_ffff;
const UTF8MB4: u8 = 45;
const BLOB: u8 = 252;

/// The capabilities that client and server must have: protocol 4.1, login with a plugin and a hash,
/// and no EOF packets.
pub(super) const ABILITIES: u32 = 0x1 | 0x4 | 0x200 | 0x2000 | 0x8000 | 0x8_0000 | 0x100_0000;
const WITH_DATABASE: u32 = 0x8;

/// Values of the first byte of an answer's body.
pub(super) const OK: u8 = 0;
pub(super) const NULL: u8 = 0xfb;
pub(super) const END: u8 = 0xfe;
pub(super) const ERROR: u8 = 0xff;

/// Packets to the server. They are collected and then written together.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
}

impl Outgoing {
    /// The packets so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Clears the buffer and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The answer to a greeting. `hash` proves the password to `plugin`.
    pub(super) fn login(&mut self, number: u8, user: &str, hash: &[u8], database: &str, plugin: &str) {
        let abilities = ABILITIES | if database.is_empty() { 0 } else { WITH_DATABASE };
        self.packet(number, |body| {
            body.extend(abilities.to_le_bytes());
            body.extend((BODY_BYTES_MAX as u32).to_le_bytes());
            body.push(UTF8MB4);
            body.extend([0; 23]);
            text(body, user);
            body.push(u8::try_from(hash.len()).expect("a hash has 20 bytes"));
            body.extend(hash);
            if !database.is_empty() {
                text(body, database);
            }
            text(body, plugin);
        });
    }

    /// A packet with the body `bytes`.
    pub(super) fn plain(&mut self, number: u8, bytes: &[u8]) {
        self.packet(number, |body| body.extend(bytes));
    }

    /// A statement that is not prepared.
    pub(super) fn query(&mut self, sql: &str) {
        self.command(3, |body| body.extend(sql.as_bytes()));
    }

    /// Prepares a statement.
    pub(super) fn prepare(&mut self, sql: &str) {
        self.command(22, |body| body.extend(sql.as_bytes()));
    }

    /// Executes a prepared statement with at most one parameter, a blob.
    pub(super) fn execute(&mut self, statement: u32, parameter: Option<&[u8]>) {
        self.command(23, |body| {
            body.extend(statement.to_le_bytes());
            body.push(0); // no cursor
            body.extend(1_u32.to_le_bytes()); // once
            if let Some(value) = parameter {
                body.extend([0, 1, BLOB, 0]); // no null, types follow, the type and its flags
                length(body, value.len());
                body.extend(value);
            }
        });
    }

    /// Ends the connection.
    pub(super) fn quit(&mut self) {
        self.command(1, |_| ());
    }

    fn command(&mut self, code: u8, write: impl FnOnce(&mut Vec<u8>)) {
        self.packet(0, |body| {
            body.push(code);
            write(body);
        });
    }

    fn packet(&mut self, number: u8, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        self.bytes.extend([0, 0, 0, number]);
        write(&mut self.bytes);
        let bytes = self.bytes.len() - at - 4;
        assert!(bytes < BODY_BYTES_MAX, "no statement and no vector has 16 MB");
        self.bytes[at..at + 3].copy_from_slice(&(bytes as u32).to_le_bytes()[..3]);
    }
}

fn text(body: &mut Vec<u8>, text: &str) {
    // A zero byte ends a text, so zeros inside are dropped.
    body.extend(text.bytes().filter(|&byte| byte != 0));
    body.push(0);
}

fn length(body: &mut Vec<u8>, bytes: usize) {
    /// The first length that does not fit into one byte. As the first byte it stands for NULL.
    const NULL_LENGTH: usize = NULL as usize;
    match bytes {
        0..NULL_LENGTH => body.push(bytes as u8),
        NULL_LENGTH..=0xffff => {
            body.push(0xfc);
            body.extend((bytes as u16).to_le_bytes());
        }
        _ => {
            body.push(0xfd);
            body.extend(&(bytes as u32).to_le_bytes()[..3]); // `packet` refuses what is longer
        }
    }
}

/// Packets from the server.
#[derive(Debug)]
pub(super) struct Incoming(incoming::Incoming);

impl Incoming {
    pub(super) fn new() -> Self {
        Self(incoming::Incoming::new())
    }

    /// Reads the next packet and returns its number.
    pub(super) fn next(&mut self, from: &mut impl Read) -> Result<u8, String> {
        let [_, _, _, number] = self.0.next_message(from, |mut header| match header.u24_le()? {
            BODY_BYTES_MAX => Err("an answer has a value of 16 MB; is this a MariaDB server?".to_string()),
            bytes => Ok(bytes),
        })?;
        Ok(number)
    }

    /// The body of the current packet.
    pub(super) fn body(&self) -> Fields<'_> {
        self.0.body()
    }
}

/// Readers of this protocol's values in the body of a message.
pub(super) trait MysqlFields<'b> {
    fn u16_le(&mut self) -> Result<u16, String>;

    fn u32_le(&mut self) -> Result<u32, String>;

    fn u24_le(&mut self) -> Result<usize, String>;

    /// A length-encoded number of one to nine bytes.
    fn length(&mut self) -> Result<usize, String>;

    /// A length, then a value of that length.
    fn string(&mut self) -> Result<&'b [u8], String>;

    /// A column of a text row; `None` if it is null.
    fn text_value(&mut self) -> Result<Option<&'b [u8]>, String>;

    /// The first column of a binary row with `columns` columns; `None` if it is null.
    fn first_value(&mut self, columns: usize, of: &Field) -> Result<Option<&'b [u8]>, String>;
}

impl<'b> MysqlFields<'b> for Fields<'b> {
    fn u16_le(&mut self) -> Result<u16, String> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32_le(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u24_le(&mut self) -> Result<usize, String> {
        let [low, middle, high] = self.array()?;
        Ok(u32::from_le_bytes([low, middle, high, 0]) as usize)
    }

    fn length(&mut self) -> Result<usize, String> {
        match self.u8()? {
            0xfc => self.u16_le().map(usize::from),
            0xfd => self.u24_le(),
            0xfe => {
                let number = u64::from_le_bytes(self.array()?);
                usize::try_from(number).map_err(|_| format!("a length of {number}"))
            }
            NULL | ERROR => Err("a length that is none".to_string()),
            small => Ok(small.into()),
        }
    }

    fn string(&mut self) -> Result<&'b [u8], String> {
        let bytes = self.length()?;
        self.bytes(bytes)
    }

    fn text_value(&mut self) -> Result<Option<&'b [u8]>, String> {
        if self.rest.first() == Some(&NULL) {
            self.u8()?;
            return Ok(None);
        }
        self.string().map(Some)
    }

    fn first_value(&mut self, columns: usize, of: &Field) -> Result<Option<&'b [u8]>, String> {
        self.u8()?; // zero
        // The first two bits are never used.
        let nulls = self.bytes((columns + 2).div_ceil(8))?;
        if nulls[0] & 4 != 0 {
            return Ok(None);
        }
        match of.bytes {
            Some(bytes) => self.bytes(bytes).map(Some),
            None => self.string().map(Some),
        }
    }
}

/// The server's description of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    /// Bytes of a binary value; `None` if every value has its own length.
    bytes: Option<usize>,
    pub(super) is_integer: bool,
    is_unsigned: bool,
}

impl Field {
    pub(super) fn read(mut body: Fields<'_>) -> Result<Self, String> {
        for _ in 0..4 {
            body.string()?; // catalog, schema, table and its own name
        }
        let name = String::from_utf8_lossy(body.string()?).into_owned();
        body.string()?; // the column's own name
        body.length()?; // bytes that follow
        body.u16_le()?; // character set
        body.u32_le()?; // greatest length
        let kind = body.u8()?;
        let flags = body.u16_le()?;
        let (bytes, is_integer) = match kind {
            1 => (Some(1), true),
            2 | 13 => (Some(2), true), // smallint, year
            3 | 9 => (Some(4), true),  // int, mediumint
            8 => (Some(8), true),
            4 => (Some(4), false), // float
            5 => (Some(8), false), // double
            _ => (None, false),    // text, blobs, decimals; times have a length, too
        };
        Ok(Self { name, bytes, is_integer, is_unsigned: flags & 0x20 != 0 })
    }

    /// The integer in a binary value; `None` if the column has another type or the integer is too
    /// large.
    pub(super) fn integer(&self, value: &[u8]) -> Option<i64> {
        if !self.is_integer {
            return None;
        }
        let negative = !self.is_unsigned && value.last()? & 0x80 != 0;
        let mut bytes = [if negative { 0xff } else { 0 }; 8];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        let integer = i64::from_le_bytes(bytes);
        (negative || integer >= 0).then_some(integer)
    }
}

/// The text of an error packet, in the form in which command line clients show it.
pub(super) fn error_text(mut body: Fields<'_>) -> Result<String, String> {
    body.u8()?; // ERROR
    let code = body.u16_le()?;
    let text = String::from_utf8_lossy(body.rest);
    Ok(match text.strip_prefix('#').and_then(|text| text.split_at_checked(5)) {
        Some((state, text)) => format!("ERROR {code} ({state}): {text}"),
        None => format!("ERROR {code}: {text}"), // before the protocol is agreed upon
    })
}

/// The greeting of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) version: String,
    pub(super) salt: Vec<u8>,
}

impl Greeting {
    pub(super) fn read(mut body: Fields<'_>) -> Result<Self, String> {
        if body.rest.first() == Some(&ERROR) {
            return Err(error_text(body)?);
        }
        let protocol = body.u8()?;
        if protocol != 10 {
            return Err(format!("the server speaks protocol {protocol}; is this a MariaDB server?"));
        }
        let version = body.text()?;
        body.u32_le()?; // number of the connection
        let mut salt = body.array::<8>()?.to_vec();
        body.u8()?;
        let low = body.u16_le()?;
        body.array::<3>()?; // character set, status
        let high = body.u16_le()?;
        let abilities = u32::from(high) << 16 | u32::from(low);
        // MariaDB clears the lowest bit to identify itself, but it has that capability.
        let missing = ABILITIES & !abilities & !1;
        if missing != 0 {
            return Err(format!("the server {version} lacks abilities of the protocol ({missing:#x})"));
        }
        body.array::<11>()?; // length of the salt, which is known; reserved
        salt.extend(body.array::<12>()?);
        Ok(Self { version: version.trim_start_matches("5.5.5-").to_string(), salt })
    }
}

#[cfg(test)]
mod tests;
