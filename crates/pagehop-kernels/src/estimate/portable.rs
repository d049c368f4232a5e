//! The last steps of edge scoring in plain Rust. Always inlined, so that the compiler vectorizes
//! them for the instruction set of their caller.

use super::EdgeTerms;

#[inline(always)]
pub(crate) fn estimate(terms: EdgeTerms<'_>, out: &mut [f32]) {
    let [base, per_count] = terms.query;
    let factors = terms.add.iter().zip(terms.factor);
    for (((out, count), centroid_sq), (add, factor)) in
        out.iter_mut().zip(terms.counts).zip(terms.centroid_sq).zip(factors)
    {
        // A count is below 2^31; conversion from a signed integer is one instruction.
        let twice_dot = base - per_count * *count as i32 as f32;
        *out = centroid_sq + f32::from_le_bytes(*add) - f32::from_le_bytes(*factor) * twice_dot;
    }
}

#[inline(always)]
pub(crate) fn at_most(values: &[f32], reach: f32, bound: f32) -> u64 {
    let bit = |(at, value): (usize, &f32)| u64::from((*value <= reach) & (*value < bound)) << at;
    values.iter().enumerate().map(bit).fold(0, |mask, bit| mask | bit)
}
