//! Stretches of the input whose checksums are computed side by side, because the instruction has a
//! latency of three cycles. The checksum is linear, so a table advances the state of one stretch
//! over the length of the next (Gopal and others, "Fast CRC Computation for iSCSI", Intel 2011).

use super::portable::times_x;

/// Bytes in one stretch. Five rounds of three stretches cover an 8 KiB page except its last 512
/// bytes.
pub(super) const STRETCH_BYTES: usize = 512;

/// `OVER_STRETCH[k][b]` is the state that follows from the state `b << 8 * k` after one stretch of
/// zero bytes.
static OVER_STRETCH: [[u32; 256]; 4] = over_stretch();

/// The state after one stretch of zero bytes.
pub(super) fn move_over_stretch(state: u32) -> u32 {
    let [b0, b1, b2, b3] = state.to_le_bytes().map(usize::from);
    OVER_STRETCH[0][b0] ^ OVER_STRETCH[1][b1] ^ OVER_STRETCH[2][b2] ^ OVER_STRETCH[3][b3]
}

const fn over_stretch() -> [[u32; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut bit = 0;
    while bit < 32 {
        let mut state = 1 << bit;
        let mut step = 0;
        while step < 8 * STRETCH_BYTES {
            state = times_x(state);
            step += 1;
        }
        // An entry is the XOR of the results of its bits.
        let mut byte = 0;
        while byte < 256 {
            if byte >> (bit % 8) & 1 == 1 {
                tables[bit / 8][byte] ^= state;
            }
            byte += 1;
        }
        bit += 1;
    }
    tables
}
