//! Checkpoint: brings what the log has into the index, and begins the log anew.
//!
//! Pages are written in their order, page 0 last, in place, once. A loss of power may tear them: until the header says that the
//! log begins at its end, everything in it still counts, and makes them whole again whatever became of them
//! (`rebuild.rs`). So the log is synced first: no page gets into the index before the commits that changed it are
//! durable. A checkpoint that failed or was cut short is simply done again.

use std::sync::atomic::Ordering;

use pagehop_engine::{Error, PAGE_BYTES, PageId, Reader};

use crate::file::FilePages;
use crate::header;
use crate::log::{FRONT, Header, Identity};
use crate::reader::FileReader;
use crate::storage::StorageFile;
use crate::write::{State, Writer};

/// Pages that are being read while those before them are copied.
const AHEAD: usize = 24;

/// Bytes of pages collected before they are written.
const PIECE: usize = 1 << 20;

impl FilePages {
    /// Brings the pages of all commits into the index file, durably, and empties the log. Readers go on
    /// meanwhile; a transaction waits. Without a log it does nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the index was not opened for writing; [`Error::Io`] if the disk is full or the
    /// system refuses: the log is kept, nothing is lost, and a later checkpoint may succeed.
    pub fn checkpoint(&self) -> Result<(), Error> {
        let writer = self.writer()?;
        self.checkpoint_of(writer, &mut writer.state())
    }

    pub(crate) fn checkpoint_of(&self, writer: &Writer, state: &mut State) -> Result<(), Error> {
        if state.dirty.is_empty() {
            return Ok(());
        }
        state.check(self)?;
        self.write_pages(writer, state)?;
        self.restart_log(state)?;
        writer.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Writes every changed page to the index file, durably.
    fn write_pages(&self, writer: &Writer, state: &mut State) -> Result<(), Error> {
        self.log.existing()?.sync().map_err(|error| {
            // What the disk has of the log is not known any more.
            state.broken = Some("a sync of the log failed".into());
            self.log.refused("sync", error)
        })?;
        let mut pages: Vec<u32> = state.dirty.keys().copied().collect();
        pages.sort_unstable();
        // Page 0 is in every commit. It comes last: an index whose page 0 is the newest needs no log.
        pages.rotate_left(1);
        let last = pages.len() - 1;
        let mut reader = FileReader::new(self);
        pages.iter().take(AHEAD).for_each(|&page| reader.start(PageId(page), 0..0));
        let mut images = Vec::with_capacity(PIECE);
        for (at, &page) in pages.iter().enumerate() {
            pages.get(at + AHEAD).into_iter().for_each(|&page| reader.start(PageId(page), 0..0));
            images.extend_from_slice(reader.page(PageId(page))?);
            seal_last(page, self.identity, &mut images);
            reader.release();
            if images.len() == PIECE || at + 1 >= last {
                if at == last {
                    writer.index.sync().map_err(|error| self.refused("sync", error))?;
                }
                write_in_place(&*writer.index, &images).map_err(|error| self.refused("write", error))?;
                writer.page_bytes_written.fetch_add(images.len() as u64, Ordering::Relaxed);
                images.clear();
            }
        }
        writer.index.sync().map_err(|error| self.refused("sync", error))
    }

    /// Begins the log anew at its end.
    fn restart_log(&self, state: &mut State) -> Result<(), Error> {
        let log = self.log.existing()?;
        let before = state.header.as_ref().expect("what is in the log has a header before it");
        let header = Header {
            identity: self.identity,
            sequence: before.sequence + 1,
            start: state.end,
            base_pages: self.shared.page_count(),
            base_position: self.shared.newest(0),
        };
        // If only one of two is known to be on the disk, nothing may follow either.
        state.broken = Some("the log could not be begun anew".into());
        self.log.write_header(&*log, &header)?;
        state.broken = None;
        self.shared.set_base(header.start, header.base_pages);
        state.start = header.start;
        state.base_position = header.base_position;
        state.checksum = 0;
        state.dirty.clear();
        state.header = Some(header);
        let writer = self.writer.as_ref().expect("only a writer has a state");
        let most = FRONT + writer.log_bytes;
        // Only to give space back: it does not matter if that is refused.
        if log.length().is_ok_and(|length| length > most) && log.set_length(most).is_ok() {
            state.reserved = state.reserved.min(most);
        }
        Ok(())
    }

    fn refused(&self, operation: &str, error: std::io::Error) -> Error {
        Error::io(format!("{operation} of {} by a checkpoint", self.path().display()), error)
    }
}

/// Makes the last of `images`, which is `page`, fit for the file.
fn seal_last(page: u32, identity: Identity, images: &mut [u8]) {
    let at = images.len() - PAGE_BYTES;
    let image: &mut [u8; PAGE_BYTES] = (&mut images[at..]).try_into().expect("a page was appended");
    header::seal(PageId(page), header::log_position(image), identity, image);
}

/// Writes sealed pages to their places, neighbors at once.
fn write_in_place(index: &dyn StorageFile, images: &[u8]) -> std::io::Result<()> {
    let page_at = |at: usize| crate::log::u32_at(images, at + 4);
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
