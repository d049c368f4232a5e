//! CRC-32C: known values, and input in two pieces compared with input in one piece.

use crate::inputs::{Random, lengths, on_every_isa};
use crate::naive;

#[test]
fn known_checksums_come_out() {
    on_every_isa(|kernels| {
        assert_eq!(kernels.crc32c(b"", 0), 0);
        assert_eq!(kernels.crc32c(b"123456789", 0), 0xe306_9283);
        // RFC 3720, appendix B.4.
        assert_eq!(kernels.crc32c(&[0; 32], 0), 0x8a91_36aa);
        assert_eq!(kernels.crc32c(&[0xff; 32], 0), 0x62a8_ab43);
    });
}

#[test]
fn every_length_and_every_split_agree_with_the_definition() {
    on_every_isa(|kernels| {
        let mut random = Random::new(10);
        for length in lengths().chain([511, 512, 1535, 1537, 3071, 3073, 8192]) {
            let bytes = random.bytes(length + 1);
            let bytes = &bytes[1..];
            let whole = naive::crc32c(bytes);
            assert_eq!(kernels.crc32c(bytes, 0), whole, "{:?}, {length} bytes", kernels.isa());
            let (front, back) = bytes.split_at(random.next() as usize % (length + 1));
            assert_eq!(
                kernels.crc32c(back, kernels.crc32c(front, 0)),
                whole,
                "{:?}, {length} bytes",
                kernels.isa()
            );
        }
    });
}
