//! CRC-32C with lookup tables, eight bytes per step ("slicing by 8", Kounavis and Berry 2005).

/// The reversed Castagnoli polynomial.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[k][b]` is the checksum state after byte `b` and then `k` zero bytes.
static TABLES: [[u32; 256]; 8] = tables();

pub(crate) fn crc32c(bytes: &[u8], seed: u32) -> u32 {
    let mut state = !seed;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = u64::from_le_bytes(*word) ^ u64::from(state);
        state = 0;
        for (byte, table) in mixed.to_le_bytes().iter().zip(TABLES.iter().rev()) {
            state ^= table[usize::from(*byte)];
        }
    }
    for byte in rest {
        state = TABLES[0][usize::from(state as u8 ^ byte)] ^ (state >> 8);
    }
    !state
}

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut state = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            state = times_x(state);
            bit += 1;
        }
        tables[0][byte] = state;
        byte += 1;
    }
    let mut behind = 1;
    while behind < 8 {
        let mut byte = 0;
        while byte < 256 {
            let state: u32 = tables[behind - 1][byte];
            tables[behind][byte] = tables[0][(state & 255) as usize] ^ (state >> 8);
            byte += 1;
        }
        behind += 1;
    }
    tables
}

/// `state` times x, modulo the polynomial: the effect of one zero bit on the state.
pub(super) const fn times_x(state: u32) -> u32 {
    (state >> 1) ^ if state & 1 == 1 { POLYNOMIAL } else { 0 }
}
