//! The rows of running statements that are in their tables and wait to be added to an index.
//!
//! They are kept by index and subtransaction: if a subtransaction fails, its rows are forgotten.

use std::cell::RefCell;

use pagehop_engine::Value;
use pgrx::pg_sys;

use crate::rows::memory;

/// Bytes of a tag, which is a number in decimal digits.
const TAG_BYTES: usize = size_of::<String>() + 20;

/// Rows that one subtransaction has for an index.
pub(super) struct Rows {
    pub(super) index: pg_sys::Oid,
    subtransaction: pg_sys::SubTransactionId,
    /// Most rows that wait.
    room: usize,
    pub(super) row_ids: Vec<u64>,
    /// The vectors of the rows, one after the other.
    pub(super) vectors: Vec<f32>,
    /// The values of the rows' filter columns, one row after the other.
    pub(super) values: Vec<Value>,
    /// The number of tags in `values`.
    tags: usize,
    /// Whether the rows are being added. If this is still so when the next row comes, an error
    /// ended the addition.
    are_taken: bool,
}

/// The result of [`take`].
pub(super) enum Taken {
    Nothing,
    Rows {
        subtransaction: pg_sys::SubTransactionId,
        row_ids: Vec<u64>,
        vectors: Vec<f32>,
        values: Vec<Value>,
    },
    /// Some of the rows were added when an error came, which the statement survived.
    Lost,
}

thread_local! {
    static WAITING: RefCell<Vec<Rows>> = const { RefCell::new(Vec::new()) };
}

/// Adds a row to those that wait for `index`. If it is the first, `room` is the largest number of
/// rows that may wait.
pub(super) fn add(
    index: pg_sys::Oid,
    subtransaction: pg_sys::SubTransactionId,
    room: impl FnOnce() -> usize,
    row_id: u64,
    vector: &[f32],
    values: &[Value],
) {
    let is_known = WAITING.with_borrow(|waiting| waiting.iter().any(|rows| rows.is_of(index, subtransaction)));
    // This may raise an error, and then nothing may be borrowed.
    let new = (!is_known).then(|| Rows {
        index,
        subtransaction,
        room: room(),
        row_ids: Vec::new(),
        vectors: Vec::new(),
        values: Vec::new(),
        tags: 0,
        are_taken: false,
    });
    // An error is not raised while anything is borrowed.
    let refused = WAITING.with_borrow_mut(|waiting| {
        waiting.extend(new);
        let rows = waiting.iter_mut().find(|rows| rows.is_of(index, subtransaction));
        let rows = rows.expect("it was known, or is new");
        let bytes = size_of_val(rows.vectors.as_slice());
        let has_room =
            rows.vectors.try_reserve(vector.len()).is_ok() && rows.values.try_reserve(values.len()).is_ok();
        if has_room && rows.row_ids.try_reserve(1).is_ok() {
            rows.row_ids.push(row_id);
            rows.vectors.extend_from_slice(vector);
            rows.values.extend_from_slice(values);
            rows.tags += values.iter().map(tags).sum::<usize>();
            return None;
        }
        Some(2 * bytes)
    });
    if let Some(bytes) = refused {
        memory::refuse(bytes);
    }
}

fn tags(value: &Value) -> usize {
    if let Value::Tags(tags) = value { tags.len() } else { 0 }
}

/// Whether the largest number of rows waits.
pub(super) fn are_enough(index: pg_sys::Oid, subtransaction: pg_sys::SubTransactionId) -> bool {
    WAITING.with_borrow(|waiting| {
        let rows = waiting.iter().find(|rows| rows.is_of(index, subtransaction));
        rows.is_some_and(|rows| rows.row_ids.len() >= rows.room || rows.are_taken)
    })
}

/// Bytes of all rows that wait.
pub(super) fn bytes() -> u64 {
    WAITING.with_borrow(|waiting| waiting.iter().map(Rows::bytes).sum())
}

/// An index that rows wait for.
pub(super) fn any_index() -> Option<pg_sys::Oid> {
    WAITING.with_borrow(|waiting| waiting.first().map(|rows| rows.index))
}

/// Takes rows that wait for `index`. They are to be added, and then to be [`forget`]ten.
pub(super) fn take(index: pg_sys::Oid) -> Taken {
    WAITING.with_borrow_mut(|waiting| {
        let Some(rows) = waiting.iter_mut().find(|rows| rows.index == index) else { return Taken::Nothing };
        if std::mem::replace(&mut rows.are_taken, true) {
            return Taken::Lost;
        }
        let (row_ids, vectors) = (std::mem::take(&mut rows.row_ids), std::mem::take(&mut rows.vectors));
        let values = std::mem::take(&mut rows.values);
        rows.tags = 0;
        Taken::Rows { subtransaction: rows.subtransaction, row_ids, vectors, values }
    })
}

/// Forgets the rows that a subtransaction has for `index`.
pub(super) fn forget(index: pg_sys::Oid, subtransaction: pg_sys::SubTransactionId) {
    WAITING.with_borrow_mut(|waiting| waiting.retain(|rows| !rows.is_of(index, subtransaction)));
}

/// Forgets the rows that wait for an index that is gone.
pub(super) fn forget_index(index: pg_sys::Oid) {
    WAITING.with_borrow_mut(|waiting| waiting.retain(|rows| rows.index != index));
}

/// Forgets the rows of a subtransaction that fails and of those within it, which began later.
pub(super) fn forget_since(subtransaction: pg_sys::SubTransactionId) {
    WAITING.with_borrow_mut(|waiting| waiting.retain(|rows| rows.subtransaction < subtransaction));
}

/// Forgets all rows, at the end of a transaction.
pub(super) fn forget_all() {
    WAITING.with_borrow_mut(Vec::clear);
}

impl Rows {
    fn bytes(&self) -> u64 {
        let values = size_of_val(self.values.as_slice()) + TAG_BYTES * self.tags;
        (size_of_val(self.vectors.as_slice()) + values) as u64
    }

    fn is_of(&self, index: pg_sys::Oid, subtransaction: pg_sys::SubTransactionId) -> bool {
        self.index == index && self.subtransaction == subtransaction
    }
}
