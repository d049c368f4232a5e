//! The page of the columns: their names and kinds, and where the tree of each begins.

use super::column_tree::Tree;
use super::fields::{Fields, FieldsMut};
use super::kind::{self, PageKind};
use super::postings::{PostingShape, Tagging};
use super::{BODY_BYTES, PageId, Reader};
use crate::Error;
use crate::columns::{COLUMN_NAME_MAX, COLUMNS_MAX, Column, ColumnKind, row_bytes, tag_columns};
use crate::page::meta::Meta;
use crate::row_ids::IdKind;

const COUNT_AT: usize = 2;
const FIRST_AT: usize = 40;
/// Kind, length of the name, two zeros, root, name.
const COLUMN_BYTES: usize = 72;

/// The columns of an index, and the roots of their trees; 0 as long as there are no rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Columns {
    pub(crate) columns: Vec<Column>,
    pub(crate) roots: Vec<PageId>,
}

impl Columns {
    /// Columns of an index without rows.
    pub(crate) fn without_trees(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), roots: vec![PageId(0); columns.len()] }
    }

    /// The tree of a column, in an index with this meta page.
    pub(crate) fn tree(&self, meta: &Meta, column: usize) -> Tree {
        let tagging = match self.columns[column].kind {
            ColumnKind::Tags if meta.has_tag_chains() => Tagging::Chains,
            ColumnKind::Tags => Tagging::Tags,
            _ => Tagging::None,
        };
        let (root, shape) = (self.roots[column], PostingShape::new(&meta.layout, tagging));
        Tree { root, column, shape, is_hosted: meta.id_kind == IdKind::HostOwned, newest: u64::MAX }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = vec![0; BODY_BYTES];
        kind::clear(&mut body, PageKind::Columns);
        body[COUNT_AT] = self.columns.len() as u8;
        for (at, (column, root)) in self.columns.iter().zip(&self.roots).enumerate() {
            let mut fields = FieldsMut::at(&mut body, FIRST_AT + at * COLUMN_BYTES);
            fields.bytes(&[column.kind.code(), column.name.len() as u8, 0, 0]);
            fields.u32(root.0);
            fields.bytes(column.name.as_bytes());
        }
        body
    }

    /// Reads the columns of an index; none if it has no page of them.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the page contradicts the format; any error of the reader.
    pub(crate) fn read(reader: &mut impl Reader, meta: &Meta) -> Result<Self, Error> {
        let page = PageId(meta.change.columns_page);
        if page.0 == 0 {
            return Ok(Self::default());
        }
        let columns = {
            let body = reader.finish(page)?;
            kind::expect_kind(page, &body, PageKind::Columns)?;
            Self::decode(page, &body)?
        };
        reader.release();
        let bytes = row_bytes(columns.columns.len() + usize::from(meta.has_places()));
        let has_tags = tag_columns(&columns.columns) > 0;
        let is_of_meta = bytes == meta.layout.column_bytes && has_tags == meta.has_tags;
        if !is_of_meta || columns.roots.iter().any(|root| root.0 >= meta.page_count) {
            let what = format!("its columns {columns:?} do not fit the meta page");
            return Err(Error::corrupt(page, what));
        }
        Ok(columns)
    }

    fn decode(page: PageId, body: &[u8]) -> Result<Self, Error> {
        let bad = |what: String| Error::corrupt(page, what);
        let count = usize::from(body[COUNT_AT]);
        if !(1..=COLUMNS_MAX).contains(&count) {
            return Err(bad(format!("it has {count} columns")));
        }
        let mut columns = Self::default();
        for at in 0..count {
            let mut fields = Fields::at(body, FIRST_AT + at * COLUMN_BYTES);
            let [kind, length, _, _] = fields.bytes();
            let root = PageId(fields.u32());
            let name: [u8; COLUMN_NAME_MAX] = fields.bytes();
            let kind = ColumnKind::of_code(kind).ok_or_else(|| bad(format!("column {at} has kind {kind}")))?;
            let name = name.get(..usize::from(length)).filter(|name| !name.is_empty());
            let name = name.and_then(|name| String::from_utf8(name.to_vec()).ok());
            let name =
                name.ok_or_else(|| bad(format!("the name of column {at} is not a text of 1 to 63 bytes")))?;
            columns.columns.push(Column { name, kind });
            columns.roots.push(root);
        }
        Ok(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let column = |name: &str, kind| Column { name: name.into(), kind };
        let columns = vec![column("topic", ColumnKind::Text), column(&"x".repeat(63), ColumnKind::Float)];
        let columns = Columns { columns, roots: vec![PageId(7), PageId(9)] };
        let body = columns.encode();
        assert_eq!(Columns::decode(PageId(1), &body).expect("a page of columns"), columns);
        for (at, byte) in
            [(COUNT_AT, 0), (COUNT_AT, 8), (FIRST_AT, 9), (FIRST_AT, 8), (FIRST_AT + 1, 0), (FIRST_AT + 1, 64)]
        {
            let mut body = body.clone();
            body[at] = byte;
            assert!(Columns::decode(PageId(1), &body).is_err(), "byte {at} is {byte}");
        }
    }
}
