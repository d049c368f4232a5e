//! The pages of one column.
//!
//! The crate `parquet` decompresses Snappy, gzip and LZ4 itself. For Zstandard it uses a library in
//! C. So a page that is compressed with Zstandard is read as if it were not compressed, and a
//! decoder in Rust decompresses it here.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parquet::basic::Compression;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use ruzstd::decoding::StreamingDecoder;

/// Most bytes of a decompressed page. Parquet counts them in 32 bits.
const PAGE_BYTES_MAX: u64 = i32::MAX as u64;
/// Most list elements in pages that the decoder has and that were not taken yet. A page of a few
/// bytes can claim billions of missing elements, and all of them may be in one row.
const ELEMENTS_MAX: usize = 1 << 24;

/// List elements in pages that the decoder has and did not return yet.
#[derive(Clone, Default)]
pub(super) struct Unread(Arc<AtomicUsize>);

impl Unread {
    pub(super) fn was_read(&self, elements: usize) {
        let left = self.0.load(Ordering::Relaxed).saturating_sub(elements);
        self.0.store(left, Ordering::Relaxed);
    }

    fn came(&self, elements: u32) -> Result<()> {
        let unread = self.0.load(Ordering::Relaxed).saturating_add(elements as usize);
        self.0.store(unread, Ordering::Relaxed);
        if unread <= ELEMENTS_MAX {
            return Ok(());
        }
        Err(ParquetError::General(format!("a page has {unread} list elements, up to {ELEMENTS_MAX} are read")))
    }
}

/// The pages of a column in a row group.
pub(super) struct Pages {
    pages: SerializedPageReader<File>,
    is_zstd: bool,
    /// Counts list elements, if the column has lists.
    unread: Option<Unread>,
}

impl Pages {
    pub(super) fn open(
        file: &Arc<File>,
        group: &RowGroupMetaData,
        column: usize,
        unread: Option<Unread>,
    ) -> Result<Self> {
        let mut chunk = group.column(column).clone();
        let compression = chunk.compression();
        let is_zstd = matches!(compression, Compression::ZSTD(_));
        if is_zstd {
            chunk = chunk.into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        }
        let pages = SerializedPageReader::new(file.clone(), &chunk, group.num_rows() as usize, None)?;
        Ok(Self { pages, is_zstd, unread })
    }
}

/// The compression of a column in a row group, if this program cannot read it.
pub(super) fn unreadable(group: &RowGroupMetaData, column: usize) -> Option<&'static str> {
    match group.column(column).compression() {
        Compression::BROTLI(_) => Some("Brotli"),
        Compression::LZO => Some("LZO"),
        _ => None,
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = match self.pages.get_next_page()? {
            Some(page) if self.is_zstd => decompressed(page)?,
            Some(page) => page,
            None => return Ok(None),
        };
        if let (Page::DataPage { .. } | Page::DataPageV2 { .. }, Some(unread)) = (&page, &self.unread) {
            unread.came(page.num_values())?;
        }
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

fn decompressed(mut page: Page) -> Result<Page> {
    match &mut page {
        Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => *buf = unpacked(buf, 0)?.into(),
        // Its levels are not compressed.
        Page::DataPageV2 { buf, is_compressed: true, rep_levels_byte_len, def_levels_byte_len, .. } => {
            *buf = unpacked(buf, *rep_levels_byte_len as usize + *def_levels_byte_len as usize)?.into();
        }
        Page::DataPageV2 { .. } => {}
    }
    Ok(page)
}

/// Decompresses `bytes` from `start` on, and copies those before.
fn unpacked(bytes: &[u8], start: usize) -> Result<Vec<u8>> {
    let wrong = |error: &dyn std::fmt::Display| ParquetError::General(format!("Zstandard: {error}"));
    let Some((levels, packed)) = bytes.split_at_checked(start) else {
        return Err(wrong(&"a page is shorter than its levels"));
    };
    let mut unpacked = levels.to_vec();
    if !packed.is_empty() {
        let decoder = StreamingDecoder::new(packed).map_err(|error| wrong(&error))?;
        decoder.take(PAGE_BYTES_MAX).read_to_end(&mut unpacked).map_err(|error| wrong(&error))?;
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use parquet::basic::Encoding;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn buffer(page: Page) -> Vec<u8> {
        decompressed(page).expect("a page").buffer().to_vec()
    }

    #[test]
    fn pages_of_zstandard_are_decompressed() {
        let values: Vec<u8> = (0..10_000u32).map(|at| (at % 7) as u8).collect();
        let packed = compress_to_vec(values.as_slice(), CompressionLevel::Fastest);
        assert!(packed.len() < values.len() / 2);
        let (encoding, num_values) = (Encoding::PLAIN, 1);
        let dictionary =
            |buf: Vec<u8>| Page::DictionaryPage { buf: buf.into(), num_values, encoding, is_sorted: false };
        assert_eq!(buffer(dictionary(packed.clone())), values);
        assert_eq!(buffer(dictionary(Vec::new())), Vec::<u8>::new());
        let second = |buf: Vec<u8>, levels, is_compressed| Page::DataPageV2 {
            buf: buf.into(),
            num_values,
            encoding,
            num_nulls: 0,
            num_rows: 1,
            def_levels_byte_len: levels,
            rep_levels_byte_len: 1,
            is_compressed,
            statistics: None,
        };
        let with_levels = [b"abc".as_slice(), &packed].concat();
        assert_eq!(buffer(second(with_levels.clone(), 2, true)), [b"abc".as_slice(), &values].concat());
        assert_eq!(buffer(second(with_levels.clone(), 2, false)), with_levels);
        let refused = |page| decompressed(page).expect_err("damaged").to_string();
        assert!(refused(second(packed.clone(), u32::MAX, true)).contains("shorter than its levels"));
        assert!(refused(dictionary(packed[..packed.len() / 2].to_vec())).contains("Zstandard"));
        assert!(refused(dictionary(b"something else".to_vec())).contains("Zstandard"));
    }

    #[test]
    fn elements_that_wait_are_bounded() {
        let unread = Unread::default();
        assert!(unread.came(ELEMENTS_MAX as u32).is_ok());
        assert!(unread.came(1).is_err());
        unread.was_read(ELEMENTS_MAX);
        assert!(unread.came(1).is_ok());
        assert!(unread.came(u32::MAX).is_err());
    }
}
