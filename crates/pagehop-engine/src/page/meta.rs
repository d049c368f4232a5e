//! The meta page: the fields that must be known before any other page can be read.

use std::sync::Arc;

use crate::calibration::Calibration;
use crate::columns::row_bytes;
use crate::page::calibration;
pub(crate) use crate::page::change_state::{ChangeState, GraphNumbers, Making};
use crate::page::fields::{Fields, FieldsMut};
use crate::page::kept_vectors::KeptShape;
use crate::page::kind;
use crate::page::layout::{COMMIT_END, NodeLayout};
use crate::page::row_record::RecordShape;
use crate::page::{BODY_BYTES, MAGIC, PageId, Reader};
use crate::quantize::edge::EdgeShape;
use crate::quantize::estimate::CENTROIDS_MAX;
use crate::quantize::own;
use crate::quantize::prepare::inner_dim;
use crate::reports::Audit;
use crate::{DIM_MAX, Error, IdKind, Metric, Vectors};

/// Version of the format that this build reads and writes: `docs/format.md`. A number is never used
/// for another format.
pub(crate) const FORMAT_VERSION: u32 = 16;
/// End of the fields before calibration and audit.
const META_BYTES: usize = 240;
/// Where the number of the last commit is.
const COMMIT_AT: usize = 64;
/// Offset of the number of bytes that the values of a row's columns take.
const COLUMN_BYTES_AT: usize = 60;

/// Page 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Meta {
    pub(crate) metric: Metric,
    pub(crate) dim: usize,
    pub(crate) layout: NodeLayout,
    /// 0 as long as the index is empty and has no model.
    pub(crate) centroids: usize,
    /// Digits to which a query is quantized, 1 or 2.
    pub(crate) query_digits: usize,
    pub(crate) seed: u64,
    pub(crate) id_kind: IdKind,
    pub(crate) vectors: Vectors,
    /// Whether rows may have payloads.
    pub(crate) keeps_payloads: bool,
    /// Whether there are columns of tags.
    pub(crate) has_tags: bool,
    /// Rows that a reader of snapshot `commit` sees; under [`IdKind::HostOwned`] live nodes.
    pub(crate) rows: u64,
    /// Lower bound of the number of pages.
    pub(crate) page_count: u32,
    pub(crate) norm_sq_max: f32,
    pub(crate) change: ChangeState,
    /// The last calibration; it outlives training.
    pub(crate) calibration: Option<Arc<Calibration>>,
    /// The last audit; it outlives training.
    pub(crate) audit: Option<Audit>,
}

impl Meta {
    /// The meta page of an index without rows, whose nodes have `words` values.
    pub(crate) fn empty(metric: Metric, dim: usize, words: usize, seed: u64, id_kind: IdKind) -> Self {
        Self {
            metric,
            dim,
            layout: NodeLayout::choose(inner_dim(dim), words),
            centroids: 0,
            query_digits: 1,
            seed,
            id_kind,
            vectors: Vectors::Codes,
            keeps_payloads: false,
            has_tags: false,
            rows: 0,
            page_count: 1,
            norm_sq_max: 0.0,
            change: ChangeState::default(),
            calibration: None,
            audit: None,
        }
    }

    /// Under the inner product, the squared norm to which vectors are filled up: at least that of
    /// every row (`quantize/prepare.rs`).
    pub(crate) fn filled_sq(&self) -> Option<f32> {
        let longest = self.norm_sq_max.max(self.change.norm_sq_beyond);
        (self.metric == Metric::InnerProduct).then_some(longest)
    }

    /// How vectors are kept; `None` if they are not.
    pub(crate) fn kept(&self) -> Option<KeptShape> {
        KeptShape::new(self.vectors, self.dim, &self.layout)
    }

    /// The pages among the first `count` that may belong to the graph. If the host owns the rows,
    /// pages of other graphs are among them.
    pub(crate) fn graph_pages(&self, count: u32) -> std::ops::Range<u32> {
        match self.id_kind {
            IdKind::HostOwned => 1..count.max(1),
            _ => self.change.retired_end.max(1)..count.max(1),
        }
    }

    /// Whether this is a page of nodes of the graph.
    #[inline]
    pub(crate) fn has_nodes(&self, body: &[u8]) -> bool {
        kind::is_of_nodes(body, self.change.numbers.current)
    }

    /// Reads page 0.
    pub(crate) fn read(reader: &mut impl Reader) -> Result<Self, Error> {
        let meta = Self::decode(&reader.finish(PageId(0))?)?;
        reader.release();
        Ok(meta)
    }

    /// Reads the number of the last commit, from a page that was read as a meta page before.
    pub(crate) fn read_commit(reader: &mut impl Reader) -> Result<u64, Error> {
        let commit = Fields::at(&reader.finish(PageId(0))?, COMMIT_AT).u64();
        reader.release();
        Ok(commit)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = vec![0; BODY_BYTES];
        self.write(&mut body);
        body
    }

    /// Writes the page's body; bytes beyond the fields stay.
    pub(crate) fn write(&self, body: &mut [u8]) {
        let l = &self.layout;
        let metric = match self.metric {
            Metric::L2 => 0,
            Metric::InnerProduct => 1,
            Metric::Cosine => 2,
        };
        let mut fields = FieldsMut::at(body, 0);
        fields.bytes(MAGIC);
        fields.u32(FORMAT_VERSION);
        fields.bytes(&[metric, l.edge.bits as u8, own::BITS as u8, self.query_digits as u8]);
        for number in [self.dim, l.edge.dims, l.degree, l.nodes_per_page, self.centroids] {
            fields.u32(number as u32);
        }
        fields.f32(self.norm_sq_max);
        fields.u64(self.seed);
        fields.u64(self.rows);
        fields.u32(self.page_count);
        let vectors = match self.vectors {
            Vectors::Codes => 0,
            Vectors::Float16 => 1,
            Vectors::Float32 => 2,
        };
        let records = u8::from(self.keeps_payloads) | u8::from(self.has_tags) << 1;
        fields.bytes(&[l.column_bytes as u8, vectors, self.id_kind as u8, records]);
        debug_assert_eq!(fields.position(), COMMIT_AT);
        self.change.write(&mut fields);
        debug_assert!(fields.position() <= META_BYTES);
        if let Some(calibration) = &self.calibration {
            calibration::write(calibration, body);
        }
        if let Some(audit) = &self.audit {
            calibration::write_audit(audit, body);
        }
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, Error> {
        if !body.starts_with(MAGIC) {
            return Err(Error::Format { what: "this is not a Pagehop index".into() });
        }
        let mut fields = Fields::at(body, MAGIC.len());
        let version = fields.u32();
        if version != FORMAT_VERSION {
            let what = format!(
                "the index has format version {version}; this build reads version {FORMAT_VERSION}: rebuild the index"
            );
            return Err(Error::Format { what });
        }
        let [metric, bits, own_bits, query_digits] = fields.bytes();
        let [dim, dims, degree, nodes_per_page, centroids] = std::array::from_fn(|_| fields.u32() as usize);
        let bad = |what: &str| Error::corrupt(PageId(0), what);
        let metric = match metric {
            0 => Metric::L2,
            1 => Metric::InnerProduct,
            2 => Metric::Cosine,
            other => return Err(bad(&format!("metric {other} is not 0, 1 or 2"))),
        };
        if usize::from(own_bits) != own::BITS || !(1..=2).contains(&query_digits) {
            return Err(bad(&format!("own codes of {own_bits} bits and queries of {query_digits} digits")));
        }
        if !(1..=DIM_MAX).contains(&dim) {
            return Err(bad(&format!("{dim} dimensions are not between 1 and {DIM_MAX}")));
        }
        let edge = EdgeShape { dims, bits: bits.into() };
        let column_bytes = usize::from(body[COLUMN_BYTES_AT]);
        let layout = NodeLayout { inner_dim: inner_dim(dim), degree, edge, nodes_per_page, column_bytes };
        if !layout.is_valid() || centroids > CENTROIDS_MAX {
            return Err(bad(&format!("no node has the shape {layout:?} with {centroids} centroids")));
        }
        let norm_sq_max = fields.f32();
        let seed = fields.u64();
        let rows = fields.u64();
        let page_count = fields.u32();
        let [_, vectors, id_kind, records] = fields.bytes();
        let (vectors, id_kind) = match (vectors, id_kind, records) {
            (0, 1, 0 | 2) => (Vectors::Codes, IdKind::HostOwned),
            (0..=2, 0 | 2, 0..=3) => (
                [Vectors::Codes, Vectors::Float16, Vectors::Float32][usize::from(vectors)],
                if id_kind == 2 { IdKind::Text } else { IdKind::Int },
            ),
            other => return Err(bad(&format!("vectors, row ids and records are {other:?}"))),
        };
        let change = ChangeState::read(&mut fields)?;
        let meta = Self {
            metric,
            dim,
            layout,
            centroids,
            query_digits: query_digits.into(),
            seed,
            id_kind,
            vectors,
            keeps_payloads: records & 1 == 1,
            has_tags: records & 2 == 2,
            rows,
            page_count,
            norm_sq_max,
            change,
            calibration: calibration::read(body)?.map(Arc::new),
            audit: calibration::read_audit(body)?,
        };
        meta.validate()?;
        Ok(meta)
    }

    fn validate(&self) -> Result<(), Error> {
        let bad = |what: String| Err(Error::corrupt(PageId(0), what));
        let c = &self.change;
        if self.rows > u64::from(self.page_count) * self.layout.nodes_per_page as u64 {
            return bad(format!("{} rows do not fit {} pages", self.rows, self.page_count));
        }
        if !self.norm_sq_max.is_finite() || self.norm_sq_max < 0.0 {
            return bad(format!("largest squared length {}", self.norm_sq_max));
        }
        let has_none = self.centroids == 0;
        if has_none != (c.model_start == 0) || has_none != (c.entries_page == 0) || has_none && self.rows > 0 {
            return bad(format!(
                "{} rows with {} centroids from page {} and entry points on page {}",
                self.rows, self.centroids, c.model_start, c.entries_page
            ));
        }
        let has_chain = c.landmarks_head > 0;
        if c.landmarks > 0 && !has_chain || has_chain && has_none || has_chain != (c.landmarks_page > 0) {
            return bad(format!("{} landmarks from page {} on", c.landmarks, c.landmarks_head));
        }
        if u64::from(c.landmarks) > u64::from(self.page_count) * 64 {
            return bad(format!("{} landmarks on {} pages", c.landmarks, self.page_count));
        }
        let without_columns = row_bytes(usize::from(self.has_places()));
        if (c.columns_page == 0) != (self.layout.column_bytes == without_columns) {
            let bytes = self.layout.column_bytes;
            return bad(format!("columns on page {} take {bytes} bytes of a node", c.columns_page));
        }
        if !c.recoded_error.is_finite() || c.recoded_error < 0.0 {
            return bad(format!("vectors are off by {}", c.recoded_error));
        }
        if !c.norm_sq_beyond.is_finite() || c.norm_sq_beyond < 0.0 {
            return bad(format!("largest squared length {} of a row added", c.norm_sq_beyond));
        }
        let pages = [
            c.model_start,
            c.entries_page,
            c.id_root,
            c.free_head,
            c.dead_head,
            c.pending_head,
            c.columns_page,
            c.kept_page,
            c.records_head,
            c.spare_head,
            c.landmarks_head,
            c.landmarks_page,
        ];
        if let Some(page) = pages.iter().find(|page| **page >= self.page_count.max(1)) {
            return bad(format!("it names page {page} of {}", self.page_count));
        }
        if c.retired_end.max(c.shadow) > self.page_count || c.commit.max(c.retired_at) >= COMMIT_END {
            return bad(format!(
                "commit {}, graph retired by commit {} up to page {}",
                c.commit, c.retired_at, c.retired_end
            ));
        }
        Ok(())
    }

    /// Whether a node has the place of a record.
    pub(crate) fn has_places(&self) -> bool {
        self.keeps_payloads || self.record_shape() != RecordShape { tags: false, texts: false }
    }

    /// The number of columns.
    pub(crate) fn columns(&self) -> usize {
        let words = (self.layout.column_bytes / 8).saturating_sub(1);
        words.saturating_sub(usize::from(self.has_places()))
    }

    /// Whether the tags of a row are a chain of its postings: a host that owns the rows may end
    /// between any two steps, and a record would be left without its node.
    pub(crate) fn has_tag_chains(&self) -> bool {
        self.has_tags && self.id_kind == IdKind::HostOwned
    }

    /// The parts that records have.
    pub(crate) fn record_shape(&self) -> RecordShape {
        RecordShape { tags: self.has_tags && !self.has_tag_chains(), texts: self.id_kind == IdKind::Text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut meta = Meta::empty(Metric::Cosine, 384, 1, 7, IdKind::HostOwned);
        (meta.has_tags, meta.change.columns_page, meta.page_count) = (true, 1, 2);
        assert_eq!(Meta::decode(&meta.encode()).expect("an empty index"), meta);
        meta.rows = 20;
        (meta.id_kind, meta.keeps_payloads, meta.has_tags) = (IdKind::Text, true, true);
        meta.layout = NodeLayout::choose(384, 3);
        (meta.centroids, meta.page_count) = (3, 100);
        meta.change = ChangeState {
            commit: 1 << 40,
            model_start: 1,
            entries_page: 2,
            id_root: 3,
            free_head: 4,
            free_slots: 5,
            dead_head: 6,
            dead_rows: 7,
            trained_rows: 8,
            added_rows: 9,
            deleted_rows: 10,
            mark: [11, 12],
            retired_end: 13,
            retired_at: 14,
            shadow: 15,
            recoded_error: 16.0,
            equal_rows: 17,
            pending_head: 18,
            pending_since: 19,
            norm_sq_beyond: 20.0,
            landmarks: 21,
            columns_page: 22,
            unposted: 23,
            kept_page: 24,
            kept_used: 25,
            records_head: 26,
            spare_head: 27,
            landmarks_head: 28,
            landmarks_page: 29,
            landmarks_made: 30,
            numbers: GraphNumbers { current: 4, last: 5, oldest: 3 },
            making: Making::Joined,
            reserved: [31, 32],
        };
        let body = meta.encode();
        assert_eq!(Meta::decode(&body).expect("a whole meta page"), meta);
        assert_eq!(Fields::at(&body, COMMIT_AT).u64(), 1 << 40);
    }
}
