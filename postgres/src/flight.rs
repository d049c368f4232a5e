//! Reads of blocks that were begun and are not waited for yet, on PostgreSQL 18: each is an operation of its asynchronous I/O,
//! so several are under way while the engine scores what is there (`io_method` says who carries them out).
//!
//! An operation's buffer stays pinned until it is taken. Whoever begins reads must [`settle`](InFlight::settle) them before a
//! transaction may end. An error needs nothing of it: the end of its transaction gives back the pins.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use pgrx::pg_sys;

/// Most reads in flight of one scan.
const FLIGHTS_MAX: usize = 16;

/// Operations, each in a place of its own: the server writes into one until it has landed.
#[allow(clippy::vec_box, reason = "they must not move")]
type Flights = Vec<Box<Flight>>;

/// Reads in flight, the oldest first.
#[derive(Default)]
pub(crate) struct InFlight {
    flights: RefCell<Flights>,
}

struct Flight {
    operation: pg_sys::ReadBuffersOperation,
    buffer: pg_sys::Buffer,
    block: u32,
    /// Whether to wait for the page before it is used.
    is_reading: bool,
}

/// What came of beginning to read a block.
pub(crate) enum Begun {
    /// It is on its way.
    Reading,
    /// It was in this buffer.
    Present(pg_sys::Buffer),
    /// There is no room for it: it is read when it is needed.
    Not,
}

impl InFlight {
    /// Begins to read `block`, unless as many reads are in flight as the tablespace (`effective_io_concurrency`) or the server's
    /// buffers allow.
    ///
    /// # Safety
    ///
    /// `relation` is open and has the block.
    pub(crate) unsafe fn begin(&self, relation: pg_sys::Relation, block: u32) -> Begun {
        let mut flights = self.flights.borrow_mut();
        // SAFETY: the relation is open.
        if flights.iter().any(|flight| flight.block == block) || !unsafe { has_room(&mut flights, relation) } {
            return Begun::Not;
        }
        // SAFETY: the caller's promise. The operation outlives the read: it is leaked if nobody waits for it.
        unsafe {
            let mut flight = ManuallyDrop::new(Box::new(Flight {
                operation: pg_sys::ReadBuffersOperation {
                    rel: relation,
                    smgr: pg_sys::RelationGetSmgr(relation),
                    persistence: (*(*relation).rd_rel).relpersistence,
                    forknum: pg_sys::ForkNumber::MAIN_FORKNUM,
                    ..Default::default()
                },
                buffer: pg_sys::InvalidBuffer as pg_sys::Buffer,
                block,
                is_reading: false,
            }));
            let (operation, buffer) = (&raw mut flight.operation, &raw mut flight.buffer);
            let advice = pg_sys::READ_BUFFERS_ISSUE_ADVICE as i32;
            flight.is_reading = pg_sys::StartReadBuffer(operation, buffer, block, advice);
            let begun = if flight.is_reading { Begun::Reading } else { Begun::Present(flight.buffer) };
            flights.push(ManuallyDrop::into_inner(flight));
            begun
        }
    }

    /// The buffer of `block`, pinned, if it was begun; waits for the read.
    ///
    /// # Safety
    ///
    /// The relation that it was begun of is open.
    pub(crate) unsafe fn take(&self, block: u32) -> Option<pg_sys::Buffer> {
        let mut flights = self.flights.borrow_mut();
        let at = flights.iter().position(|flight| flight.block == block)?;
        let flight = flights.remove(at);
        // SAFETY: it was begun, and the relation is open.
        Some(unsafe { land(flight) })
    }

    /// Waits for all reads and gives their pins back.
    ///
    /// # Safety
    ///
    /// As [`InFlight::take`].
    pub(crate) unsafe fn settle(&self) {
        let mut flights = self.flights.borrow_mut();
        while let Some(flight) = flights.pop() {
            // SAFETY: the caller's promise; the pin is this one's.
            unsafe { pg_sys::ReleaseBuffer(land(flight)) };
        }
    }
}

impl Drop for InFlight {
    /// Flights are left only after an error, when no call into PostgreSQL is safe. The server may still write where
    /// they are: they are leaked.
    fn drop(&mut self) {
        self.flights.get_mut().drain(..).for_each(|flight| {
            Box::leak(flight);
        });
    }
}

/// Waits for a read.
///
/// # Safety
///
/// It was begun, and its relation is open.
unsafe fn land(flight: Box<Flight>) -> pg_sys::Buffer {
    // An error leaves the operation where it is.
    let mut flight = ManuallyDrop::new(flight);
    if flight.is_reading {
        // SAFETY: the caller's promise.
        unsafe { pg_sys::WaitReadBuffers(&raw mut flight.operation) };
    }
    ManuallyDrop::into_inner(flight).buffer
}

/// Whether one more read may begin. Pages that needed no reading make room.
///
/// # Safety
///
/// `relation` is open.
unsafe fn has_room(flights: &mut Flights, relation: pg_sys::Relation) -> bool {
    // SAFETY: the relation is open; calls by value.
    let (concurrency, pins) = unsafe {
        let concurrency = pg_sys::get_tablespace_io_concurrency((*(*relation).rd_rel).reltablespace);
        let is_local = (*(*relation).rd_rel).relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP;
        let pins = if is_local { pg_sys::GetAdditionalLocalPinLimit() } else { pg_sys::GetAdditionalPinLimit() };
        (usize::try_from(concurrency).unwrap_or(0), pins)
    };
    let most = concurrency.min(FLIGHTS_MAX);
    if flights.len() >= most
        && let Some(at) = flights.iter().position(|flight| !flight.is_reading)
    {
        // SAFETY: the pin is this flight's.
        unsafe { pg_sys::ReleaseBuffer(flights.remove(at).buffer) };
    }
    flights.len() < most && pins > 0
}
