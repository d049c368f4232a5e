//! The proof of a password to `mysql_native_password`: a hash of a hash and the server's salt, by SHA-1.
//!
//! The method is weak and is what the protocol has; the password is one for tests.
#![expect(clippy::big_endian_bytes, reason = "SHA-1 is big-endian")]

/// The one plugin that is known.
pub(super) const PLUGIN: &str = "mysql_native_password";

/// What proves `password` to a server that sent `salt`; nothing for an empty one.
pub(super) fn proof(password: &str, salt: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = sha1(password.as_bytes());
    let mask = sha1(&[salt, &sha1(&once)].concat());
    once.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect()
}

/// FIPS 180-4, section 6.1.
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - message.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&(8 * message.len() as u64).to_be_bytes());
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded.as_chunks::<64>().0 {
        digest(&mut state, block);
    }
    let mut hash = [0; 20];
    for (bytes, word) in hash.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    hash
}

fn digest(state: &mut [u32; 5], block: &[u8; 64]) {
    let mut words = [0_u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for t in 16..80 {
        words[t] = (words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (t, word) in words.into_iter().enumerate() {
        let (f, k) = match t {
            0..20 => (b & c | !b & d, 0x5a82_7999),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => (b & c | b & d | c & d, 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let next = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(word);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
    }
    for (sum, more) in state.iter_mut().zip([a, b, c, d, e]) {
        *sum = sum.wrapping_add(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert_eq!(hex(&sha1(b"")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(hex(&sha1(b"abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(&sha1(two_blocks)), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        // 55 bytes fill a block with their padding, 56 do not, 64 are one themselves.
        assert_eq!(hex(&sha1(&[b'a'; 55])), "c1c8bbdc22796e28c0e15163d20899b65621d65a");
        assert_eq!(hex(&sha1(&[b'a'; 64])), "0098ba824b5c16427bd7a1122a5a442a25ec644d");
    }

    #[test]
    fn a_proof_is_checked_as_the_server_does() {
        let salt = [7; 20];
        let proof = proof("secret", &salt);
        // The server knows the hash of the hash. It takes the mask off, and hashes what it finds.
        let known = sha1(&sha1(b"secret"));
        let mask = sha1(&[&salt[..], &known].concat());
        let once: Vec<u8> = proof.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect();
        assert_eq!(sha1(&once), known);
        assert!(super::proof("", &salt).is_empty());
    }
}
