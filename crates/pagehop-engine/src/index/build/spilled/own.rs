//! Own codes that are read again, a window of pages at a time, when nodes are written.

use std::ops::Range;

use super::files::RowFile;
use super::merge::ABSENT;
use crate::Error;
use crate::index::build::order::PageOrder;
use crate::index::build::write::OwnCodes;
use crate::quantize::codes::Codes;
use crate::quantize::own::OwnCode;

/// Marks a row whose code is not read yet.
const AWAITED: u32 = ABSENT - 1;

/// Codes in the files of partitions. A file is gone when the next is read.
pub(super) struct SpilledCodes {
    pub(super) files: Vec<Option<RowFile>>,
    /// Pages of each partition.
    pub(super) pages: Vec<Range<usize>>,
    /// Largest number of rows of a window.
    pub(super) window_rows: usize,
    /// The codes of the window.
    pub(super) codes: Codes,
    /// For each row, its place in the window.
    pub(super) places: Vec<u32>,
    /// The rows of the window.
    pub(super) rows: Vec<u32>,
}

impl OwnCodes for SpilledCodes {
    fn bring(&mut self, order: &PageOrder, first: usize) -> Result<usize, Error> {
        self.rows.drain(..).for_each(|row| self.places[row as usize] = ABSENT);
        self.codes.clear();
        let partition = self.pages.iter().position(|pages| pages.contains(&first)).expect("every page is of one");
        self.files[..partition].fill_with(|| None);
        let (mut end, last) = (first, self.pages[partition].end);
        while end < last && (end == first || self.rows.len() + order.page(end).len() <= self.window_rows) {
            self.rows.extend_from_slice(order.page(end));
            end += 1;
        }
        self.rows.iter().for_each(|row| self.places[*row as usize] = AWAITED);
        let (places, codes) = (&mut self.places, &mut self.codes);
        self.files[partition].as_mut().expect("pages come in order").scan(&mut |record| {
            if places[record.row as usize] == AWAITED {
                places[record.row as usize] = codes.len() as u32;
                codes.push_hi(record.own, record.hi);
                codes.lo.extend_from_slice(record.lo);
            }
            Ok(())
        })?;
        assert_eq!(codes.len(), self.rows.len(), "a partition has the codes of its rows");
        Ok(end)
    }

    fn code(&self, row: u32) -> (OwnCode, &[i8], &[u8]) {
        let place = self.places[row as usize] as usize;
        (self.codes.own[place], self.codes.hi(place), self.codes.lo(place))
    }
}
