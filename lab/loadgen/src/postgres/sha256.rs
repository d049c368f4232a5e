//! SHA-256 (FIPS 180-4, section 6.2), and what is made of it: HMAC (RFC 2104) and a key from a password (RFC 8018, PBKDF2).
#![expect(clippy::big_endian_bytes, reason = "SHA-256 is big-endian")]

/// Bytes of a hash.
pub(super) type Hash = [u8; 32];

const BLOCK: usize = 64;
/// Fractions of the square roots of the first 8 primes.
const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];
/// Fractions of the cube roots of the first 64 primes.
#[rustfmt::skip]
const ROUNDS: [u32; 64] = [0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5, 0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174, 0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da, 0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967, 0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85, 0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070, 0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3, 0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2];

/// The hash of a message.
pub(super) fn sha256(message: &[u8]) -> Hash {
    let mut padded = message.to_vec();
    padded.push(0x80);
    while padded.len() % BLOCK != BLOCK - 8 {
        padded.push(0);
    }
    padded.extend((8 * message.len() as u64).to_be_bytes());
    let mut state = START;
    for block in padded.as_chunks::<BLOCK>().0 {
        digest(&mut state, block);
    }
    let mut hash = [0; 32];
    for (bytes, word) in hash.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    hash
}

fn digest(state: &mut [u32; 8], block: &[u8; BLOCK]) {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for t in 16..64 {
        let (early, late) = (words[t - 15], words[t - 2]);
        let small = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
        let large = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
        words[t] = words[t - 16].wrapping_add(small).wrapping_add(words[t - 7]).wrapping_add(large);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, round) in words.into_iter().zip(ROUNDS) {
        let choice = e & f ^ !e & g;
        let large = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let first = h.wrapping_add(large).wrapping_add(choice).wrapping_add(round).wrapping_add(word);
        let majority = a & b ^ a & c ^ b & c;
        let small = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let next = first.wrapping_add(small).wrapping_add(majority);
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, next);
    }
    for (sum, more) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *sum = sum.wrapping_add(more);
    }
}

/// A message's proof that its sender knows `key`.
pub(super) fn hmac(key: &[u8], message: &[u8]) -> Hash {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&sha256(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = sha256(&[&block.map(|byte| byte ^ 0x36)[..], message].concat());
    sha256(&[&block.map(|byte| byte ^ 0x5c)[..], &inner].concat())
}

/// A key from a password, made so that guessing costs `rounds` times as much.
pub(super) fn key_of(password: &str, salt: &[u8], rounds: u32) -> Hash {
    let mut last = hmac(password.as_bytes(), &[salt, &[0, 0, 0, 1]].concat());
    let mut key = last;
    for _ in 1..rounds {
        last = hmac(password.as_bytes(), &last);
        key = xor(key, last);
    }
    key
}

/// Bit by bit, what differs.
pub(super) fn xor(mut one: Hash, other: Hash) -> Hash {
    for (byte, more) in one.iter_mut().zip(other) {
        *byte ^= more;
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn hashes_are_those_of_the_standard() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex(&sha256(b"")), empty);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&sha256(b"abc")), abc);
        let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        let hash = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
        assert_eq!(hex(&sha256(two_blocks)), hash);
    }

    #[test]
    fn proofs_are_those_of_rfc_4231() {
        let proof = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&hmac(b"Jefe", b"what do ya want for nothing?")), proof);
        let proof = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        let message = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(hex(&hmac(&[0xaa; 131], message)), proof);
    }

    #[test]
    fn a_key_takes_its_rounds() {
        let key = "120fb6cffcf8b32c43e7225256c4f837a86548c92ccc35480805987cb70be17b";
        assert_eq!(hex(&key_of("password", b"salt", 1)), key);
        let key = "c5e478d59288c841aa530db6845c4c8d962893a001ce4e11a4963873aa98134a";
        assert_eq!(hex(&key_of("password", b"salt", 4096)), key);
    }
}
