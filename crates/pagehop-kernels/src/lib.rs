//! Numbers in, numbers out: the only room with SIMD.
//!
//! One folder per family of operations. Its `mod.rs` holds the safe public functions, `portable.rs` the
//! plain Rust that runs everywhere and defines the answer, `avx2.rs` and `avx512.rs` the same answer with
//! wider registers. [`dispatch`](Kernels) picks one of the three when the first kernel is called.
//!
//! Integer kernels give the same bits on every instruction set. Floating-point sums differ in the order
//! of additions, so two instruction sets agree only within `n * EPSILON` times the sum of magnitudes; a
//! NaN or an infinity among the inputs reaches the answer on all of them, and denormals are not flushed.

mod block;
mod codes;
mod crc;
mod dispatch;
mod dot;
mod half;
mod l2;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod planes;
mod prefetch;
mod rotate;
mod scan;

pub use block::dot_i8_block;
pub use codes::{I12_MAX, I12_MIN, dot_f32_i8, dot_f32_i12, pack_i12, unpack_i12};
pub use crc::crc32c;
pub use dispatch::{Isa, Kernels};
pub use dot::{dot_f16, dot_f32, dot_i8, dot_u8, sum_i8};
pub use half::{f16_to_f32, f32_to_f16};
pub use l2::{l2sq_f16, l2sq_f32, l2sq_u8};
pub use planes::{LEVEL_BITS_MAX, level_planes, max_abs};
pub use prefetch::{prefetch, prefetch_at};
pub use rotate::{HADAMARD_MAX, hadamard};
pub use scan::{SCAN_EDGES, SCAN_PLANES, scan_bits};
