//! Checks text ids: each row has a text, its number is one that follows from the text, and no two
//! live rows have the same text.

use crate::Error;
use crate::index::find::read_text;
use crate::page::meta::Meta;
use crate::page::record_pages::RecordPlace;
use crate::page::{PageId, Reader};
use crate::text_ids;

/// The live rows: the hash of each text, and where it is.
#[derive(Default)]
pub(super) struct Texts {
    living: Vec<(u64, RecordPlace)>,
}

impl Texts {
    /// Takes the text of a node on `page`, of the row with the number `row_id`.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if it has none, or one of another row.
    pub(super) fn take<R: Reader>(
        &mut self,
        meta: &Meta,
        reader: &mut R,
        (page, row_id, is_live): (PageId, u64, bool),
        place: Option<RecordPlace>,
    ) -> Result<(), Error> {
        let text = read_text(meta, reader, (row_id, page), place)?;
        if let Some(place) = place.filter(|_| is_live) {
            self.living.push((text_ids::hash(meta.seed, &text), place));
        }
        Ok(())
    }

    /// Compares texts with the same hash.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if two rows have the same text.
    pub(super) fn finish<R: Reader>(mut self, meta: &Meta, reader: &mut R) -> Result<(), Error> {
        self.living.sort_unstable();
        for same in self.living.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
            let mut texts = Vec::with_capacity(same.len());
            for (_, place) in same {
                let text = meta.record_shape().read_text(reader, *place)?;
                if texts.contains(&text) {
                    return Err(Error::corrupt(place.page, format!("two rows have the id {text:?}")));
                }
                texts.push(text);
            }
        }
        Ok(())
    }
}
