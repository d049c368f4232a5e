//! Checkpoint: writes the commits of the log into the index, and begins the log again.
//!
//! Pages are written in place, once, in their order; page 0 comes last, when the others are on the
//! disk. A loss of power may tear them. Until page 0 is whole and names no log, the log is valid
//! and makes the torn pages whole (`log/versions.rs`). So the log is synced first: no page gets
//! into the index before the commits that changed it are durable. A checkpoint that failed or was
//! cut short is repeated.

use std::sync::atomic::Ordering;

use pagehop_engine::{Error, PAGE_BYTES, PageId, Reader};

use crate::disk::storage::StorageFile;
use crate::header::{self, Identity};
use crate::log::log_file::{FRONT, Header};
use crate::reader::FileReader;
use crate::writer::{Naming, Turn};

/// Pages that are being read while those before them are copied.
const AHEAD: usize = 24;

/// Bytes of pages collected before they are written.
const PIECE: usize = 1 << 20;

/// Brings every page with records in the log into the index, and begins the log again at its end.
/// From then until the next commit the index needs no log, and page 0 names none.
pub(crate) fn checkpoint(turn: &mut Turn<'_>) -> Result<(), Error> {
    if !turn.state.dirty.is_empty() {
        turn.check()?;
        write_pages(turn)?;
        restart_log(turn)?;
        turn.writer.checkpoints.fetch_add(1, Ordering::Relaxed);
    } else if turn.state.naming != Naming::Unnamed {
        // The first commit after a checkpoint failed.
        turn.check()?;
        turn.name_log(0)?;
    }
    if turn.read.versions.log.is_removed() {
        turn.state.header = None;
    }
    Ok(())
}

/// Writes every changed page to the index file, durably.
fn write_pages(turn: &mut Turn<'_>) -> Result<(), Error> {
    turn.read.versions.log.existing()?.sync().map_err(|error| {
        // It is unknown which part of the log is on the disk.
        turn.state.broken = Some("a sync of the log failed".into());
        turn.read.versions.log.refused("sync", error)
    })?;
    let mut pages: Vec<u32> = turn.state.dirty.keys().copied().collect();
    pages.sort_unstable();
    // Page 0 is in every commit. It comes last: an index whose page 0 is the newest needs no
    // log.
    pages.rotate_left(1);
    let last = pages.len() - 1;
    let mut reader = FileReader::new(turn.read);
    pages.iter().take(AHEAD).for_each(|&page| reader.start(PageId(page), 0..0));
    let mut images = Vec::with_capacity(PIECE);
    for (at, &page) in pages.iter().enumerate() {
        pages.get(at + AHEAD).into_iter().for_each(|&page| reader.start(PageId(page), 0..0));
        images.extend_from_slice(reader.page(PageId(page))?);
        seal_last(page, turn.read.versions.identity, &mut images);
        reader.release();
        if images.len() == PIECE || at + 1 >= last {
            if at == last {
                turn.writer.index.sync().map_err(|error| refused(turn, "sync", error))?;
                // Page 0 is sealed without the log's tag.
                turn.state.naming = Naming::Unknown;
            }
            write_in_place(&*turn.writer.index, &images).map_err(|error| refused(turn, "write", error))?;
            turn.writer.page_bytes_written.fetch_add(images.len() as u64, Ordering::Relaxed);
            images.clear();
        }
    }
    turn.writer.index.sync().map_err(|error| refused(turn, "sync", error))?;
    turn.state.naming = Naming::Unnamed;
    Ok(())
}

/// Begins the log again at its end.
fn restart_log(turn: &mut Turn<'_>) -> Result<(), Error> {
    let log = turn.read.versions.log.existing()?;
    let before = turn.state.header.as_ref().expect("what is in the log has a header before it");
    let header = Header {
        identity: turn.read.versions.identity,
        tag: header::new_log_tag(before.tag),
        sequence: before.sequence + 1,
        start: turn.state.end,
        base_pages: turn.read.versions.shared.page_count(),
        base_position: turn.read.versions.shared.newest(0),
    };
    // If this fails, the disk may have the old header or the new one, so no commit may follow.
    turn.state.broken = Some("the log could not be begun again".into());
    turn.read.versions.log.write_header(&*log, &header)?;
    turn.state.broken = None;
    turn.read.versions.shared.set_base(header.start, header.base_pages);
    turn.state.start = header.start;
    turn.state.base_position = header.base_position;
    turn.state.checksum = 0;
    turn.state.dirty.clear();
    turn.state.header = Some(header);
    let most = FRONT + turn.writer.log_bytes;
    // This only frees space, so it may fail.
    if log.length().is_ok_and(|length| length > most) && log.set_length(most).is_ok() {
        turn.state.reserved = turn.state.reserved.min(most);
    }
    Ok(())
}

fn refused(turn: &Turn<'_>, operation: &str, error: std::io::Error) -> Error {
    Error::io(format!("{operation} of {} by a checkpoint", turn.read.path().display()), error)
}

/// Makes the last of `images`, which is `page`, fit for the file.
fn seal_last(page: u32, identity: Identity, images: &mut [u8]) {
    let at = images.len() - PAGE_BYTES;
    let image: &mut [u8; PAGE_BYTES] = (&mut images[at..]).try_into().expect("a page was appended");
    header::seal(PageId(page), header::log_position(image), identity, image);
}

/// Writes sealed pages to their places, neighbors at once.
fn write_in_place(index: &dyn StorageFile, images: &[u8]) -> std::io::Result<()> {
    let page_at = |at: usize| header::u32_at(images, at + 4);
    let mut start = 0;
    while start < images.len() {
        let first = page_at(start);
        let mut end = start + PAGE_BYTES;
        while end < images.len() && page_at(end) as usize == first as usize + (end - start) / PAGE_BYTES {
            end += PAGE_BYTES;
        }
        index.write_all_at(&images[start..end], u64::from(first) * PAGE_BYTES as u64)?;
        start = end;
    }
    Ok(())
}
