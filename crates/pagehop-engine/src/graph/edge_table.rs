//! Edge codes of all rows in the memory of a build, a record for each row.
//!
//! A walk reads the records of some thousand rows, spread over memory. So a record has all that a
//! score needs of a row, and begins at a cache line: in 384 dimensions it is one line.

use pagehop_kernels as kernels;

use crate::quantize::edge::{EdgeFactors, EdgeShape};

/// Words of a cache line.
const LINE_WORDS: usize = 8;
/// Words of a record before the code: the two factors in one, the centroid in the other.
const HEAD_WORDS: usize = 2;

/// Edge codes of every row. Pages will have a copy in every node that points to the row.
#[derive(Debug)]
pub(crate) struct EdgeTable {
    pub(crate) shape: EdgeShape,
    /// Digits to which queries are quantized: 1 or 2.
    pub(crate) query_digits: usize,
    /// Words of a record.
    record_words: usize,
    words: Vec<u64>,
    /// Where the first record begins in `words`: at a cache line, while `words` stays in place.
    first: usize,
}

/// What a table has of a row.
pub(crate) struct TableRow<'a> {
    /// The numbers that are stored with the code.
    pub(crate) factors: EdgeFactors,
    /// The centroid that the code is relative to.
    pub(crate) centroid: u8,
    pub(crate) code: &'a [u64],
}

impl EdgeTable {
    /// No rows yet, and space for `rows`.
    pub(crate) fn with_capacity(shape: EdgeShape, rows: usize) -> Self {
        let mut words: Vec<u64> = Vec::with_capacity(rows * record_words(shape) + LINE_WORDS - 1);
        let first = words.as_ptr().align_offset(LINE_WORDS * size_of::<u64>()).min(LINE_WORDS - 1);
        words.resize(first, 0);
        Self { shape, query_digits: 1, record_words: record_words(shape), words, first }
    }

    /// Bytes of a row.
    pub(crate) fn row_bytes(shape: EdgeShape) -> usize {
        record_words(shape) * size_of::<u64>()
    }

    /// Appends a row. `encode` writes its code, of [`EdgeShape::words`], and returns its factors.
    pub(crate) fn push(&mut self, centroid: u8, encode: impl FnOnce(&mut [u64]) -> EdgeFactors) {
        let at = self.words.len();
        self.words.resize(at + self.record_words, 0);
        let (head, rest) = self.words[at..].split_at_mut(HEAD_WORDS);
        let factors = encode(&mut rest[..self.shape.words()]);
        *head.first_mut().expect("a record has a head") = packed(factors);
        *head.last_mut().expect("a record has a head") = u64::from(centroid);
    }

    /// Writes the signature of a row into its factors.
    pub(crate) fn sign(&mut self, row: usize, signature: u16) {
        let factors = self.row(row).factors.signed(signature);
        self.words[self.first + row * self.record_words] = packed(factors);
    }

    /// Appends the rows of `other`.
    pub(crate) fn append(&mut self, other: &Self) {
        self.words.extend_from_slice(&other.words[other.first..]);
    }

    /// A copy of some rows, in this order.
    pub(crate) fn gather(&self, rows: &[u32]) -> Self {
        let mut some = Self::with_capacity(self.shape, rows.len());
        some.query_digits = self.query_digits;
        rows.iter().for_each(|row| some.words.extend_from_slice(self.record(*row as usize)));
        some
    }

    pub(crate) fn len(&self) -> usize {
        (self.words.len() - self.first) / self.record_words
    }

    /// Everything of a row.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> TableRow<'_> {
        let ([factors, centroid], rest) =
            self.record(row).split_first_chunk::<HEAD_WORDS>().expect("a record has a head");
        let (add, factor) = (f32::from_bits(*factors as u32), f32::from_bits((factors >> 32) as u32));
        let code = &rest[..self.shape.words()];
        TableRow { factors: EdgeFactors { add, factor }, centroid: *centroid as u8, code }
    }

    /// The centroid that the code of a row is relative to.
    pub(crate) fn centroid(&self, row: usize) -> u8 {
        self.row(row).centroid
    }

    /// The centroids of all rows.
    pub(crate) fn all_centroids(&self) -> Vec<u8> {
        (0..self.len()).map(|row| self.centroid(row)).collect()
    }

    /// Prefetches what scoring a row will read.
    #[inline]
    pub(crate) fn prefetch(&self, row: u32) {
        kernels::prefetch(self.record(row as usize));
    }

    #[inline]
    fn record(&self, row: usize) -> &[u64] {
        &self.words[self.first + row * self.record_words..][..self.record_words]
    }
}

/// The factors as a word.
fn packed(EdgeFactors { add, factor }: EdgeFactors) -> u64 {
    u64::from(factor.to_bits()) << 32 | u64::from(add.to_bits())
}

/// Words of a record: whole cache lines.
fn record_words(shape: EdgeShape) -> usize {
    (HEAD_WORDS + shape.words()).next_multiple_of(LINE_WORDS)
}
