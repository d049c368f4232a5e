//! The host header: the first 24 bytes of every page of a file, little endian.
//!
//! | bytes | type | meaning |
//! |---|---|---|
//! | 0..4 | u32 | CRC-32C (Castagnoli, initial value and final xor `0xffff_ffff`) of bytes 4..8192 |
//! | 4..8 | u32 | id of the page, so that a page written to the wrong place is noticed |
//! | 8..14 | u48 | log position of the last change; 0 for a page of a bulk build |
//! | 14..16 | u16 | of page 0: tag of the log that holds newer commits, 0 for none; else zero |
//! | 16..18 | u16 | version of this header, 2 |
//! | 18..24 | | of page 0: which index this is, at random; else zero |
//!
//! Page `n` lies at byte `n * 8192` of the file. The body behind the header is the engine's.

use std::hash::{BuildHasher, RandomState};

use pagehop_engine::{HOST_HEADER_BYTES, MAGIC, PAGE_BYTES, PageId};

use pagehop_kernels::crc32c;

/// Version of the host header that this build writes, and the only one it reads.
pub(crate) const HEADER_VERSION: u16 = 2;

/// Log positions are below this.
pub(crate) const POSITION_END: u64 = 1 << 48;

/// Bytes that a disk writes whole or not at all; the header lies in the first of a page.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Distinguishes the blocks of a log since a checkpoint from older blocks and other logs; 0 stands
/// for no log.
pub(crate) type LogTag = u16;

/// A random number that identifies an index; never all 0.
pub(crate) type Identity = [u8; 6];

const CHECKSUM_BYTES: usize = 4;
const _: () = assert!(HOST_HEADER_BYTES == 24 && PAGE_BYTES == 8192);

/// Fills in the header of `page`, whose body is complete; the checksum is left for [`seal`].
pub(crate) fn stamp(page: PageId, log_position: u64, identity: Identity, bytes: &mut [u8; PAGE_BYTES]) {
    bytes[4..8].copy_from_slice(&page.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&log_position.to_le_bytes());
    bytes[16..18].copy_from_slice(&HEADER_VERSION.to_le_bytes());
    bytes[18..24].copy_from_slice(if page.0 == 0 { &identity } else { &[0; 6] });
}

/// Fills in the header of `page` and its checksum: the page can then be written to a file.
pub(crate) fn seal(page: PageId, log_position: u64, identity: Identity, bytes: &mut [u8; PAGE_BYTES]) {
    stamp(page, log_position, identity, bytes);
    seal_again(bytes);
}

/// Computes the checksum again after a change of the header.
fn seal_again(bytes: &mut [u8; PAGE_BYTES]) {
    let checksum = crc32c(&bytes[CHECKSUM_BYTES..], 0);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
}

/// The log position in a page's header.
#[inline]
pub(crate) fn log_position(bytes: &[u8; PAGE_BYTES]) -> u64 {
    u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes were taken")) % POSITION_END
}

/// The tag of the log that holds commits which the file of `page_0` does not have; 0 for none.
pub(crate) fn log_tag(page_0: &[u8; PAGE_BYTES]) -> LogTag {
    u16::from_le_bytes([page_0[14], page_0[15]])
}

/// Writes a log's tag to page 0, which was read from a file. Only its first sector changes.
pub(crate) fn set_log_tag(page_0: &mut [u8; PAGE_BYTES], tag: LogTag) {
    page_0[14..16].copy_from_slice(&tag.to_le_bytes());
    seal_again(page_0);
}

/// A random tag for a log that begins: not 0, and not `before`.
pub(crate) fn new_log_tag(before: LogTag) -> LogTag {
    loop {
        let [a, b, ..] = random_bytes();
        let tag = u16::from_le_bytes([a, b]);
        if tag != 0 && tag != before {
            return tag;
        }
    }
}

/// A random identity for a new index; never all 0.
pub(crate) fn new_identity() -> Identity {
    let [a, b, c, d, e, f, ..] = random_bytes();
    [a, b, c, d, e, f | 1]
}

fn random_bytes() -> [u8; 8] {
    // The standard library has no random numbers except the keys of hash tables.
    RandomState::new().hash_one(std::time::SystemTime::now()).to_le_bytes()
}

/// The identity in the header of page 0.
pub(crate) fn identity(page_0: &[u8; PAGE_BYTES]) -> Identity {
    page_0[18..24].try_into().expect("six bytes were taken")
}

/// A defect of a page that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes are not those that were written.
    Checksum { stored: u32, computed: u32 },
    /// The bytes are whole, but belong to another page.
    Misdirected { found: u32 },
    /// The bytes are whole, but of a version that this build does not know.
    Version { found: u16 },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Checksum { stored, computed } => {
                write!(f, "stored checksum {stored:#010x}, computed {computed:#010x}")
            }
            Self::Misdirected { found } => write!(f, "found page {found} in its place"),
            Self::Version { found } => {
                write!(f, "expected page header version {HEADER_VERSION}, found {found}")
            }
        }
    }
}

/// Proves that `bytes` are those that were written as `page`.
pub(crate) fn verify(page: PageId, bytes: &[u8; PAGE_BYTES]) -> Result<(), Fault> {
    let stored = u32_at(bytes, 0);
    let computed = crc32c(&bytes[CHECKSUM_BYTES..], 0);
    if stored != computed {
        return Err(Fault::Checksum { stored, computed });
    }
    let found = u16::from_le_bytes([bytes[16], bytes[17]]);
    if found != HEADER_VERSION {
        return Err(Fault::Version { found });
    }
    let found = u32_at(bytes, 4);
    if found != page.0 {
        return Err(Fault::Misdirected { found });
    }
    Ok(())
}

/// Whether page 0 seems to be that of an index. A byte or two may differ: that is damage, not
/// another format.
pub(crate) fn claims_to_be_an_index(page_0: &[u8]) -> bool {
    let body = page_0.get(HOST_HEADER_BYTES..).unwrap_or_default();
    body.len() >= MAGIC.len() && MAGIC.iter().zip(body).filter(|(a, b)| a == b).count() >= 6
}

/// The little-endian number in bytes `at..at + 4`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes were taken"))
}

/// The little-endian number in bytes `at..at + 8`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes were taken"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32c() {
        assert_eq!(crc32c(b"123456789", 0), 0xe306_9283);
    }

    #[test]
    fn the_bytes_are_where_the_format_says() {
        let mut bytes = [7; PAGE_BYTES];
        seal(PageId(0x0403_0201), 0x1615_1413_1211, [9; 6], &mut bytes);
        assert_eq!(bytes[4..8], [1, 2, 3, 4]);
        assert_eq!(bytes[8..16], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0, 0]);
        assert_eq!(bytes[16..18], [2, 0]);
        assert_eq!(bytes[18..24], [0; 6]);
        assert_eq!(bytes[..4], crc32c(&bytes[4..], 0).to_le_bytes());
        assert_eq!(verify(PageId(0x0403_0201), &bytes), Ok(()));
        seal(PageId(0), 7, [1, 2, 3, 4, 5, 6], &mut bytes);
        assert_eq!((log_position(&bytes), identity(&bytes)), (7, [1, 2, 3, 4, 5, 6]));
        let before = bytes;
        set_log_tag(&mut bytes, 0x0201);
        assert_eq!((verify(PageId(0), &bytes), bytes[14..16].to_vec()), (Ok(()), vec![1, 2]));
        assert_eq!((log_position(&bytes), log_tag(&bytes), log_tag(&before)), (7, 0x0201, 0));
        assert_eq!(bytes[SECTOR_BYTES..], before[SECTOR_BYTES..]);
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let mut bytes = [0; PAGE_BYTES];
        seal(PageId(5), 0, [0; 6], &mut bytes);
        for at in 0..PAGE_BYTES {
            bytes[at] ^= 1 << (at % 8);
            assert!(matches!(verify(PageId(5), &bytes), Err(Fault::Checksum { .. })), "byte {at}");
            bytes[at] ^= 1 << (at % 8);
        }
    }

    #[test]
    fn whole_pages_of_elsewhere_are_noticed() {
        let mut bytes = [0; PAGE_BYTES];
        seal(PageId(5), 0, [0; 6], &mut bytes);
        assert_eq!(verify(PageId(6), &bytes), Err(Fault::Misdirected { found: 5 }));
        bytes[16] = 3;
        let checksum = crc32c(&bytes[4..], 0);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(verify(PageId(5), &bytes), Err(Fault::Version { found: 3 }));
    }

    #[test]
    fn another_format_is_told_from_a_damaged_index() {
        let mut bytes = [0; PAGE_BYTES];
        assert!(!claims_to_be_an_index(&bytes));
        assert!(!claims_to_be_an_index(b"short"));
        bytes[24..32].copy_from_slice(MAGIC);
        assert!(claims_to_be_an_index(&bytes));
        bytes[25] ^= 0x10;
        assert!(claims_to_be_an_index(&bytes));
    }
}
