//! Damaged and wrong files give a clear error that names the page. Afterwards everything works as
//! usual.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use crate::support::{Scratch, expect_body, flip, misdirect, open, ways, write_pages};
use pagehop_engine::{BODY_BYTES, Error, PAGE_BYTES, PageId, Pages, Reader};
use pagehop_store::{IndexFile, OpenOptions};

const COUNT: u32 = 100;

/// The errors of `page`, when it is read at once and after look-ahead. All other pages must stay
/// readable.
#[track_caller]
fn errors_of(path: &Path, page: u32) -> Vec<String> {
    let mut errors = Vec::new();
    for options in ways(64 * 8192) {
        for ahead in [false, true] {
            let pages = open(path, &options);
            let mut reader = pages.reader();
            for attempt in 0..3 {
                if ahead {
                    reader.start(PageId(page), 0..BODY_BYTES);
                    reader.start(PageId(3), 0..BODY_BYTES);
                    expect_body(3, reader.finish(PageId(3)).unwrap());
                }
                let error = reader.finish(PageId(page)).unwrap_err();
                assert!(matches!(error, Error::Corrupt { page: PageId(p), .. } if p == page));
                assert!(error.to_string().contains("damaged"), "the error does not name the file: {error}");
                errors.push(error.to_string());
                if attempt == 1 {
                    reader.release();
                }
            }
            drop(reader);
            let mut reader = pages.reader();
            for other in (0..COUNT).filter(|&other| other != page && other < pages.page_count()) {
                expect_body(other, reader.finish(PageId(other)).unwrap());
                reader.release();
            }
        }
    }
    errors
}

#[track_caller]
fn open_error(path: &Path) -> Error {
    let errors = ways(1 << 20).map(|options| IndexFile::open(path, &options).err().expect("an error"));
    let [first, .., last] = errors;
    assert_eq!(first.to_string(), last.to_string());
    first
}

#[test]
fn a_flipped_byte_is_corrupt_wherever_it_is() {
    let scratch = Scratch::new("flipped");
    let path = scratch.path("damaged");
    write_pages(&path, COUNT);
    for byte in [0, 3, 4, 7, 8, 15, 16, 17, 18, 23, 24, 4095, 4096, 8191] {
        flip(&path, 42, byte);
        assert!(errors_of(&path, 42).iter().all(|error| error.contains("checksum")));
        flip(&path, 42, byte);
    }
    expect_body(42, open(&path, &OpenOptions::default()).reader().finish(PageId(42)).unwrap());
}

#[test]
fn a_flipped_byte_of_page_0_is_corrupt_at_open() {
    let scratch = Scratch::new("flipped-0");
    let path = scratch.path("damaged");
    write_pages(&path, 2);
    // One checksum covers the page.
    for byte in (0..256).chain((256..PAGE_BYTES).step_by(7)) {
        flip(&path, 0, byte);
        let error = IndexFile::open(&path, &OpenOptions::default()).err().expect("an error");
        assert!(matches!(error, Error::Corrupt { page: PageId(0), .. }), "byte {byte}: {error}");
        flip(&path, 0, byte);
    }
}

#[test]
fn a_page_in_the_place_of_another_is_corrupt() {
    let scratch = Scratch::new("misdirected");
    let path = scratch.path("damaged");
    write_pages(&path, COUNT);
    misdirect(&path, 41, 42);
    assert!(errors_of(&path, 42).iter().all(|error| error.contains("found page 41")));
}

#[test]
fn a_page_of_zeros_is_corrupt() {
    let scratch = Scratch::new("zeros");
    let path = scratch.path("damaged");
    write_pages(&path, COUNT);
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0; PAGE_BYTES], 42 * PAGE_BYTES as u64).unwrap();
    assert!(errors_of(&path, 42).iter().all(|error| error.contains("stored checksum 0x00000000")));
}

#[test]
fn a_file_cut_short_is_told_at_open_or_when_it_is_read() {
    let scratch = Scratch::new("cut");
    let path = scratch.path("damaged");
    for length in [8191_u64, 8193, 50 * 8192 - 1, 50 * 8192 + 4096] {
        write_pages(&path, COUNT);
        File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        let error = open_error(&path);
        assert!(matches!(error, Error::Corrupt { page: PageId(page), .. } if u64::from(page) == length / 8192));
        assert!(error.to_string().contains("truncated"), "{error}");
    }

    for left in [0, 1, 511, 512, 4096, 8191] {
        for options in ways(1 << 20) {
            for ahead in [false, true] {
                write_pages(&path, COUNT);
                let pages = open(&path, &options);
                let length = 42 * PAGE_BYTES as u64 + left;
                File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
                let reader = pages.reader();
                if ahead {
                    reader.start(PageId(42), 0..64);
                    reader.start(PageId(80), 0..64);
                }
                for page in [42, 80] {
                    let error = reader.finish(PageId(page)).unwrap_err();
                    assert!(matches!(error, Error::Corrupt { page: PageId(p), .. } if p == page), "{error}");
                    assert!(error.to_string().contains("truncated"), "{left}: {error}");
                }
                expect_body(41, reader.finish(PageId(41)).unwrap());
            }
        }
    }
}

#[test]
fn what_is_not_an_index_is_said_to_be_none() {
    let scratch = Scratch::new("formats");
    let path = scratch.path("other");
    let text = b"id,name\n1,one\n".repeat(3000);
    for bytes in [&text[..0], &text[..1], &text[..31], &text[..100], &text[..8192], &text[..], &[0; 16384]] {
        fs::write(&path, bytes).unwrap();
        let error = open_error(&path);
        assert!(matches!(error, Error::Format { .. }), "{error}");
        assert!(error.to_string().contains("is not a Pagehop index"), "{error}");
        assert!(error.to_string().contains("other"), "{error}");
    }
    let error = open_error(&scratch.path("."));
    assert!(matches!(error, Error::Format { .. }) && error.to_string().contains("not a file"), "{error}");
    let error = open_error(Path::new("/dev/zero"));
    assert!(error.to_string().contains("not a file"), "{error}");
}

#[test]
fn a_newer_page_header_is_named() {
    let scratch = Scratch::new("newer");
    let path = scratch.path("newer");
    write_pages(&path, 2);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut bytes = [0; PAGE_BYTES];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes[16] = 3;
    let checksum = slow_crc32c(&bytes[4..]).to_le_bytes();
    bytes[..4].copy_from_slice(&checksum);
    file.write_all_at(&bytes, 0).unwrap();
    let error = open_error(&path);
    assert!(matches!(error, Error::Format { .. }), "{error}");
    assert!(error.to_string().contains("version 3"), "{error}");
}

/// CRC-32C, one bit at a time, from its definition.
fn slow_crc32c(bytes: &[u8]) -> u32 {
    let crc = bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 })
    });
    !crc
}

#[test]
fn what_cannot_be_opened_says_why() {
    let scratch = Scratch::new("refused");
    let error = open_error(&scratch.path("missing"));
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(error.to_string().contains("missing: No such file"), "{error}");

    let path = scratch.path("secret");
    write_pages(&path, 2);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    // Root may read the file nevertheless.
    if File::open(&path).is_err() {
        let error = open_error(&path);
        assert!(error.to_string().contains("secret: Permission denied"), "{error}");
    }
}

#[test]
fn an_index_replaced_while_open_stays_what_it_was() {
    let scratch = Scratch::new("replaced");
    let path = scratch.path("pages");
    write_pages(&path, COUNT);
    let pages = open(&path, &OpenOptions { cache_bytes: 0, ..OpenOptions::default() });
    write_pages(&path, 3);
    let mut reader = pages.reader();
    for page in 0..COUNT {
        expect_body(page, reader.finish(PageId(page)).unwrap());
        reader.release();
    }
}
