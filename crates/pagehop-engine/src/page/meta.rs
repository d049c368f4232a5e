//! The meta page: what an index must know before it can read anything else.

use std::sync::Arc;

use crate::calibration::Calibration;
use crate::columns::row_bytes;
use crate::ids::NodeId;
use crate::page::fields::{Fields, FieldsMut};
use crate::page::kept_vectors::KeptShape;
use crate::page::layout::{COMMIT_END, FreeLink, NodeLayout};
use crate::page::{BODY_BYTES, MAGIC, PageId, Reader};
use crate::quantize::edge::EdgeShape;
use crate::quantize::estimate::CENTROIDS_MAX;
use crate::quantize::own;
use crate::quantize::prepare::inner_dim;
use crate::reports::Audit;
use crate::{Error, Metric, RowIds, Vectors};

/// Version of the format that this build reads and writes: `docs/format.md`. A number is never used
/// for another format; 1 to 6 were before the first release.
pub(crate) const FORMAT_VERSION: u32 = 12;
/// Most dimensions a user's vector may have.
pub(crate) const DIM_MAX: usize = 4096;
/// Bytes of the meta page's body that are in use.
const META_BYTES: usize = 228;
/// Where the number of the last commit is.
const COMMIT_AT: usize = 64;
/// Where the bytes of the values of a row's columns are counted.
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
    pub(crate) row_ids: RowIds,
    pub(crate) vectors: Vectors,
    /// Whether rows may have payloads.
    pub(crate) keeps_payloads: bool,
    /// Whether there are columns of tags.
    pub(crate) has_tags: bool,
    /// Rows that a reader of snapshot `commit` sees; under [`RowIds::HostOwned`] living nodes.
    pub(crate) rows: u64,
    /// Pages that exist at least.
    pub(crate) page_count: u32,
    pub(crate) norm_sq_max: f32,
    pub(crate) change: ChangeState,
    /// What was measured of it; outlives training.
    pub(crate) calibration: Option<Arc<Calibration>>,
    /// What was found when searches were measured last; outlives training.
    pub(crate) audit: Option<Audit>,
}

/// What changes keep account of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ChangeState {
    /// Number of the last commit; 0 after a bulk build. Under [`RowIds::HostOwned`] the number of
    /// steps that changed this page.
    pub(crate) commit: u64,
    /// First page of the model; 0 if there is none. Another model starts elsewhere.
    pub(crate) model_start: u32,
    /// Page of the entry points; 0 if there is no model.
    pub(crate) entries_page: u32,
    /// Root of the map from row ids to nodes; 0 if there is none: without a model, or under
    /// [`RowIds::HostOwned`].
    pub(crate) id_root: u32,
    /// First page of the list of pages with free slots; 0 if it is empty.
    pub(crate) free_head: u32,
    /// Slots that are free.
    pub(crate) free_slots: u32,
    /// First page of the list of dead nodes; 0 if it is empty.
    pub(crate) dead_head: u32,
    /// Dead nodes.
    pub(crate) dead_rows: u64,
    /// Rows that the model was trained on; equal ones count once.
    pub(crate) trained_rows: u64,
    /// Rows whose vector duplicates an earlier row's. `rows - equal_rows` is the number of distinct
    /// vectors; deleted duplicates are still counted.
    pub(crate) equal_rows: u64,
    /// Rows added and rows deleted since then; a replaced row is both.
    pub(crate) added_rows: u64,
    pub(crate) deleted_rows: u64,
    /// Two numbers of the caller's, changed by the commits that say so.
    pub(crate) mark: [u64; 2],
    /// Pages from 1 up to this belong to a graph that was replaced by commit `retired_at`; 0 if
    /// none do.
    pub(crate) retired_end: u32,
    pub(crate) retired_at: u64,
    /// Pages from this one to the end are of a graph that was never completed; 0 if there are none.
    /// Only hosts that make each step durable by itself leave one.
    pub(crate) unfinished: u32,
    /// First page of the list of pending row ids; 0 if there is none.
    pub(crate) pending_head: u32,
    /// `commit` of the time that entries left that list last.
    pub(crate) pending_since: u64,
    /// How far the vectors that the model was trained on may be, in the user's space, from those
    /// that the user gave: some were read back from codes. Under cosine of vectors of length 1.
    pub(crate) recoded_error: f32,
    /// Inner product: largest squared norm, above `norm_sq_max`, of the rows that were added since
    /// the model was trained; 0 if there is none.
    pub(crate) norm_sq_beyond: f32,
    /// Landmarks in their chain of pages.
    pub(crate) landmarks: u32,
    /// The page of the columns; 0 if there are none.
    pub(crate) columns_page: u32,
    /// A node that may lack postings, because the change that wrote it did not finish; 0 if there
    /// is none. Only hosts that make each step durable by itself leave one.
    pub(crate) unposted: NodeId,
    /// First page of the newest group of pages for kept vectors, 0 if there is none, and how many
    /// of its places belong to pages of nodes.
    pub(crate) kept_page: u32,
    pub(crate) kept_used: u32,
    /// First page of the list of pages of payloads with room; 0 if it is empty.
    pub(crate) payload_head: u32,
    /// First page of the list of empty pages of payloads; 0 if it is empty.
    pub(crate) payload_empty: u32,
    /// First page of the chain of landmarks; 0 if there are none and never will be.
    pub(crate) landmarks_head: u32,
    /// Page of the chain that takes the next landmark.
    pub(crate) landmarks_page: u32,
    /// Landmarks that insertions have written since the model was trained, modulo 2^32.
    pub(crate) landmarks_made: u32,
}

impl Meta {
    /// The meta page of an index without rows, whose nodes have `words` values.
    pub(crate) fn empty(metric: Metric, dim: usize, words: usize, seed: u64, row_ids: RowIds) -> Self {
        Self {
            metric,
            dim,
            layout: NodeLayout::choose(inner_dim(dim), words),
            centroids: 0,
            query_digits: 1,
            seed,
            row_ids,
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

    /// Writes the page's body; what is beyond the fields stays.
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
        fields.bytes(&[l.column_bytes as u8, vectors, self.row_ids as u8, records]);
        debug_assert_eq!(fields.position(), COMMIT_AT);
        self.change.write(&mut fields);
        debug_assert!(fields.position() <= META_BYTES);
        if let Some(calibration) = &self.calibration {
            calibration.write(body);
        }
        if let Some(audit) = &self.audit {
            audit.write(body);
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
        let [_, vectors, row_ids, records] = fields.bytes();
        let (vectors, row_ids) = match (vectors, row_ids, records) {
            (0, 1, 0 | 2) => (Vectors::Codes, RowIds::HostOwned),
            (0..=2, 0 | 2, 0..=3) => (
                [Vectors::Codes, Vectors::Float16, Vectors::Float32][usize::from(vectors)],
                if row_ids == 2 { RowIds::Text } else { RowIds::Mapped },
            ),
            other => return Err(bad(&format!("vectors, row ids and records are {other:?}"))),
        };
        let change = ChangeState::read(&mut fields);
        let meta = Self {
            metric,
            dim,
            layout,
            centroids,
            query_digits: query_digits.into(),
            seed,
            row_ids,
            vectors,
            keeps_payloads: records & 1 == 1,
            has_tags: records & 2 == 2,
            rows,
            page_count,
            norm_sq_max,
            change,
            calibration: Calibration::read(body)?.map(Arc::new),
            audit: Audit::read(body)?,
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
            c.payload_head,
            c.payload_empty,
            c.landmarks_head,
            c.landmarks_page,
        ];
        if let Some(page) = pages.iter().find(|page| **page >= self.page_count.max(1)) {
            return bad(format!("it names page {page} of {}", self.page_count));
        }
        if c.retired_end.max(c.unfinished) > self.page_count || c.commit.max(c.retired_at) >= COMMIT_END {
            return bad(format!(
                "commit {}, graph retired by commit {} up to page {}",
                c.commit, c.retired_at, c.retired_end
            ));
        }
        Ok(())
    }
}

impl ChangeState {
    /// Counts a slot that a node takes.
    pub(crate) fn take_free_slot(&mut self) -> Result<(), Error> {
        let slots = self.free_slots.checked_sub(1);
        self.free_slots =
            slots.ok_or_else(|| Error::corrupt(PageId(0), "it counts no free slot where there is one"))?;
        Ok(())
    }

    /// Puts a page of nodes, of which `slots` became free, at the head of the list of pages with
    /// free slots.
    pub(crate) fn list_free(&mut self, page: PageId, body: &mut [u8], slots: usize) {
        FreeLink { listed: true, next: self.free_head }.write(body);
        self.free_head = page.0;
        self.add_free_slots(slots);
    }

    /// Counts slots that became free.
    pub(crate) fn add_free_slots(&mut self, slots: usize) {
        self.free_slots = self.free_slots.wrapping_add(slots as u32);
    }

    /// Counts a dead node that is taken out.
    pub(crate) fn take_dead_row(&mut self) -> Result<(), Error> {
        let rows = self.dead_rows.checked_sub(1);
        self.dead_rows =
            rows.ok_or_else(|| Error::corrupt(PageId(0), "it counts no dead node where there is one"))?;
        Ok(())
    }

    fn read(fields: &mut Fields<'_>) -> Self {
        let [commit, dead_rows, trained_rows, added_rows, deleted_rows] = std::array::from_fn(|_| fields.u64());
        let [mark_0, mark_1, retired_at] = std::array::from_fn(|_| fields.u64());
        let [model_start, entries_page, id_root, free_head, dead_head, retired_end, free_slots, unfinished] =
            std::array::from_fn(|_| fields.u32());
        Self {
            commit,
            model_start,
            entries_page,
            id_root,
            free_head,
            free_slots,
            dead_head,
            dead_rows,
            trained_rows,
            added_rows,
            deleted_rows,
            mark: [mark_0, mark_1],
            retired_end,
            retired_at,
            unfinished,
            recoded_error: fields.f32(),
            equal_rows: fields.u64(),
            pending_head: fields.u32(),
            pending_since: fields.u64(),
            norm_sq_beyond: fields.f32(),
            landmarks: fields.u32(),
            columns_page: fields.u32(),
            unposted: fields.u32(),
            kept_page: fields.u32(),
            kept_used: fields.u32(),
            payload_head: fields.u32(),
            payload_empty: fields.u32(),
            landmarks_head: fields.u32(),
            landmarks_page: fields.u32(),
            landmarks_made: fields.u32(),
        }
    }

    fn write(&self, fields: &mut FieldsMut<'_>) {
        for number in [self.commit, self.dead_rows, self.trained_rows, self.added_rows, self.deleted_rows] {
            fields.u64(number);
        }
        for number in [self.mark[0], self.mark[1], self.retired_at] {
            fields.u64(number);
        }
        let pages = [self.model_start, self.entries_page, self.id_root, self.free_head, self.dead_head];
        for number in pages.into_iter().chain([self.retired_end, self.free_slots, self.unfinished]) {
            fields.u32(number);
        }
        fields.f32(self.recoded_error);
        fields.u64(self.equal_rows);
        fields.u32(self.pending_head);
        fields.u64(self.pending_since);
        fields.f32(self.norm_sq_beyond);
        fields.u32(self.landmarks);
        fields.u32(self.columns_page);
        fields.u32(self.unposted);
        fields.u32(self.kept_page);
        fields.u32(self.kept_used);
        fields.u32(self.payload_head);
        fields.u32(self.payload_empty);
        fields.u32(self.landmarks_head);
        fields.u32(self.landmarks_page);
        fields.u32(self.landmarks_made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut meta = Meta::empty(Metric::Cosine, 384, 1, 7, RowIds::HostOwned);
        (meta.has_tags, meta.change.columns_page, meta.page_count) = (true, 1, 2);
        assert_eq!(Meta::decode(&meta.encode()).expect("an empty index"), meta);
        meta.rows = 20;
        (meta.row_ids, meta.keeps_payloads, meta.has_tags) = (RowIds::Text, true, true);
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
            unfinished: 15,
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
            payload_head: 26,
            payload_empty: 27,
            landmarks_head: 28,
            landmarks_page: 29,
            landmarks_made: 30,
        };
        let body = meta.encode();
        assert_eq!(Meta::decode(&body).expect("a whole meta page"), meta);
        assert_eq!(Fields::at(&body, COMMIT_AT).u64(), 1 << 40);
    }
}
