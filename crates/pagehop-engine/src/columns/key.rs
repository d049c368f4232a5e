//! Keys of values: 64 bits with the order of the values.

use crate::Error;

const SIGN: u64 = 1 << 63;

pub(crate) fn int_key(value: i64) -> u64 {
    value as u64 ^ SIGN
}

/// Negative floats are ordered the other way round by their bits. -0.0 equals 0.0.
pub(crate) fn float_key(value: f64) -> Result<u64, Error> {
    if value.is_nan() {
        return Err(Error::argument("NaN is no value of a column: use a missing value"));
    }
    let bits = (value + 0.0).to_bits();
    Ok(if bits & SIGN == 0 { bits | SIGN } else { !bits })
}

/// SipHash-2-4 (Aumasson, Bernstein 2012) with the key 0: the same on every machine, and it mixes
/// similar texts well.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    fn round(v: &mut [u64; 4]) {
        v[0] = v[0].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[2] = v[2].rotate_left(32);
    }
    let mut v = [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
    let mut mix = |word: u64| {
        v[3] ^= word;
        (0..2).for_each(|_| round(&mut v));
        v[0] ^= word;
    };
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    mix(u64::from_le_bytes(last));
    v[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_order_of_values() {
        let floats = [f64::NEG_INFINITY, -1e300, -1.5, -0.0, 1e-300, 2.0, f64::INFINITY];
        let keys: Vec<u64> = floats.iter().map(|x| float_key(*x).expect("a number")).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:x?}");
        assert_eq!(float_key(-0.0).ok(), float_key(0.0).ok());
        assert!(float_key(f64::NAN).is_err());
        let ints = [i64::MIN, -5, -1, 0, 1, 7, i64::MAX];
        assert!(ints.map(int_key).is_sorted());
    }

    /// The vectors of the paper's reference program have another key; these are from an
    /// implementation of the standard library, with the key 0.
    #[test]
    fn the_hash_is_siphash() {
        #[allow(deprecated, reason = "the only other implementation at hand")]
        let reference = |bytes: &[u8]| {
            use std::hash::{Hasher, SipHasher};
            let mut hasher = SipHasher::new();
            hasher.write(bytes);
            hasher.finish()
        };
        for length in 0..40 {
            let bytes: Vec<u8> = (0..length).collect();
            assert_eq!(hash(&bytes), reference(&bytes), "{length} bytes");
        }
    }
}
