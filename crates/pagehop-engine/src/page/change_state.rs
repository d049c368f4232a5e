//! The part of the meta page about changes: lists, counts, and the graphs that pages belong to.

use crate::Error;
use crate::ids::{NodeId, PageId};
use crate::page::fields::{Fields, FieldsMut};
use crate::page::kind::{self, GRAPHS, PageKind, known_kind};
use crate::page::layout::FreeLink;

/// The state of a graph that will replace the graph of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Making {
    /// There is no new graph.
    #[default]
    None = 0,
    /// A writer makes the graph while it is the only writer. If that writer is gone, the graph is
    /// never finished.
    Alone = 1,
    /// It is made beside other writers.
    Beside = 2,
    /// The same, and each row that is inserted goes into the new graph, too.
    Joined = 3,
}

/// Numbers of graphs, modulo [`GRAPHS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GraphNumbers {
    /// The graph that searches use.
    pub(crate) current: u8,
    /// The number that was given out last.
    pub(crate) last: u8,
    /// Pages below `retired_end` may have the numbers from this one to `last`.
    pub(crate) oldest: u8,
}

impl GraphNumbers {
    /// The number of the next graph; `None` as long as pages may have that number.
    pub(crate) fn next(self) -> Option<u8> {
        let next = (self.last + 1) % GRAPHS;
        (next != self.oldest).then_some(next)
    }

    /// Refuses a page of a graph that does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`], also for an unknown kind.
    pub(crate) fn check(self, page: PageId, body: &[u8]) -> Result<PageKind, Error> {
        let (kind, graph) = (known_kind(page, body)?, kind::graph(body));
        let after_oldest = |number: u8| number.wrapping_sub(self.oldest) % GRAPHS;
        if kind != PageKind::Empty && after_oldest(graph) > after_oldest(self.last) {
            return Err(Error::corrupt(page, format!("it is of graph {graph}, and there is {self:?}")));
        }
        Ok(kind)
    }
}

/// The counts and lists that changes maintain.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ChangeState {
    /// Number of the last commit; 0 after a bulk build. Under [`IdKind::HostOwned`] the number of
    /// steps that changed this page.
    pub(crate) commit: u64,
    /// First page of the model; 0 if there is none. Another model starts elsewhere.
    pub(crate) model_start: u32,
    /// Page of the entry points; 0 if there is no model.
    pub(crate) entries_page: u32,
    /// Root of the map from row ids to nodes; 0 if there is none: without a model, or under
    /// [`IdKind::HostOwned`].
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
    /// Rows whose vector duplicates an earlier row's. `rows - equal_rows` is about the number of
    /// distinct vectors: see [`ChangeState::count_dead_row`].
    pub(crate) equal_rows: u64,
    /// Rows added and rows deleted since the model was trained; a replaced row counts as both.
    pub(crate) added_rows: u64,
    pub(crate) deleted_rows: u64,
    /// Two numbers of the caller, which a commit sets if it has new ones.
    pub(crate) mark: [u64; 2],
    /// Pages from 1 up to this belong to a graph that was replaced by commit `retired_at`; 0 if
    /// none do. Under [`IdKind::HostOwned`] only the pages among them that are empty, or of another
    /// graph than the current one.
    pub(crate) retired_end: u32,
    pub(crate) retired_at: u64,
    /// Under [`IdKind::HostOwned`]: the meta page of the new graph, if it is made beside this one;
    /// else 0.
    pub(crate) shadow: u32,
    /// Pages that were reserved for graphs that are made beside others, and may be empty: from the
    /// first to the second, exclusive. There may be other pages among them.
    pub(crate) reserved: [u32; 2],
    /// Numbers of graphs; 0 unless [`IdKind::HostOwned`].
    pub(crate) numbers: GraphNumbers,
    /// The state of the new graph. Only hosts that make each step durable by itself can have an
    /// unfinished one.
    pub(crate) making: Making,
    /// First page of the list of pending row ids; 0 if there is none.
    pub(crate) pending_head: u32,
    /// `commit` when entries last left that list.
    pub(crate) pending_since: u64,
    /// Largest distance, in the user's space, between a vector that the model was trained on and
    /// the one that the user gave: some were read back from codes. Under cosine, vectors have
    /// length 1.
    pub(crate) recoded_error: f32,
    /// Inner product: at least the largest squared norm, above `norm_sq_max`, of the rows that were
    /// added since the last build or calibration; 0 if there is none.
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
    /// First page of the list of pages of records with room; 0 if it is empty.
    pub(crate) records_head: u32,
    /// First page of the list of empty pages, which wait for any use; 0 if it is empty.
    pub(crate) spare_head: u32,
    /// First page of the chain of landmarks; 0 if there are none and never will be.
    pub(crate) landmarks_head: u32,
    /// Page of the chain that takes the next landmark.
    pub(crate) landmarks_page: u32,
    /// Landmarks that insertions have written since the model was trained, modulo 2^32.
    pub(crate) landmarks_made: u32,
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

    /// Counts a node that dies. We do not know whether it was a duplicate, so we assume that it was
    /// while any are counted. A wrong guess may cause an early training, which counts duplicates
    /// again. If we never assumed it, an index whose duplicates come and go would never be trained
    /// again.
    pub(crate) fn count_dead_row(&mut self) {
        self.dead_rows = self.dead_rows.wrapping_add(1);
        self.equal_rows = self.equal_rows.saturating_sub(1);
    }

    /// Counts a dead node that is taken out.
    pub(crate) fn take_dead_row(&mut self) -> Result<(), Error> {
        let rows = self.dead_rows.checked_sub(1);
        self.dead_rows =
            rows.ok_or_else(|| Error::corrupt(PageId(0), "it counts no dead node where there is one"))?;
        Ok(())
    }

    /// Reads the fields, which are in this order.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if graphs have impossible numbers.
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let [commit, dead_rows, trained_rows, added_rows, deleted_rows] = std::array::from_fn(|_| fields.u64());
        let [mark_0, mark_1, retired_at] = std::array::from_fn(|_| fields.u64());
        let [model_start, entries_page, id_root, free_head, dead_head, retired_end, free_slots, shadow] =
            std::array::from_fn(|_| fields.u32());
        let mut change = Self {
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
            shadow,
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
            records_head: fields.u32(),
            spare_head: fields.u32(),
            landmarks_head: fields.u32(),
            landmarks_page: fields.u32(),
            landmarks_made: fields.u32(),
            ..Self::default()
        };
        let [current, last, oldest, making] = fields.bytes();
        change.numbers = GraphNumbers { current, last, oldest };
        change.reserved = std::array::from_fn(|_| fields.u32());
        change.making = Making::of(making).filter(|making| change.is_possible(*making)).ok_or_else(|| {
            let what = format!("graphs {current}, {last}, {oldest}, state {making}, page {}", change.shadow);
            Error::corrupt(PageId(0), what)
        })?;
        Ok(change)
    }

    fn is_possible(&self, making: Making) -> bool {
        let GraphNumbers { current, last, oldest } = self.numbers;
        let is_beside = matches!(making, Making::Beside | Making::Joined);
        current.max(last).max(oldest) < GRAPHS && is_beside == (self.shadow != 0)
    }

    /// Begins a new graph; its pages get the number that this returns. If it is made beside others,
    /// pages are `reserved` for it, of which the first is its root. `None` if there is no free
    /// number: readers still use the pages of too many earlier graphs.
    pub(crate) fn begin_graph(&mut self, reserved: Option<[u32; 2]>) -> Option<u8> {
        self.numbers.last = self.numbers.next()?;
        (self.making, self.shadow) = (Making::Alone, 0);
        if let Some([root, end]) = reserved {
            (self.making, self.shadow) = (Making::Beside, root);
            let before = if self.reserved[1] == 0 { root } else { self.reserved[0] };
            self.reserved = [before, end];
        }
        Some(self.numbers.last)
    }

    /// Gives up the new graph. Its pages become free with those of retired graphs, which end at
    /// `end`. There must be no other writer.
    pub(crate) fn abandon_graph(&mut self, end: u32) {
        (self.making, self.shadow) = (Making::None, 0);
        self.retired_end = self.retired_end.max(end);
    }

    /// Makes the finished graph the graph of the index. `before` is the state of the old one. Pages
    /// up to `end` belong to either graph.
    pub(crate) fn show_graph(&mut self, before: &Self, end: u32, commit: u64) {
        let GraphNumbers { last, oldest, .. } = before.numbers;
        self.numbers = GraphNumbers { current: last, last, oldest };
        (self.retired_end, self.retired_at) = (end, commit.max(before.retired_at));
        (self.making, self.shadow) = (Making::None, 0);
        self.reserved = before.reserved;
    }

    /// Notes that all pages below `retired_end` that are in use belong to the current graph.
    pub(crate) fn end_sweep(&mut self) {
        self.retired_end = 0;
        self.numbers.oldest = self.numbers.current;
        if self.making == Making::None {
            self.numbers.last = self.numbers.current;
            self.reserved = [0; 2];
        }
    }

    pub(super) fn write(&self, fields: &mut FieldsMut<'_>) {
        for number in [self.commit, self.dead_rows, self.trained_rows, self.added_rows, self.deleted_rows] {
            fields.u64(number);
        }
        for number in [self.mark[0], self.mark[1], self.retired_at] {
            fields.u64(number);
        }
        let pages = [self.model_start, self.entries_page, self.id_root, self.free_head, self.dead_head];
        for number in pages.into_iter().chain([self.retired_end, self.free_slots, self.shadow]) {
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
        fields.u32(self.records_head);
        fields.u32(self.spare_head);
        fields.u32(self.landmarks_head);
        fields.u32(self.landmarks_page);
        fields.u32(self.landmarks_made);
        let GraphNumbers { current, last, oldest } = self.numbers;
        fields.bytes(&[current, last, oldest, self.making as u8]);
        self.reserved.iter().for_each(|page| fields.u32(*page));
    }
}

impl Making {
    fn of(byte: u8) -> Option<Self> {
        [Self::None, Self::Alone, Self::Beside, Self::Joined].into_iter().find(|making| *making as u8 == byte)
    }
}
