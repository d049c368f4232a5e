//! Payloads of a bulk build: they are written first, so that nodes can name their places.

use crate::columns::ColumnRows;
use crate::page::payload::PayloadWriter;
use crate::page::{PageId, PageSink};
use crate::{EachChunk, Error, VectorSource};

/// A source of rows whose payloads were written: each row names the place of its own.
pub(crate) struct WithPlaces<'s> {
    source: &'s mut dyn VectorSource,
    columns: ColumnRows,
}

impl<'s> WithPlaces<'s> {
    /// Writes the payloads of a source from page `first` on. Returns the page after them, and the
    /// first of those with room.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a payload that is too long, or another number of them than of rows;
    /// any error of the sink.
    pub(crate) fn write(
        source: &'s mut dyn VectorSource,
        first: PageId,
        sink: &mut dyn PageSink,
    ) -> Result<(Self, PageId, u32), Error> {
        let given = source.columns().cloned().unwrap_or_default();
        let payloads = given.payloads().unwrap_or_default();
        let mut columns = given.arrange(given.columns(), true)?;
        let mut writer = PayloadWriter::new(sink, first);
        for (row, payload) in payloads.iter().enumerate() {
            if let Some(payload) = payload {
                columns.set_place(row, Some(writer.write(payload)?.key()));
            }
        }
        let (next, listed) = writer.finish()?;
        Ok((Self { source, columns }, next, listed))
    }
}

impl VectorSource for WithPlaces<'_> {
    fn dim(&self) -> usize {
        self.source.dim()
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        self.source.scan(each)
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.columns)
    }
}
