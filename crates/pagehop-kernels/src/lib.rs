//! SIMD kernels: distances, inner products, edge scores, conversions and checksums. This is the
//! only room with SIMD.
//!
//! Each folder holds one family of operations. Its `mod.rs` has the safe public functions.
//! `portable.rs` is plain Rust that runs on every CPU and defines the correct answer. `avx2.rs` and
//! `avx512.rs` compute the same answer with 256-bit and 512-bit registers. `neon.rs` is the same
//! for ARM, and `avx512bw.rs` for CPUs with the first AVX-512, if they gain by it.
//! [`dispatch`](Kernels) chooses one when the first kernel is called.
//!
//! Integer kernels return the same bits on every instruction set. A floating-point sum depends on
//! the order of its additions, so two instruction sets agree within `n * EPSILON` times the sum of
//! the magnitudes of the `n` terms. On every instruction set a NaN or an infinity in the input of a
//! sum reaches its answer, and denormals are not flushed to zero.

mod block;
mod codes;
mod crc;
mod dispatch;
mod dot;
mod estimate;
mod half;
mod l2;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod lanes;
mod planes;
mod prefetch;
mod rotate;
mod scan;

pub use block::dot_i8_block;
pub use codes::{I12_MAX, I12_MIN, ROUNDED_DIM_MAX, ROUNDED_MAX, Rounded, pack_i12, unpack_i12};
pub use crc::crc32c;
pub use dispatch::{Isa, Kernels, is_before_x86_64_v2};
pub use dot::{dot_f16, dot_f32, dot_i8, dot_u8, sum_i8};
pub use estimate::{AT_MOST_VALUES, EdgeTerms, HEAD_BYTES, at_most, estimate};
pub use half::{f16_to_f32, f32_to_f16};
pub use l2::{l2sq_f16, l2sq_f32, l2sq_u8};
pub use planes::{LEVEL_BITS_MAX, level_planes, max_abs};
pub use prefetch::{prefetch, prefetch_at};
pub use rotate::{HADAMARD_MAX, hadamard, mix_halves, multiply, scale};
pub use scan::{SCAN_EDGES, SCAN_PLANES, Scan};
