//! Several searches of one thread at once, which take turns.
//!
//! While one search waits for a page, others go on, so that more reads are under way. Each takes
//! the same hops as it would take alone: its answer does not depend on the others, nor on the order
//! in which pages arrive.
//!
//! If all pages are in memory, no search waits, and queries are answered one after the other. Each
//! time that all searches wait, one more begins.

use std::sync::Arc;

use crate::index::search::running::Running;
use crate::index::search::walk::Turn;
use crate::index::state::{Newest, State};
use crate::page::{Pages, Reader};
use crate::{Error, SearchOptions, SearchResult};

/// Searches that begin before the newest state of the index is looked at again.
const SEARCHES_PER_STATE: usize = 256;
/// Fewest pages that a search reads ahead, if its options do not give a smaller number. All
/// searches together keep the storage busy, so each needs few.
const BEAM_WIDTH_MIN: usize = 2;

/// A query of a batch.
pub(super) struct Query<'q, T> {
    /// Its position in the batch.
    pub(super) at: usize,
    pub(super) vector: &'q [f32],
    /// Where its answer belongs.
    pub(super) place: T,
}

/// The searches of one thread, which share a reader.
pub(super) struct Together<'i, P: Pages + 'i, T, F> {
    newest: &'i Newest,
    state: Arc<State>,
    reader: P::Reader<'i>,
    k: usize,
    options: &'i SearchOptions,
    /// The first `under_way` of them have a query.
    seats: Vec<Seat<T>>,
    under_way: usize,
    /// Receives position, place and answer of each query. An error ends the work.
    answered: F,
}

/// Buffers of a search, and its query.
struct Seat<T> {
    search: Running,
    at: usize,
    place: Option<T>,
    /// Storage reads that the turns of this search caused.
    missed: u64,
}

impl<'i, P, T, F> Together<'i, P, T, F>
where
    P: Pages,
    F: FnMut(usize, T, Result<SearchResult, Error>) -> Result<(), Error>,
{
    pub(super) fn new(pages: &'i P, newest: &'i Newest, k: usize, options: &'i SearchOptions, answered: F) -> Self {
        let (state, reader) = (newest.known(), pages.reader());
        Self { newest, state, reader, k, options, seats: Vec::new(), under_way: 0, answered }
    }

    /// Answers queries until `next` has no more.
    pub(super) fn run<'q>(&mut self, mut next: impl FnMut() -> Option<Query<'q, T>>) -> Result<(), Error> {
        self.options.validate(self.k)?;
        let most = self.reader.searches_at_once();
        let (mut wanted, mut begun, mut is_last) = (1, 0, false);
        while self.under_way > 0 || !is_last {
            if self.under_way == 0 {
                // A search must end with the state that it began with, so none is under way here.
                self.state = self.newest.renew(&mut self.reader)?;
                begun = 0;
            }
            while self.under_way < wanted && begun < SEARCHES_PER_STATE && !is_last {
                match next() {
                    Some(query) => self.begin(query)?,
                    None => is_last = true,
                }
                begun += 1;
            }
            if !self.take_turns()? {
                match wanted < most && begun < SEARCHES_PER_STATE && !is_last {
                    true => wanted += 1,
                    false => _ = self.turn(0, true)?,
                }
            }
        }
        self.reader.pause();
        Ok(())
    }

    fn begin(&mut self, query: Query<'_, T>) -> Result<(), Error> {
        if self.under_way == self.seats.len() {
            self.seats.push(Seat { search: Running::default(), at: 0, place: None, missed: 0 });
        }
        let Query { at, vector, place } = query;
        let seat = &mut self.seats[self.under_way];
        if let Err(error) = seat.search.begin(&self.state, &self.reader, vector, self.k, self.options) {
            return (self.answered)(at, place, Err(error));
        }
        (seat.at, seat.place, seat.missed) = (at, Some(place), 0);
        self.under_way += 1;
        Ok(())
    }

    /// A turn of each search. Returns `false` if there are searches and all of them wait.
    fn take_turns(&mut self) -> Result<bool, Error> {
        let (mut at, mut has_moved) = (0, self.under_way == 0);
        while at < self.under_way {
            match self.turn(at, false)? {
                Turn::Waits => at += 1,
                Turn::Moved => (at, has_moved) = (at + 1, true),
                // The last search moved to this seat.
                Turn::Ended => has_moved = true,
            }
        }
        Ok(has_moved)
    }

    /// A turn of the search in a seat. If it ended, gives its answer and frees the seat.
    fn turn(&mut self, at: usize, may_wait: bool) -> Result<Turn, Error> {
        let share = (self.options.beam_width / self.under_way).max(BEAM_WIDTH_MIN);
        let options = SearchOptions { beam_width: self.options.beam_width.min(share), ..self.options.clone() };
        let Seat { search, missed, .. } = &mut self.seats[at];
        let before = self.reader.pages_missed();
        let turn = search.turn(&self.state, &mut self.reader, &options, may_wait);
        *missed += self.reader.pages_missed() - before;
        let answer = match turn {
            Ok(Turn::Ended) => search.result(&self.state, &mut self.reader, *missed),
            Ok(turn) => return Ok(turn),
            Err(error) => Err(error),
        };
        self.under_way -= 1;
        self.seats.swap(at, self.under_way);
        let seat = &mut self.seats[self.under_way];
        if let Some(place) = seat.place.take() {
            (self.answered)(seat.at, place, answer)?;
        }
        Ok(Turn::Ended)
    }
}
