//! The last steps of edge scoring in plain Rust. Always inlined, so that the compiler vectorizes
//! them for the instruction set of their caller.

use super::EdgeTerms;

#[inline(always)]
pub(crate) fn estimate(terms: EdgeTerms<'_>, out: &mut [f32]) {
    let [base, per_count] = terms.query;
    let add_mask = if terms.has_add { u32::MAX } else { 0 };
    for (((out, count), centroid_sq), head) in
        out.iter_mut().zip(terms.counts).zip(terms.centroid_sq).zip(terms.heads)
    {
        let (words, _) = head.as_chunks();
        let [add, factor] = [words[1], words[2]].map(u32::from_le_bytes);
        // A count is below 2^31, and the conversion of a signed integer is one instruction.
        let twice_dot = base - per_count * *count as i32 as f32;
        *out = centroid_sq + f32::from_bits(add & add_mask) - f32::from_bits(factor) * twice_dot;
    }
}

#[inline(always)]
pub(crate) fn at_most(values: &[f32], reach: f32, bound: f32) -> u64 {
    let bit = |(at, value): (usize, &f32)| u64::from((*value <= reach) & (*value < bound)) << at;
    values.iter().enumerate().map(bit).fold(0, |mask, bit| mask | bit)
}
