//! Keys of values: 64 bits with the order of the values.

use siphasher::sip::SipHasher24;

use crate::Error;

const SIGN: u64 = 1 << 63;

pub(crate) fn int_key(value: i64) -> u64 {
    value as u64 ^ SIGN
}

/// Negative floats are ordered the other way round by their bits. -0.0 equals 0.0.
pub(crate) fn float_key(value: f64) -> Result<u64, Error> {
    if value.is_nan() {
        return Err(Error::argument("NaN is not a value of a column: use a missing value"));
    }
    let bits = (value + 0.0).to_bits();
    Ok(if bits & SIGN == 0 { bits | SIGN } else { !bits })
}

/// SipHash-2-4 (Aumasson, Bernstein 2012) with the key 0: the same on every machine, and it mixes
/// similar texts well.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    SipHasher24::new().hash(bytes)
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

    /// The vectors of the paper's reference program use another key. These are from an
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
