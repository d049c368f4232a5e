//! The messages of PostgreSQL's protocol, version 3: encodes and decodes bytes, without a socket.
//!
//! A message is a tag, its length in 32 bits (which counts the length itself, but not the tag), and
//! its body. All numbers are big-endian. The input is not trusted: a body that ends early is an
//! error.
#![expect(clippy::big_endian_bytes, reason = "the protocol is big-endian")]

use std::io::Read;

use crate::incoming::{self, Fields};

/// Longest message that is accepted, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 28;
const PROTOCOL_VERSION: i32 = 3 << 16;
const BINARY: i16 = 1;

/// Messages to the server. They are collected and then written together.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
}

impl Outgoing {
    /// The messages so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Clears the buffer and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The first message of a connection, which has no tag.
    pub(crate) fn startup(&mut self, parameters: &[(&str, &str)]) {
        self.body(|body| {
            body.extend(PROTOCOL_VERSION.to_be_bytes());
            for (name, value) in parameters {
                text(body, name);
                text(body, value);
            }
            body.push(0);
        });
    }

    /// The answer to a request for a password in clear text.
    pub(crate) fn password(&mut self, password: &str) {
        self.message(b'p', |body| text(body, password));
    }

    /// The first message of a SASL exchange with `mechanism`.
    pub(crate) fn sasl_first(&mut self, mechanism: &str, first: &str) {
        self.message(b'p', |body| {
            text(body, mechanism);
            length(body, first.len());
            body.extend_from_slice(first.as_bytes());
        });
    }

    /// The next message of a SASL exchange.
    pub(crate) fn sasl_next(&mut self, next: &str) {
        self.message(b'p', |body| body.extend_from_slice(next.as_bytes()));
    }

    /// A query with one or more statements of the simple protocol.
    pub(crate) fn query(&mut self, sql: &str) {
        self.message(b'Q', |body| text(body, sql));
    }

    /// Prepares `sql` under `name`. The server chooses parameter types that are 0 or missing.
    pub(crate) fn parse(&mut self, name: &str, sql: &str, parameter_types: &[u32]) {
        self.message(b'P', |body| {
            text(body, name);
            text(body, sql);
            count(body, parameter_types.len());
            for oid in parameter_types {
                body.extend(oid.to_be_bytes());
            }
        });
    }

    /// Requests the parameters and columns of the statement `name`.
    pub(crate) fn describe(&mut self, name: &str) {
        self.message(b'D', |body| {
            body.push(b'S');
            text(body, name);
        });
    }

    /// Binds the statement `name` to at most one parameter. The parameter and all columns are
    /// binary.
    pub(crate) fn bind(&mut self, name: &str, parameter: Option<&[u8]>) {
        self.message(b'B', |body| {
            text(body, ""); // portal
            text(body, name);
            let count = i16::from(parameter.is_some());
            body.extend(count.to_be_bytes());
            if parameter.is_some() {
                body.extend(BINARY.to_be_bytes());
            }
            body.extend(count.to_be_bytes());
            if let Some(value) = parameter {
                length(body, value.len());
                body.extend_from_slice(value);
            }
            body.extend(1_i16.to_be_bytes());
            body.extend(BINARY.to_be_bytes());
        });
    }

    /// Executes the bound statement to its last row.
    pub(crate) fn execute(&mut self) {
        self.message(b'E', |body| {
            text(body, ""); // portal
            body.extend(0_i32.to_be_bytes());
        });
    }

    /// Ends a group of messages: the server commits, and reports that it is ready.
    pub(crate) fn sync(&mut self) {
        self.message(b'S', |_| ());
    }

    /// Ends the connection.
    pub(crate) fn terminate(&mut self) {
        self.message(b'X', |_| ());
    }

    fn message(&mut self, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(tag);
        self.body(write);
    }

    fn body(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        self.bytes.extend([0; 4]);
        write(&mut self.bytes);
        let bytes = i32::try_from(self.bytes.len() - at).expect("no parameter has two gigabytes");
        self.bytes[at..at + 4].copy_from_slice(&bytes.to_be_bytes());
    }
}

fn text(body: &mut Vec<u8>, text: &str) {
    // A zero byte ends a text, so zeros inside are dropped.
    body.extend(text.bytes().filter(|&byte| byte != 0));
    body.push(0);
}

fn count(body: &mut Vec<u8>, count: usize) {
    body.extend(i16::try_from(count).expect("a statement has at most one parameter").to_be_bytes());
}

fn length(body: &mut Vec<u8>, bytes: usize) {
    body.extend(i32::try_from(bytes).expect("no parameter has two gigabytes").to_be_bytes());
}

/// Messages from the server.
#[derive(Debug)]
pub(crate) struct Incoming(incoming::Incoming);

impl Incoming {
    pub(crate) fn new() -> Self {
        Self(incoming::Incoming::new())
    }

    /// Reads the next message and returns its tag.
    pub(crate) fn next(&mut self, from: &mut impl Read) -> Result<u8, String> {
        let [tag, ..]: [u8; 5] = self.0.next_message(from, |mut header| {
            header.u8()?; // tag
            let length = header.i32()?;
            match usize::try_from(length) {
                Ok(bytes @ 4..=MESSAGE_BYTES_MAX) => Ok(bytes - 4),
                _ => Err(format!("a message says that it has {length} bytes; is this a PostgreSQL server?")),
            }
        })?;
        Ok(tag)
    }

    /// The body of the current message.
    pub(crate) fn body(&self) -> Fields<'_> {
        self.0.body()
    }
}

/// Readers of this protocol's values in the body of a message.
pub(crate) trait PostgresFields<'b> {
    fn i16(&mut self) -> Result<i16, String>;

    fn i32(&mut self) -> Result<i32, String>;

    fn u32(&mut self) -> Result<u32, String>;

    /// A column of a row; `None` if it is null.
    fn value(&mut self) -> Result<Option<&'b [u8]>, String>;
}

impl<'b> PostgresFields<'b> for Fields<'b> {
    fn i16(&mut self) -> Result<i16, String> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, String> {
        self.array().map(i32::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_be_bytes)
    }

    fn value(&mut self) -> Result<Option<&'b [u8]>, String> {
        match self.i32()? {
            -1 => Ok(None),
            bytes => self.bytes(usize::try_from(bytes).map_err(|_| "a value of negative length")?).map(Some),
        }
    }
}

/// The integer in the binary `value` of a smallint, integer or bigint; `None` for other lengths.
pub(crate) fn integer(value: &[u8]) -> Option<i64> {
    Some(match value.len() {
        2 => i16::from_be_bytes(value.try_into().ok()?).into(),
        4 => i32::from_be_bytes(value.try_into().ok()?).into(),
        8 => i64::from_be_bytes(value.try_into().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incoming::Drops;

    #[test]
    fn a_bind_of_one_binary_parameter_has_these_bytes() {
        let mut out = Outgoing::default();
        out.bind("q", Some(&[0xaa, 0xbb]));
        out.execute();
        out.sync();
        let bind = b"B\0\0\0\x17\0q\0\0\x01\0\x01\0\x01\0\0\0\x02\xaa\xbb\0\x01\0\x01";
        let rest = b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
        assert_eq!(out.bytes(), [&bind[..], rest].concat());
        out.clear();
        out.bind("q", None);
        assert_eq!(out.bytes(), b"B\0\0\0\x0f\0q\0\0\0\0\0\0\x01\0\x01");
    }

    #[test]
    fn the_other_messages_have_these_bytes() {
        let mut out = Outgoing::default();
        out.startup(&[("user", "me")]);
        assert_eq!(out.bytes(), b"\0\0\0\x11\0\x03\0\0user\0me\0\0");
        out.clear();
        out.parse("q", "SELECT $1", &[16_000]);
        assert_eq!(out.bytes(), b"P\0\0\0\x16q\0SELECT $1\0\0\x01\0\0\x3e\x80");
        out.clear();
        out.describe("q");
        out.query("SHOW x");
        out.password("s");
        out.terminate();
        assert_eq!(out.bytes(), b"D\0\0\0\x07Sq\0Q\0\0\0\x0bSHOW x\0p\0\0\0\x06s\0X\0\0\0\x04");
    }

    #[test]
    fn messages_come_apart_however_they_arrive() {
        let bytes = [&b"D\0\0\0\x12\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff"[..], b"Z\0\0\0\x05I"].concat();
        let read_all = |from: &mut dyn Read| {
            let mut from = from;
            let mut incoming = Incoming::new();
            assert_eq!(incoming.next(&mut from), Ok(b'D'));
            let mut body = incoming.body();
            assert_eq!(body.i16(), Ok(2));
            assert_eq!(body.value().unwrap().and_then(integer), Some(7));
            assert_eq!(body.value(), Ok(None));
            assert!(body.u8().is_err());
            assert_eq!(incoming.next(&mut from), Ok(b'Z'));
            assert_eq!(incoming.body().u8(), Ok(b'I'));
            assert!(incoming.next(&mut from).unwrap_err().contains("closed"));
        };
        read_all(&mut &bytes[..]);
        read_all(&mut Drops(&bytes));
    }

    #[test]
    fn a_message_longer_than_the_buffer_is_read_whole() {
        let mut bytes = b"N".to_vec();
        bytes.extend(100_004_i32.to_be_bytes());
        bytes.extend(vec![b'x'; 99_999]);
        bytes.push(0);
        let mut incoming = Incoming::new();
        assert_eq!(incoming.next(&mut &bytes[..]), Ok(b'N'));
        assert_eq!(incoming.body().text().unwrap().len(), 99_999);
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        for length in [-1, 0, 3, i32::MAX] {
            let mut bytes = b"D".to_vec();
            bytes.extend(length.to_be_bytes());
            assert!(Incoming::new().next(&mut &bytes[..]).unwrap_err().contains("PostgreSQL"), "{length}");
        }
        assert!(Fields { rest: b"\0\0\0\x05abc" }.value().is_err());
        assert!(Fields { rest: b"\xff\xff\xff\xfe" }.value().is_err());
        assert!(Fields { rest: b"abc" }.text().is_err());
    }

    #[test]
    fn integers_have_two_four_or_eight_bytes() {
        assert_eq!(integer(&[0xff, 0xfe]), Some(-2));
        assert_eq!(integer(&[0, 0, 1, 0]), Some(256));
        assert_eq!(integer(&[0, 0, 0, 1, 0, 0, 0, 0]), Some(1 << 32));
        assert_eq!(integer(&[1, 2, 3]), None);
    }
}
