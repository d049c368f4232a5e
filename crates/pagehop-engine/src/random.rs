//! The only source of randomness: SplitMix64 (Steele, Lea, Flood 2014). With it, the seed in the
//! meta page gives the same rotation on every machine and in every version.

/// A stream of pseudo-random numbers that depends only on the seed and the purpose.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// A stream for `purpose`, independent of the streams of other purposes under the same seed.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let mut random = Self { state: seed ^ purpose.wrapping_mul(0xD6E8_FEB8_6659_FD93) };
        random.next();
        random
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; `bound` must not be 0. It has a bias of at most `bound / 2^64`,
    /// which does not matter for sampling.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
