//! Seeded random numbers: SplitMix64, which is short and gives the same numbers on every machine.

/// A pseudo-random sequence, determined by its seed.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A uniform 64-bit number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number in `0..bound`.
    ///
    /// # Panics
    ///
    /// If `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "no number is below 0");
        (self.next_u64() % bound as u64) as usize
    }

    /// True with probability `1 / n`; never if `n` is 0.
    pub fn one_in(&mut self, n: usize) -> bool {
        n > 0 && self.below(n) == 0
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_sequence() {
        let first: Vec<u64> = std::iter::repeat_with({
            let mut rng = Rng::new(1_234_567);
            move || rng.next_u64()
        })
        .take(3)
        .collect();
        // From the reference implementation of SplitMix64, with the seed 1234567.
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn one_in_zero_is_never_true() {
        let mut rng = Rng::new(1);
        assert!((0..1000).all(|_| !rng.one_in(0)));
        assert!((0..1000).all(|_| rng.one_in(1)));
    }
}
