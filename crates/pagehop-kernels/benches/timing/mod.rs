//! Nanoseconds per call on a machine that also does other work. Many short batches are timed: the
//! fastest shows what the code can do, and the median what the machine allowed.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Nanoseconds per call.
#[derive(Clone, Copy)]
pub(crate) struct Nanos {
    /// In the fastest batch.
    pub(crate) min: f64,
    /// In the median batch.
    pub(crate) median: f64,
}

const BATCHES: usize = 41;
const BATCH: Duration = Duration::from_micros(300);

/// Times `call`. Its answer goes through `black_box`, so the call is not optimized away.
pub(crate) fn measure<T>(mut call: impl FnMut() -> T) -> Nanos {
    let mut calls = 1;
    // Doubles the number of calls until a batch is long enough. This also warms caches and branch
    // predictors.
    while batch(&mut call, calls) < BATCH.as_nanos() as f64 {
        calls *= 2;
    }
    let mut nanos: Vec<f64> = (0..BATCHES).map(|_| batch(&mut call, calls) / calls as f64).collect();
    nanos.sort_by(f64::total_cmp);
    Nanos { min: nanos[0], median: nanos[BATCHES / 2] }
}

fn batch<T>(call: &mut impl FnMut() -> T, calls: usize) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    start.elapsed().as_nanos() as f64
}

/// The SplitMix64 generator: every run has the same inputs.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// `count` random bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(count).collect()
    }
}
