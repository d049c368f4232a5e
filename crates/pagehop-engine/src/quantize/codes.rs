//! The own codes of many vectors in memory. Every step of a build between reading the rows and
//! writing the pages works on them. The high planes form a matrix of bytes, so that inner products
//! of rows are integer products, which the fastest kernels compute.

use super::own::{self, OwnCode};

/// Rows of own codes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Codes {
    pub(crate) dim: usize,
    pub(crate) hi: Vec<i8>,
    pub(crate) lo: Vec<u8>,
    pub(crate) own: Vec<OwnCode>,
    /// Squared norm of the vector that the high plane alone decodes to.
    pub(crate) hi_norm_sq: Vec<f32>,
    /// Under the inner product, the squared norm to which every row is filled up in
    /// [`Codes::hi_distance`] (`prepare.rs`).
    pub(crate) filled_sq: Option<f32>,
}

impl Codes {
    pub(crate) fn new(dim: usize) -> Self {
        Self { dim, ..Self::default() }
    }

    /// Reserves space for `rows` rows, so that memory stays within the estimate of the build.
    pub(crate) fn with_capacity(dim: usize, rows: usize) -> Self {
        Self {
            dim,
            hi: Vec::with_capacity(rows * dim),
            lo: Vec::with_capacity(rows * own::lo_bytes(dim)),
            own: Vec::with_capacity(rows),
            hi_norm_sq: Vec::with_capacity(rows),
            filled_sq: None,
        }
    }

    /// Bytes per row.
    pub(crate) fn row_bytes(dim: usize) -> usize {
        dim + own::lo_bytes(dim) + size_of::<OwnCode>() + size_of::<f32>()
    }

    pub(crate) fn len(&self) -> usize {
        self.own.len()
    }

    /// Appends the code of `x`.
    pub(crate) fn push(&mut self, x: &[f32]) {
        let (hi_start, lo_start) = (self.hi.len(), self.lo.len());
        self.hi.resize(hi_start + self.dim, 0);
        self.lo.resize(lo_start + own::lo_bytes(self.dim), 0);
        let mut values = vec![0; self.dim];
        let hi = &mut self.hi[hi_start..];
        let code = own::encode(x, &mut values, hi, &mut self.lo[lo_start..]);
        let hi_norm = pagehop_kernels::dot_i8(hi, hi) as f32 * (16.0 * code.step).powi(2);
        self.own.push(code);
        self.hi_norm_sq.push(hi_norm);
    }

    /// Appends an existing code, without its low plane.
    pub(crate) fn push_hi(&mut self, own: OwnCode, hi: &[i8]) {
        self.hi.extend_from_slice(hi);
        self.own.push(own);
        self.hi_norm_sq.push(pagehop_kernels::dot_i8(hi, hi) as f32 * (16.0 * own.step).powi(2));
    }

    /// Appends a row of `other`, without its low plane.
    pub(crate) fn push_hi_of(&mut self, other: &Self, row: usize) {
        self.hi.extend_from_slice(other.hi(row));
        self.own.push(other.own[row]);
        self.hi_norm_sq.push(other.hi_norm_sq[row]);
    }

    /// Keeps only the rows for which `keeps` is true.
    pub(crate) fn retain(&mut self, keeps: impl Fn(usize) -> bool) {
        let lo_bytes = own::lo_bytes(self.dim);
        let mut kept = 0;
        for row in (0..self.len()).filter(|row| keeps(*row)) {
            self.hi.copy_within(row * self.dim..(row + 1) * self.dim, kept * self.dim);
            self.lo.copy_within(row * lo_bytes..(row + 1) * lo_bytes, kept * lo_bytes);
            self.own[kept] = self.own[row];
            self.hi_norm_sq[kept] = self.hi_norm_sq[row];
            kept += 1;
        }
        self.hi.truncate(kept * self.dim);
        self.lo.truncate(kept * lo_bytes);
        self.own.truncate(kept);
        self.hi_norm_sq.truncate(kept);
    }

    /// Removes all rows.
    pub(crate) fn clear(&mut self) {
        self.hi.clear();
        self.lo.clear();
        self.own.clear();
        self.hi_norm_sq.clear();
    }

    /// Appends all rows of `other`, which must have the same dimension.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.hi.append(&mut other.hi);
        self.lo.append(&mut other.lo);
        self.own.append(&mut other.own);
        self.hi_norm_sq.append(&mut other.hi_norm_sq);
    }

    /// Copies the high planes of `rows`, in this order. Low planes are not copied.
    pub(crate) fn gather(&self, rows: impl Iterator<Item = u32>) -> Self {
        let mut some = Self { filled_sq: self.filled_sq, ..Self::new(self.dim) };
        for row in rows {
            let row = row as usize;
            some.hi.extend_from_slice(self.hi(row));
            some.own.push(self.own[row]);
            some.hi_norm_sq.push(self.hi_norm_sq[row]);
        }
        some
    }

    pub(crate) fn hi(&self, row: usize) -> &[i8] {
        &self.hi[row * self.dim..][..self.dim]
    }

    pub(crate) fn lo(&self, row: usize) -> &[u8] {
        let bytes = own::lo_bytes(self.dim);
        &self.lo[row * bytes..][..bytes]
    }

    /// The step of the high plane.
    pub(crate) fn hi_step(&self, row: usize) -> f32 {
        16.0 * self.own[row].step
    }

    /// The squared norm of a row in distances between rows.
    #[inline]
    pub(crate) fn hi_square(&self, row: usize) -> f32 {
        self.filled_sq.unwrap_or(self.hi_norm_sq[row])
    }

    /// Squared distance between two rows, decoded from their high planes.
    #[inline]
    pub(crate) fn hi_distance(&self, a: usize, b: usize) -> f32 {
        let dot = pagehop_kernels::dot_i8(self.hi(a), self.hi(b)) as f32;
        self.hi_square(a) + self.hi_square(b) - 2.0 * self.hi_step(a) * self.hi_step(b) * dot
    }

    /// Prefetches what [`Codes::hi_distance`] reads of a row.
    #[inline]
    pub(crate) fn prefetch_hi(&self, row: usize) {
        pagehop_kernels::prefetch(self.hi(row));
        pagehop_kernels::prefetch(&self.own[row..=row]);
        pagehop_kernels::prefetch(&self.hi_norm_sq[row..=row]);
    }

    /// Whether two rows are duplicates: they have the same step and high plane, or both are zero.
    pub(crate) fn is_same(&self, a: usize, b: usize) -> bool {
        self.is_same_as(a, self.own[b], self.hi(b))
    }

    /// Like [`Codes::is_same`], for a code that is not in `self`.
    pub(crate) fn is_same_as(&self, row: usize, own: OwnCode, hi: &[i8]) -> bool {
        self.own[row].step == own.step && self.hi(row) == hi || self.is_zero(row) && own.norm_sq < f32::MIN_POSITIVE
    }

    /// Whether a row counts as the zero vector: its squared norm is below the smallest normal
    /// `f32`.
    pub(crate) fn is_zero(&self, row: usize) -> bool {
        self.own[row].norm_sq < f32::MIN_POSITIVE
    }

    /// Decodes a row at full precision.
    pub(crate) fn decode(&self, row: usize, x: &mut [f32]) {
        let mut values = vec![0; self.dim];
        own::decode(self.own[row].step, self.hi(row), self.lo(row), &mut values, x);
    }

    /// Decodes a row from its high plane alone.
    pub(crate) fn decode_hi(&self, row: usize, x: &mut [f32]) {
        let step = self.hi_step(row);
        for (x, v) in x.iter_mut().zip(self.hi(row)) {
            *x = step * f32::from(*v);
        }
    }
}
