//! Edge codes: what a node stores about each neighbor, and how a query estimates distances from it.
//!
//! Let `c` be the coarse centroid of the index that is nearest to vector `o`, and let `r = o - c`.
//! The code is `x`: one odd integer of `bits` bits per dimension (for 1 bit, the sign of `r`). With
//! `factor = |r|^2 / <r, x>`, the inner product of `r` with any `p` is estimated as `<p, r> ~
//! factor * <p, x>`, so
//!
//! ```text
//! |q - o|^2 = |q - c|^2 + |r|^2 - 2 <q - c, r>
//!           ~ |q - c|^2 + (|r|^2 + 2 factor <c, x>) - 2 factor <q, x>
//!                          `------- add --------'
//! ```
//!
//! This is the estimator of RaBitQ (Gao, Long 2024; for several bits: Gao et al. 2025). The
//! centroid `c` is shared by the whole index and does not depend on the node that points to `o`. So
//! all in-neighbors of `o` store the same code, and repairing an edge copies it.
//!
//! The query is quantized too: `q[i] ~ delta * u[i]`. `u` is odd and lies in -15..=15, which is
//! four bit planes (one digit), or in -255..=255, which is eight (two digits). An odd number is a
//! sum of `+-1 * 2^j`, so `<q, x>` is a weighted sum of popcounts of `plane XOR code`, without a
//! correction for the number of set bits. Four planes add 3% to the variance of a 1-bit estimate if
//! residuals are about as long as vectors. If residuals are much shorter, as in tight clusters or
//! few dimensions, the error of the query would dominate, and eight planes are used.

use super::inner_product::dot;
use pagehop_kernels as kernels;

/// Bit planes of a query that are counted in one pass: one hexadecimal digit.
const DIGIT_PLANES: usize = 4;
/// Edges in one interleaved block of codes.
pub(crate) const BLOCK_EDGES: usize = 8;

/// The size of the edge codes of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EdgeShape {
    /// Number of leading dimensions of the rotated space that are coded. Large vectors are not
    /// coded in full.
    pub(crate) dims: usize,
    /// Bits per coded dimension, 1 to 4.
    pub(crate) bits: usize,
}

impl EdgeShape {
    /// 64-bit words of one bit plane.
    pub(crate) fn plane_words(self) -> usize {
        self.dims.div_ceil(64)
    }

    /// 64-bit words of one code: all its planes, the least significant first.
    pub(crate) fn words(self) -> usize {
        self.plane_words() * self.bits
    }

    /// Bytes of one code.
    pub(crate) fn code_bytes(self) -> usize {
        self.words() * 8
    }
}

/// The head of an edge as it is stored: its target and its [`EdgeFactors`], little endian.
pub(crate) type EdgeHead = [u8; kernels::HEAD_BYTES];

/// The two numbers that are stored with a code.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct EdgeFactors {
    /// `|r|^2 + 2 * factor * <c, x>`.
    pub(crate) add: f32,
    /// `|r|^2 / <r, x>`.
    pub(crate) factor: f32,
}

/// The bits of a factor that may be part of a signature: the lowest, which are far below the error
/// of a code.
const SIGNED_BITS: u32 = 8;
const SIGNED: u32 = (1 << SIGNED_BITS) - 1;

impl EdgeFactors {
    /// The same factors with a signature in their lowest bits: its lower half in `add`, its upper
    /// half in `factor`.
    pub(crate) fn signed(self, signature: u16) -> Self {
        let with = |number: f32, bits: u32| f32::from_bits(number.to_bits() & !SIGNED | bits & SIGNED);
        let signature = u32::from(signature);
        Self { add: with(self.add, signature), factor: with(self.factor, signature >> SIGNED_BITS) }
    }

    /// The signature in the lowest bits.
    #[inline]
    pub(crate) fn signature(self) -> u16 {
        (self.add.to_bits() & SIGNED | (self.factor.to_bits() & SIGNED) << SIGNED_BITS) as u16
    }

    /// The head of an edge to `target`.
    pub(crate) fn head(self, target: u32) -> EdgeHead {
        let mut head = EdgeHead::default();
        let (words, _) = head.as_chunks_mut();
        words.copy_from_slice(&[target.to_le_bytes(), self.add.to_le_bytes(), self.factor.to_le_bytes()]);
        head
    }

    /// The factors in the head of an edge.
    pub(crate) fn of_head(head: &EdgeHead) -> Self {
        let (words, _) = head.as_chunks();
        Self { add: f32::from_le_bytes(words[1]), factor: f32::from_le_bytes(words[2]) }
    }
}

/// The target in the head of an edge.
#[inline]
pub(crate) fn target_of(head: &EdgeHead) -> u32 {
    let [a, b, c, d, ..] = *head;
    u32::from_le_bytes([a, b, c, d])
}

/// Encodes the residual of `o` from `centroid` into `code`, which is [`EdgeShape::words`] long.
///
/// Additions have the same order on every machine, so the same vector always gives the same code.
pub(crate) fn encode(shape: EdgeShape, o: &[f32], centroid: &[f32], code: &mut [u64]) -> EdgeFactors {
    assert_eq!(code.len(), shape.words());
    let dims = shape.dims;
    let mut residual: Vec<f32> = o.iter().zip(centroid).map(|(o, c)| o - c).collect();
    let norm_sq = dot(&residual, &residual);
    residual.truncate(dims);
    let per_level = match shape.bits {
        // Only the sign matters, however small the residual is.
        1 => 1e30,
        bits => levels_per_unit(bits, dot(&residual, &residual) / dims as f32),
    };
    let half = (1i32 << (shape.bits - 1)) as f32;
    // For a number that is not negative, truncation equals `floor`, and needs no library call.
    let level = |r: &f32| ((r * per_level).clamp(-half, half - 0.5) + half) as i32;
    let values: Vec<f32> = residual.iter().map(|r| 2.0 * level(r) as f32 + 1.0 - 2.0 * half).collect();
    kernels::level_planes(&residual, per_level, code);
    let factor = norm_sq / dot(&residual, &values);
    // A vector that equals its centroid has an empty residual: its distance is that of the
    // centroid.
    let factor = if factor.is_finite() { factor } else { 0.0 };
    EdgeFactors { add: norm_sq + 2.0 * factor * dot(&centroid[..dims], &values), factor }
}

/// Quantization levels per unit of the residual. The uniform quantizer with the least error for a
/// Gaussian (Max 1960) has steps of 0.996, 0.586 and 0.335 standard deviations for 2, 3 and 4 bits.
fn levels_per_unit(bits: usize, variance: f32) -> f32 {
    let step = match bits {
        2 => 0.9957,
        3 => 0.586,
        _ => 0.3352,
    };
    let inverse = 1.0 / (variance.sqrt() * step);
    if inverse.is_finite() { inverse } else { 1.0 }
}

/// The query's part of the estimates: its bit planes, and the two constants that turn popcounts
/// into inner products.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryPlanes {
    /// Planes of the low digit, then of the high digit if there are two.
    planes: Vec<u64>,
    /// The digits.
    low: kernels::Scan,
    high: Option<kernels::Scan>,
    shape: Option<EdgeShape>,
    /// `2 <q, x>` of a code with a count of zero.
    base: f32,
    /// Subtracted from `base` for each unit of the count.
    per_count: f32,
}

impl QueryPlanes {
    /// Quantizes the rotated query to one or two digits.
    pub(crate) fn prepare(&mut self, shape: EdgeShape, digits: usize, query: &[f32]) {
        let query = &query[..shape.dims];
        let plane_words = shape.plane_words();
        let planes = DIGIT_PLANES * digits;
        self.planes.clear();
        self.planes.resize(planes * plane_words, 0);
        self.shape = Some(shape);
        let largest = kernels::max_abs(query);
        // Odd numbers up to 2^planes - 1, in units of delta, cover -2^planes * delta to 2^planes *
        // delta.
        let levels = 1i32 << planes;
        let delta = largest / levels as f32;
        let inverse = if delta > 0.0 { 0.5 / delta } else { 0.0 };
        kernels::level_planes(query, inverse, &mut self.planes);
        let (low, high) = self.planes.split_at(DIGIT_PLANES * plane_words);
        self.low.prepare(low);
        self.high = (digits == 2).then(|| self.high.take().unwrap_or_default());
        self.high.iter_mut().for_each(|digit| digit.prepare(high));
        let weight = ((1usize << shape.bits) - 1) as f32;
        self.base = 2.0 * delta * (levels - 1) as f32 * shape.dims as f32 * weight;
        self.per_count = 4.0 * delta;
    }

    /// Weighted Hamming distances to the first `counts.len()` edges, in whole blocks. `codes` holds
    /// `slots` edges.
    #[inline]
    pub(crate) fn count(&self, codes: &[u8], slots: usize, counts: &mut [u32]) {
        let shape = self.shape.expect("prepared before it is used");
        let code_bytes = shape.plane_words() * 8;
        self.low.count(&codes[..counts.len() * code_bytes], counts);
        for bit in 0..shape.bits {
            let plane = &codes[bit * slots * code_bytes..][..counts.len() * code_bytes];
            if bit > 0 {
                add_scan(&self.low, plane, bit, counts);
            }
            if let Some(high) = &self.high {
                add_scan(high, plane, bit + DIGIT_PLANES, counts);
            }
        }
    }

    /// `base` and `per_count` in `2 <q, x> = base - per_count * count`.
    #[inline]
    pub(crate) fn constants(&self) -> (f32, f32) {
        (self.base, self.per_count)
    }
}

/// Adds the counts of one query digit against one bit plane of the codes, times `2^shift`.
fn add_scan(digit: &kernels::Scan, codes: &[u8], shift: usize, counts: &mut [u32]) {
    /// Edges that are counted together.
    const EDGES: usize = 64;
    let code_bytes = codes.len() / counts.len().max(1);
    for (counts, codes) in counts.chunks_mut(EDGES).zip(codes.chunks((EDGES * code_bytes).max(1))) {
        let mut more = [0u32; EDGES];
        digit.count(codes, &mut more[..counts.len()]);
        counts.iter_mut().zip(&more).for_each(|(count, more)| *count += more << shift);
    }
}

/// Writes `code` as edge `slot` of interleaved blocks for `degree` edges; `degree` is a multiple of
/// the block size.
///
/// Word `w` of bit plane `b` of edge `8 n + e` is the 64-bit little-endian integer at word
/// `((b * degree / 8 + n) * plane_words + w) * 8 + e`.
pub(crate) fn interleave(shape: EdgeShape, code: &[u64], slot: usize, degree: usize, codes: &mut [u8]) {
    let (words, _) = codes.as_chunks_mut::<8>();
    let (eights, _) = words.as_chunks_mut::<BLOCK_EDGES>();
    let width = shape.plane_words();
    for plane in 0..shape.bits {
        let first = (plane * (degree / BLOCK_EDGES) + slot / BLOCK_EDGES) * width;
        for (eight, word) in eights[first..][..width].iter_mut().zip(&code[plane * width..][..width]) {
            eight[slot % BLOCK_EDGES] = word.to_le_bytes();
        }
    }
}

/// Reads a code that [`interleave`] wrote.
pub(crate) fn deinterleave(shape: EdgeShape, codes: &[u8], slot: usize, degree: usize, code: &mut [u64]) {
    let (words, _) = codes.as_chunks::<8>();
    let (eights, _) = words.as_chunks::<BLOCK_EDGES>();
    let width = shape.plane_words();
    for plane in 0..shape.bits {
        let first = (plane * (degree / BLOCK_EDGES) + slot / BLOCK_EDGES) * width;
        for (eight, word) in eights[first..][..width].iter().zip(&mut code[plane * width..][..width]) {
            *word = u64::from_le_bytes(eight[slot % BLOCK_EDGES]);
        }
    }
}

/// Passes the words of the codes that [`interleave`] wrote, those of eight edges at a time, with
/// the first of these edges. For each edge they come in the order of its code.
pub(crate) fn each_word(
    shape: EdgeShape,
    codes: &[u8],
    degree: usize,
    mut each: impl FnMut(usize, [u64; BLOCK_EDGES]),
) {
    let (words, _) = codes.as_chunks::<8>();
    let (eights, _) = words.as_chunks::<BLOCK_EDGES>();
    let (blocks, width) = (degree / BLOCK_EDGES, shape.plane_words());
    for block in 0..blocks {
        for plane in 0..shape.bits {
            for eight in &eights[(plane * blocks + block) * width..][..width] {
                each(block * BLOCK_EDGES, eight.map(u64::from_le_bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn codes_are_read_as_they_were_written_by_edge_and_by_word() {
        let (shape, degree, mut random) = (EdgeShape { dims: 130, bits: 2 }, 24, Random::new(1, 0));
        let codes: Vec<Vec<u64>> =
            (0..degree).map(|_| (0..shape.words()).map(|_| random.below(1 << 20)).collect()).collect();
        let mut bytes = vec![0; degree * shape.code_bytes()];
        codes.iter().enumerate().for_each(|(edge, code)| interleave(shape, code, edge, degree, &mut bytes));
        let mut by_word = vec![Vec::new(); degree];
        each_word(shape, &bytes, degree, |first, words| {
            by_word[first..].iter_mut().zip(words).for_each(|(code, word)| code.push(word));
        });
        assert_eq!(by_word, codes);
        let mut code = vec![0; shape.words()];
        deinterleave(shape, &bytes, 17, degree, &mut code);
        assert_eq!(code, codes[17]);
    }
}
