//! Splits bytes from a server into messages. The readers of both protocols use it.
//!
//! A message is a header of fixed size, which has the length of the body, and the body. The input
//! is not trusted: an impossible length or a body that ends early is an error.

use std::io::{ErrorKind, Read};
use std::ops::Range;

/// Messages from a server. Bytes after the current message stay in a buffer.
#[derive(Debug)]
pub(crate) struct Incoming {
    buffer: Vec<u8>,
    body: Range<usize>,
    filled: usize,
}

impl Incoming {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; 1 << 14], body: 0..0, filled: 0 }
    }

    /// Reads the next message and returns its header. `body_bytes` returns the length of the body
    /// from the header.
    pub(crate) fn next_message<const HEADER: usize>(
        &mut self,
        from: &mut impl Read,
        body_bytes: impl FnOnce(Fields<'_>) -> Result<usize, String>,
    ) -> Result<[u8; HEADER], String> {
        let at = self.body.end;
        self.body = at..at;
        let at = self.bring(HEADER, from)?;
        let fields = Fields { rest: &self.buffer[at..at + HEADER] };
        let header = fields.clone().array()?;
        let bytes = HEADER + body_bytes(fields)?;
        let at = self.bring(bytes, from)?;
        self.body = at + HEADER..at + bytes;
        Ok(header)
    }

    /// The body of the current message.
    pub(crate) fn body(&self) -> Fields<'_> {
        Fields { rest: &self.buffer[self.body.clone()] }
    }

    /// Reads until `bytes` bytes after the last message are in the buffer. Returns their position
    /// in it.
    fn bring(&mut self, bytes: usize, from: &mut impl Read) -> Result<usize, String> {
        let start = self.body.start;
        if self.filled - start >= bytes {
            return Ok(start);
        }
        self.buffer.copy_within(start..self.filled, 0);
        self.filled -= start;
        self.body = 0..0;
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        while self.filled < bytes {
            match from.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Err("the server closed the connection".to_string()),
                Ok(more) => self.filled += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("reading from the server: {error}")),
            }
        }
        Ok(0)
    }
}

/// The body of a message, read from its start. Each protocol adds the numbers of its byte order.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'b> {
    pub(crate) rest: &'b [u8],
}

impl<'b> Fields<'b> {
    pub(crate) fn u8(&mut self) -> Result<u8, String> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// A zero-terminated text.
    pub(crate) fn text(&mut self) -> Result<String, String> {
        let end = self.rest.iter().position(|&byte| byte == 0).ok_or("a text without an end")?;
        let text = String::from_utf8_lossy(&self.rest[..end]).into_owned();
        self.rest = &self.rest[end + 1..];
        Ok(text)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (value, rest) = self.rest.split_first_chunk().ok_or("a message that ends early")?;
        self.rest = rest;
        Ok(*value)
    }

    /// The next `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'b [u8], String> {
        let (value, rest) = self.rest.split_at_checked(count).ok_or("a value that ends early")?;
        self.rest = rest;
        Ok(value)
    }
}

/// Returns one byte per call, as a slow network might.
#[cfg(test)]
pub(crate) struct Drops<'b>(pub(crate) &'b [u8]);

#[cfg(test)]
impl Read for Drops<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
        into[0] = *first;
        self.0 = rest;
        Ok(1)
    }
}
