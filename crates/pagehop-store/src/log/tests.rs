//! Records and blocks of one log file, complete and damaged.

use std::io;
use std::sync::{Arc, Mutex};

use pagehop_engine::BODY_BYTES;
use pagehop_kernels::crc32c;

use crate::disk::storage::{Name, Storage, StorageFile};
use crate::log::block::{self, Block, BlockWriter, End};
use crate::log::log_file::*;
use crate::log::record::{self, Kind, Records};

/// A storage of one file in memory.
#[derive(Clone, Default)]
pub(crate) struct OneFile(Arc<Mutex<Vec<u8>>>);

impl Storage for OneFile {
    fn open(&self, _: Name, create: bool) -> io::Result<Option<Arc<dyn StorageFile>>> {
        let exists = create || !self.0.lock().unwrap().is_empty();
        Ok(exists.then(|| Arc::new(self.clone()) as _))
    }

    fn remove(&self, _: Name) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

impl StorageFile for OneFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.0.lock().unwrap();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_all_at(&self, written: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap();
        let end = offset as usize + written.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(written);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(length as usize, 0);
        Ok(())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

fn header() -> Header {
    Header { identity: [1; 6], tag: 7, sequence: 1, start: 8192, base_pages: 9, base_position: 0 }
}

/// Appends the record of page 3.
fn record(block: &mut BlockWriter<'_>, old: Option<(&[u8], u64)>, new: &[u8]) {
    let mut records = Records::default();
    records.push(3, old, new);
    block.append(records).unwrap();
}

/// A log with one block for each of `bodies`, which become versions of page 3.
fn log_of(bodies: &[Vec<u8>]) -> (OneFile, Log, Vec<u64>) {
    let file = OneFile::default();
    let log = Log::new(Arc::new(file.clone()), "the log".into());
    let opened = log.create(&header()).unwrap();
    let (mut end, mut before, mut at) = (8192, 0, Vec::new());
    let mut old: Option<(&[u8], u64)> = None;
    for body in bodies {
        let mut block = BlockWriter::new(&log, Arc::clone(&opened), end, header().offset(end), 0);
        record(&mut block, old, body);
        let (written, entries) = block.finish(9, before).unwrap();
        (end, before) = (end + written.length, written.checksum);
        old = Some((body, entries[0].lsn));
        at.push(entries[0].lsn);
    }
    (file, log, at)
}

fn bodies() -> Vec<Vec<u8>> {
    let body = |version: usize| {
        let mut body = vec![0; BODY_BYTES];
        (0..=version).for_each(|at| body[at * 300..at * 300 + 8].fill(at as u8 + 1));
        body
    };
    let mut bodies: Vec<_> = (0..5).map(body).collect();
    bodies.push((0..BODY_BYTES).map(|at| ((at * at) >> 3) as u8 | 0x80).collect());
    bodies
}

fn blocks(log: &Log) -> (End, Vec<Block>) {
    let mut blocks = Vec::new();
    let end = block::scan(log, &header(), |block| {
        let Block { lsn, length, page_count, checksum, ref entries } = *block;
        blocks.push(Block { lsn, length, page_count, checksum, entries: entries.clone() });
    });
    (end.unwrap(), blocks)
}

#[test]
fn a_page_is_made_again_from_its_records() {
    let bodies = bodies();
    let (file, log, at) = log_of(&bodies);
    let (end, found) = blocks(&log);
    assert_eq!(found.len(), bodies.len());
    assert_eq!(end.last, Some((found[5].lsn, 9)));
    let kinds: Vec<_> = found.iter().map(|block| block.entries[0].kind).collect();
    assert_eq!(kinds, [Kind::Image, Kind::Delta, Kind::Delta, Kind::Delta, Kind::Delta, Kind::Body]);
    let mut body = vec![7; BODY_BYTES];
    let mut previous = 0;
    for (version, &lsn) in at.iter().enumerate() {
        let record = record::read(&log, &file, 3, lsn, 8192).unwrap();
        assert_eq!(record.header.body_checksum, crc32c(&bodies[version], 0));
        assert_eq!(record.header.previous, if record.header.kind == Kind::Delta { previous } else { 0 });
        record.apply(&mut body).unwrap();
        assert!(body == bodies[version], "version {version}");
        previous = lsn;
        assert!(record::read(&log, &file, 4, lsn, 8192).is_err(), "it is of another page");
        assert!(record::read(&log, &file, 3, lsn + 8, 8200).is_err(), "it is of another place");
    }
}

#[test]
fn a_scan_stops_at_damage_wherever_it_is() {
    let (file, log, at) = log_of(&bodies()[..4]);
    let whole = blocks(&log);
    let length = file.0.lock().unwrap().len();
    for place in FRONT as usize..length {
        file.0.lock().unwrap()[place] ^= 1 << (place % 8);
        let (end, found) = blocks(&log);
        assert!(found.len() < whole.1.len() && found[..] == whole.1[..found.len()], "byte {place}");
        let damaged = &whole.1[found.len()];
        assert_eq!(end.lsn, damaged.lsn);
        assert!(
            (header().offset(damaged.lsn)..header().offset(damaged.lsn + damaged.length)).contains(&(place as u64))
        );
        for &lsn in &at {
            let record = record::read(&log, &file, 3, lsn, 8192);
            let inside = place as u64 >= header().offset(lsn)
                && (place as u64) < header().offset(damaged.lsn + damaged.length);
            assert!(record.is_ok() || inside, "a record is whole or refused");
        }
        file.0.lock().unwrap()[place] ^= 1 << (place % 8);
    }
    for cut in (FRONT as usize..length).rev() {
        file.0.lock().unwrap().truncate(cut);
        assert!(blocks(&log).1.len() < whole.1.len());
    }
}

#[test]
fn a_block_left_behind_does_not_follow_another() {
    let bodies = bodies();
    let (file, log, _) = log_of(&bodies[..3]);
    let (_, found) = blocks(&log);
    // Another second block of the same length is written, as if the old one was lost.
    let opened = log.existing().unwrap();
    let mut other = bodies[1].clone();
    other[300] ^= 0xff;
    let mut block = BlockWriter::new(&log, opened, found[1].lsn, header().offset(found[1].lsn), 0);
    record(&mut block, Some((&bodies[0], found[0].entries[0].lsn)), &other);
    let (written, _) = block.finish(9, found[0].checksum).unwrap();
    assert_eq!(written.length, found[1].length);
    assert_eq!(blocks(&log).1.len(), 2);
    assert!(file.0.lock().unwrap().len() as u64 > header().offset(found[2].lsn));
}

#[test]
fn garbage_is_no_log() {
    let mut state = 1_u64;
    for round in 0..200 {
        let (file, log, at) = log_of(&bodies()[..2]);
        {
            let mut bytes = file.0.lock().unwrap();
            let front = if round % 2 == 0 { FRONT as usize } else { 0 };
            for _ in 0..1 + round {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let place = front + (state >> 20) as usize % (bytes.len() - front);
                bytes[place] = (state >> 50) as u8;
            }
        }
        if let Ok(Some(header)) = log.read_header() {
            let _ = block::scan(&log, &header, |_| {});
        }
        for lsn in at {
            if let Ok(record) = record::read(&log, &file, 3, lsn, 8192) {
                let _ = record.apply(&mut vec![0; BODY_BYTES]);
            }
        }
    }
}

#[test]
fn the_header_survives_a_torn_write_and_damage() {
    let header = Header {
        identity: [1, 2, 3, 4, 5, 6],
        tag: 0x0807,
        sequence: 3,
        start: 8192,
        base_pages: 7,
        base_position: 9,
    };
    assert_eq!(Header::from_bytes(&header.to_bytes()), Some(header.clone()));
    for at in 0..COPY_BYTES {
        let mut bytes = header.to_bytes();
        bytes[at] ^= 0x10;
        assert_eq!(Header::from_bytes(&bytes), None, "byte {at}");
    }
    assert_eq!(header.offset(8192), FRONT);

    let (file, log, _) = log_of(&[]);
    let newer = Header { sequence: 2, start: 9000, ..self::header() };
    for torn in [0, 20, 30] {
        let first = newer.to_bytes();
        file.write_all_at(&first[..torn], COPIES_AT[0]).unwrap();
        assert_eq!(log.read_header().unwrap(), Some(self::header()));
    }
    log.write_header(&file, &newer).unwrap();
    for copy in COPIES_AT {
        file.0.lock().unwrap()[copy as usize + 33] ^= 1;
        assert_eq!(log.read_header().unwrap(), Some(newer.clone()));
        file.0.lock().unwrap()[copy as usize + 33] ^= 1;
    }
}
