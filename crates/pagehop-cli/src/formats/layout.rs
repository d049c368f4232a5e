//! Where the rows are in a file, as the header of each format says.

use std::path::Path;

use pagehop_engine::{DIM_MAX, Error};

use super::Element;

/// Most ids in a row; this bounds the memory for one row.
const IDS_PER_ROW_MAX: u64 = 1 << 20;

/// Rows of equal size, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes before the first row.
    pub(crate) header_bytes: u64,
    /// Rows in the file.
    pub(crate) rows: u64,
    /// Numbers in each row.
    pub(crate) width: u64,
    /// Whether each row begins with its width, as a 32-bit number.
    pub(crate) prefixed: bool,
    /// The kind of the numbers.
    pub(crate) element: Element,
}

impl Layout {
    /// Bytes of one row, prefix included; `None` if the number overflows.
    pub(crate) fn row_bytes(&self) -> Option<u64> {
        let numbers = self.width.checked_mul(self.element.bytes() as u64)?;
        numbers.checked_add(if self.prefixed { 4 } else { 0 })
    }

    /// Bytes of the whole file; `None` if the number overflows.
    pub(crate) fn file_bytes(&self) -> Option<u64> {
        self.row_bytes()?.checked_mul(self.rows)?.checked_add(self.header_bytes)
    }

    /// Refuses a layout whose length is not `file_bytes`.
    pub(crate) fn check_length(&self, path: &Path, file_bytes: u64) -> Result<(), Error> {
        let Self { rows, width, element, .. } = self;
        let promised = format!("its header promises {rows} x {width} {} numbers", element.name());
        let Some(expected) = self.file_bytes() else {
            return refuse(path, format!("{promised}, more than any file holds"));
        };
        if file_bytes < expected {
            let missing = expected - file_bytes;
            return refuse(
                path,
                format!(
                    "{promised}, {expected} bytes in all; the file has {file_bytes}, {missing} \
                     fewer: copy or download it again"
                ),
            );
        }
        if file_bytes > expected {
            let extra = file_bytes - expected;
            return refuse(
                path,
                format!(
                    "{promised}, {expected} bytes in all; the file has {file_bytes}, {extra} \
                     more: is it another format than its name says?"
                ),
            );
        }
        Ok(())
    }

    /// Refuses a layout whose rows an index cannot take as vectors.
    pub(crate) fn check_vectors(&self, path: &Path) -> Result<(), Error> {
        if !self.element.is_component() {
            return refuse(
                path,
                format!(
                    "it holds {} numbers; vectors are float32, float16, float64, uint8 or int8",
                    self.element.name()
                ),
            );
        }
        self.check_rows(path)?;
        if !(1..=DIM_MAX as u64).contains(&self.width) {
            let width = self.width;
            return refuse(path, format!("its vectors have {width} dimensions; 1 to {DIM_MAX} are accepted"));
        }
        Ok(())
    }

    /// Refuses a layout whose rows are not ids.
    pub(crate) fn check_ids(&self, path: &Path) -> Result<(), Error> {
        if !self.element.is_id() {
            return refuse(
                path,
                format!("it holds {} numbers; ids are int64, uint64, int32 or uint32", self.element.name()),
            );
        }
        if self.width > IDS_PER_ROW_MAX {
            let width = self.width;
            return refuse(path, format!("its rows have {width} ids; up to {IDS_PER_ROW_MAX} are accepted"));
        }
        self.check_rows(path)
    }

    fn check_rows(&self, path: &Path) -> Result<(), Error> {
        if self.rows == 0 || self.width == 0 {
            return refuse(path, format!("it is empty: {} x {} numbers", self.rows, self.width));
        }
        Ok(())
    }
}

/// An error about the content of `path`.
pub(crate) fn refuse<T>(path: &Path, what: impl std::fmt::Display) -> Result<T, Error> {
    Err(Error::Format { what: format!("{}: {what}", path.display()) })
}
