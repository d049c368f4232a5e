//! The records of a bulk build: payloads, text ids and tags. They are written first, so that nodes
//! can name their places.

use super::job::Job;
use crate::columns::ColumnRows;
use crate::page::record_pages::RecordWriter;
use crate::page::row_record::RecordShape;
use crate::page::{PageId, PageSink};
use crate::text_ids::{self, NewNumbers, Numbered};
use crate::{EachChunk, Error, VectorSource};

/// Records between two calls of the progress callback.
const LOOK_RECORDS: usize = 4096;
/// Bytes of a record beside what it holds.
const RECORD_BYTES: usize = 16;

/// A source of rows whose records were written: each row has the place of its record.
pub(crate) struct WithPlaces<'s> {
    source: &'s mut dyn VectorSource,
    columns: ColumnRows,
    /// The numbers of rows whose ids are texts.
    numbers: Option<Vec<u64>>,
}

impl<'s> WithPlaces<'s> {
    /// Writes the records of a source from page `first` on, with the ids of its rows if they are
    /// `texts`. Returns the page after them, and the first of those with room.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a payload that is too long, another number of them than of rows, and
    /// a text that is not an id or repeats; [`Error::Interrupted`]; any error of the sink.
    pub(super) fn write(
        job: &mut Job<'_>,
        source: &'s mut dyn VectorSource,
        texts: Option<Vec<String>>,
        first: PageId,
        sink: &mut dyn PageSink,
    ) -> Result<(Self, PageId, u32), Error> {
        let given = source.columns().cloned().unwrap_or_default();
        let payloads = given.payloads();
        let mut columns = given.arrange(given.columns(), true)?;
        if let Some(texts) = texts.as_ref().filter(|_| payloads.is_none() && given.columns().is_empty()) {
            columns.push_empty(texts.len());
        }
        let count = texts.as_ref().map_or(columns.len(), Vec::len);
        if columns.len() != count {
            let what = format!("there are {count} ids, and columns or payloads of {} rows", columns.len());
            return Err(Error::argument(what));
        }
        let numbers = texts.as_deref().map(|texts| numbers(job, texts)).transpose()?;
        let shape = RecordShape { tags: columns.has_tags(), texts: texts.is_some() };
        let mut writer = RecordWriter::new(sink, first);
        for row in 0..count {
            if row.is_multiple_of(LOOK_RECORDS) {
                job.step("records", row as u64, count as u64)?;
            }
            let payload = payloads.and_then(|payloads| payloads[row].as_deref());
            let text = texts.as_ref().map(|texts| texts[row].as_str());
            let record = shape.encode(columns.sets(row), text, payload);
            let place = record.map(|record| writer.write(&record)).transpose()?;
            columns.set_place(row, place.map(|place| place.key()));
        }
        job.step("records", count as u64, count as u64)?;
        let (next, listed) = writer.finish()?;
        Ok((Self { source, columns, numbers }, next, listed))
    }
}

/// Estimated bytes of the records that are written for rows with these columns and ids.
pub(super) fn record_bytes(columns: Option<&ColumnRows>, texts: Option<&[String]>) -> usize {
    let payloads = columns.and_then(ColumnRows::payloads).unwrap_or_default().iter().flatten();
    let sets = columns.into_iter().flat_map(|columns| (0..columns.len()).flat_map(|row| columns.sets(row)));
    let texts = texts.unwrap_or_default();
    payloads.map(|payload| payload.len() + RECORD_BYTES).sum::<usize>()
        + sets.map(|set| size_of_val(&**set)).sum::<usize>()
        + texts.iter().map(|text| text.len() + RECORD_BYTES).sum::<usize>()
}

/// The numbers of rows with these ids.
fn numbers(job: &mut Job<'_>, texts: &[String]) -> Result<Vec<u64>, Error> {
    let (seed, mut new) = (job.options.seed, NewNumbers::default());
    let mut numbers = Vec::with_capacity(texts.len());
    for (at, text) in texts.iter().enumerate() {
        if at.is_multiple_of(LOOK_RECORDS) {
            job.step("records", 0, texts.len() as u64)?;
        }
        text_ids::check(at, text)?;
        match new.number(at, text, text_ids::hash(seed, text), |_| Ok(None))? {
            Numbered::New(number) => numbers.push(number),
            _ => {
                let what = format!("id {text:?} is given to more than one row; each row needs an id of its own");
                return Err(Error::argument(what));
            }
        }
    }
    Ok(numbers)
}

impl VectorSource for WithPlaces<'_> {
    fn dim(&self) -> usize {
        self.source.dim()
    }

    fn row_count(&self) -> Option<u64> {
        self.source.row_count()
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        let Some(numbers) = &self.numbers else { return self.source.scan(each) };
        let mut done = 0;
        self.source.scan(&mut |ids, components| {
            let numbers = numbers.get(done..done + ids.len()).ok_or_else(|| {
                Error::argument(format!("the source has more vectors than the {} ids", numbers.len()))
            })?;
            done += ids.len();
            each(numbers, components)
        })?;
        if done == numbers.len() {
            return Ok(());
        }
        Err(Error::argument(format!("there are {} ids for {done} vectors", numbers.len())))
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.columns)
    }
}
