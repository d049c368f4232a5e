//! Seeded inputs, and the lengths and instruction sets with which every kernel is tested.

use pagehop_kernels::{Isa, Kernels};

/// Lengths that use every unrolled loop and its remainder, and then common dimensions.
pub(crate) fn lengths() -> impl Iterator<Item = usize> {
    (0..=130).chain([255, 256, 257, 784, 1536, 4096])
}

/// Start offsets in memory, in elements, so that no kernel can depend on alignment.
pub(crate) const OFFSETS: std::ops::Range<usize> = 0..8;

/// Runs `check` with the kernels of every instruction set of this CPU.
pub(crate) fn on_every_isa(check: impl Fn(Kernels)) {
    for isa in Isa::available() {
        check(Kernels::on(isa).expect("an available instruction set has kernels"));
    }
}

/// The SplitMix64 generator.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A float in -1.0..1.0.
    pub(crate) fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(crate) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float()).collect()
    }

    /// Half-precision bits of finite numbers with a magnitude below 1.
    pub(crate) fn halves(&mut self, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.next() as u16 & 0xbbff).collect()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    pub(crate) fn signed_bytes(&mut self, count: usize) -> Vec<i8> {
        (0..count).map(|_| self.next() as i8).collect()
    }

    pub(crate) fn words(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.next()).collect()
    }
}
