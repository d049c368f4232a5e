//! Pages are made complete from any mixture of their versions in the index.

use std::sync::Arc;

use pagehop_engine::{BODY_BYTES, PageSink, Pages, PagesMut};

use super::*;
use crate::build::storage_sink::StorageSink;
use crate::disk::base_file::PageBuffer;
use crate::disk::storage::{Name, Storage, StorageFile};
use crate::index_file::IndexFile;
use crate::log::tests::OneFile;
use crate::options::OpenOptions;

const SECTOR: usize = 512;
const SECTORS: usize = PAGE_BYTES / SECTOR;

#[derive(Clone, Default)]
struct TwoFiles {
    index: OneFile,
    log: OneFile,
}

impl Storage for TwoFiles {
    fn open(&self, name: Name, create: bool) -> std::io::Result<Option<Arc<dyn StorageFile>>> {
        match name {
            Name::Index => self.index.open(name, create),
            Name::Log => self.log.open(name, create),
        }
    }

    fn remove(&self, _: Name) -> std::io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self) -> std::io::Result<()> {
        Ok(())
    }
}

fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    (*state >> 33) as usize
}

fn open(files: &TwoFiles, write: bool) -> IndexFile {
    IndexFile::open_on(Arc::new(files.clone()), &OpenOptions { write, ..OpenOptions::default() }).unwrap()
}

/// An index of three pages.
fn new_index() -> TwoFiles {
    let files = TwoFiles::default();
    let mut sink = StorageSink::create(Arc::new(files.clone()), *b"random").unwrap();
    for page in [1, 2, 0] {
        let mut body: Vec<u8> = (0..BODY_BYTES).map(|at| (at * at / 7) as u8 | 0x80).collect();
        body[..8].copy_from_slice(b"PAGEHOP\0");
        sink.write(PageId(page), &body).unwrap();
    }
    sink.finish().unwrap();
    files
}

/// Changes the bodies of pages 0 and 1 with `change` in one commit.
fn commit(pages: &IndexFile, change: impl Fn(&mut [u8])) {
    let mut transaction = pages.begin().unwrap();
    let step = &mut |bodies: &mut [&mut [u8]]| {
        bodies.iter_mut().for_each(|body| change(body));
        Ok(())
    };
    transaction.step(&[PageId(0), PageId(1)], step).unwrap();
    transaction.commit().unwrap();
}

/// The bytes of `page` that a checkpoint would write now.
fn sealed(pages: &IndexFile, page: u32) -> [u8; PAGE_BYTES] {
    let mut buffer = PageBuffer::new();
    pages.read.versions.read_newest(page, &mut buffer.0).unwrap();
    header::seal(PageId(page), header::log_position(&buffer.0), pages.read.versions.identity, &mut buffer.0);
    buffer.0
}

/// The places in a body that the commits of [`changed`] write.
const PLACES: [(usize, usize); 6] = [(100, 60), (470, 40), (1000, 1), (2000, 1500), (4000, 9), (8160, 8)];

/// An index with commits in its log, the versions of pages 0 and 1 since the log began, and the
/// writer of the index.
fn changed() -> (TwoFiles, IndexFile, [Vec<[u8; PAGE_BYTES]>; 2]) {
    let files = new_index();
    let pages = open(&files, true);
    // The changes before the log began must not matter.
    commit(&pages, |body| body[6000..6100].fill(1));
    pages.checkpoint().unwrap();
    let mut versions = [0, 1].map(|page| vec![sealed(&pages, page)]);
    for number in 0..7_usize {
        commit(&pages, |body| {
            // Several commits write each place, and the last one restores the old bytes of some
            // places.
            for (at, &(start, length)) in PLACES.iter().enumerate() {
                if (number + at) % 3 != 0 {
                    let value = if number == 6 && at % 2 == 0 { 0x80 } else { number as u8 };
                    body[start..start + length].fill(value);
                }
            }
        });
        (0..2).for_each(|page| versions[page as usize].push(sealed(&pages, page)));
    }
    (files, pages, versions)
}

#[track_caller]
fn expect_newest(pages: &IndexFile, page: u32, newest: &[u8; PAGE_BYTES], what: impl std::fmt::Debug) {
    let mut buffer = PageBuffer::new();
    pages.read.versions.read_newest(page, &mut buffer.0).unwrap();
    // All bytes except the checksum, which only a file has.
    assert!(buffer.0[4..] == newest[4..], "page {page} of mixture {what:?}");
}

#[test]
fn every_mixture_of_sectors_of_two_versions_makes_the_newest() {
    let (files, pages, [_, versions]) = changed();
    let newest = versions[7];
    for (old, new) in [(0, 7), (0, 3)] {
        for mixture in (0..1_usize << SECTORS).step_by(if new == 7 { 1 } else { 37 }) {
            let mut bytes = versions[old];
            for sector in (0..SECTORS).filter(|sector| mixture >> sector & 1 == 1) {
                let place = sector * SECTOR..(sector + 1) * SECTOR;
                bytes[place.clone()].copy_from_slice(&versions[new][place]);
            }
            files.index.write_all_at(&bytes, PAGE_BYTES as u64).unwrap();
            expect_newest(&pages, 1, &newest, (old, new, mixture));
        }
    }
}

#[test]
fn every_mixture_of_pieces_of_all_versions_makes_the_newest() {
    let (files, pages, [_, versions]) = changed();
    let mut state = 1;
    for round in 0..4000 {
        let size = [SECTOR, SECTOR, 64, 1][round % 4];
        let mut bytes = versions[0];
        for piece in (0..PAGE_BYTES).step_by(size) {
            let version = &versions[random(&mut state) % versions.len()];
            bytes[piece..piece + size].copy_from_slice(&version[piece..piece + size]);
        }
        files.index.write_all_at(&bytes, PAGE_BYTES as u64).unwrap();
        expect_newest(&pages, 1, &versions[7], (round, size));
    }
}

#[test]
fn a_torn_page_0_is_no_hindrance_to_open() {
    let (files, pages, [versions, _]) = changed();
    drop(pages);
    let mut state = 2;
    for round in 0..100 {
        let mut bytes = versions[0];
        for piece in (0..PAGE_BYTES).step_by(SECTOR) {
            let version = &versions[random(&mut state) % versions.len()];
            bytes[piece..piece + SECTOR].copy_from_slice(&version[piece..piece + SECTOR]);
        }
        files.index.write_all_at(&bytes, 0).unwrap();
        let pages = open(&files, round % 2 == 0);
        expect_newest(&pages, 0, &versions[7], round);
    }
    let pages = open(&files, true);
    pages.checkpoint().unwrap();
    drop(pages);
    let mut buffer = PageBuffer::new();
    files.index.read_at(&mut buffer.0, 0).unwrap();
    assert!(buffer.0 == versions[7], "a checkpoint makes the file whole");
    assert_eq!(open(&files, false).page_count(), 3);
}

#[test]
fn damage_outside_of_what_the_log_has_is_told() {
    let (files, pages, [_, versions]) = changed();
    let mut torn = versions[4];
    torn[SECTOR..4 * SECTOR].copy_from_slice(&versions[0][SECTOR..4 * SECTOR]);
    for bytes in [versions[0], versions[4], torn] {
        for at in (0..PAGE_BYTES).step_by(7) {
            let mut damaged = bytes;
            damaged[at] ^= 1 << (at % 8);
            files.index.write_all_at(&damaged, PAGE_BYTES as u64).unwrap();
            let is_in_log = at < HOST_HEADER_BYTES
                || PLACES
                    .iter()
                    .any(|&(start, length)| (start..start + length).contains(&(at - HOST_HEADER_BYTES)));
            if is_in_log {
                expect_newest(&pages, 1, &versions[7], at);
                continue;
            }
            let error = pages.read.versions.read_newest(1, &mut PageBuffer::new().0).unwrap_err();
            assert!(matches!(error, Error::Corrupt { page: PageId(1), .. }), "byte {at}: {error}");
            let error = error.to_string();
            let told = ["stored checksum", "the index is damaged", "the index-log", "bring back a copy"];
            assert!(told.iter().all(|part| error.contains(part)), "byte {at}: {error}");
        }
    }
    drop(pages);
    let mut damaged = versions[4];
    damaged[5000] ^= 1;
    files.index.write_all_at(&damaged, PAGE_BYTES as u64).unwrap();
    let pages = open(&files, true);
    let error = pages.checkpoint().unwrap_err();
    assert!(matches!(error, Error::Corrupt { page: PageId(1), .. }), "{error}");
    files.index.write_all_at(&versions[4], PAGE_BYTES as u64).unwrap();
    // If the log has an image of the whole page, the bytes in the index do not matter.
    (0..64).for_each(|number| commit(&pages, |body| body[3000] = number));
    let newest = sealed(&pages, 1);
    files.index.write_all_at(&[0x55; PAGE_BYTES], PAGE_BYTES as u64).unwrap();
    expect_newest(&open(&files, false), 1, &newest, "none");
}

#[test]
fn a_write_that_the_disk_lost_is_told() {
    let (files, pages, [_, versions]) = changed();
    let mut old = PageBuffer::new();
    files.index.read_at(&mut old.0, PAGE_BYTES as u64).unwrap();
    pages.checkpoint().unwrap();
    // A complete page from before the last checkpoint is an error, whether or not a change follows.
    files.index.write_all_at(&old.0, PAGE_BYTES as u64).unwrap();
    let error = pages.read.versions.read_newest(1, &mut PageBuffer::new().0).unwrap_err();
    let expected = header::log_position(&versions[7]);
    assert!(error.to_string().contains(&format!("expected its version {expected}")), "{error}");
    commit(&pages, |body| body[7000] ^= 1);
    files.index.write_all_at(&old.0, PAGE_BYTES as u64).unwrap();
    let error = open(&files, false).read.versions.read_newest(1, &mut PageBuffer::new().0).unwrap_err();
    assert!(error.to_string().contains("still not what was committed"), "{error}");
}
