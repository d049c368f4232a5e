//! Consecutive numbers on a page, little endian.

/// Reads consecutive numbers. The body must be long enough.
pub(crate) struct Fields<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn at(body: &'a [u8], at: usize) -> Self {
        Self { body, at }
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let bytes = self.body[self.at..self.at + N].try_into().expect("a slice of N bytes");
        self.at += N;
        bytes
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    pub(crate) fn f32(&mut self) -> f32 {
        f32::from_le_bytes(self.bytes())
    }
}

/// Writes consecutive numbers. The body must be long enough.
pub(crate) struct FieldsMut<'a> {
    body: &'a mut [u8],
    at: usize,
}

impl<'a> FieldsMut<'a> {
    pub(crate) fn at(body: &'a mut [u8], at: usize) -> Self {
        Self { body, at }
    }

    /// The position of the next number.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.body[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    pub(crate) fn u16(&mut self, number: u16) {
        self.bytes(&number.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.bytes(&number.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    pub(crate) fn f32(&mut self, number: f32) {
        self.bytes(&number.to_le_bytes());
    }
}
