//! Numbers in, numbers out: the only room with SIMD.
