//! Real queries that a user gives a function, as an array of vectors.

use pagehop_engine::Error;
use pgrx::pg_sys;

use crate::rows::memory;
use crate::rows::opclass::{Element, Kind};
use crate::rows::vector;

/// The vectors of an argument, or `None` if rows of the index are the queries.
pub(super) type Queries = Option<Vec<Vec<f32>>>;

/// An argument with queries: its position, and the type of the components.
pub(super) type Argument = (usize, Element);

/// The vectors of an argument, if there is one. Called after the user's rights were checked.
///
/// # Safety
///
/// `call` is a call of a function whose argument is an array, not null, of vectors of that type.
pub(super) unsafe fn given(call: pg_sys::FunctionCallInfo, given: Option<Argument>) -> Queries {
    // SAFETY: the argument is an array, not null, of vectors of that type, as the caller ensures.
    given.map(|(at, element)| unsafe { vectors(call, at, element) })
}

/// The vectors of an array; a NULL in it is left out.
///
/// # Safety
///
/// As [`given`].
unsafe fn vectors(call: pg_sys::FunctionCallInfo, at: usize, element: Element) -> Vec<Vec<f32>> {
    // SAFETY: the caller says that the argument is there and an array. Its copy lives in the memory
    // context of the call.
    let (array, iterator) = unsafe {
        let datum = pgrx::fcinfo::pg_getarg_datum(call, at).expect("the function is strict");
        let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr());
        (array, pg_sys::array_create_iterator(array.cast(), 0, std::ptr::null_mut()))
    };
    // SAFETY: the array was detoasted above.
    let bytes = unsafe { pgrx::varlena::varsize_any(array) } as u64;
    // The queries are in memory twice, with four bytes for each component: all of them, and those
    // that the index can hold.
    memory::budget("reading these queries", 2 * bytes * if element == Element::F16 { 2 } else { 1 });
    let (mut value, mut is_null, mut queries) = (pg_sys::Datum::from(0), false, Vec::new());
    // SAFETY: the iterator is of the array above, and an element that is not null is a vector.
    unsafe {
        while pg_sys::array_iterate(iterator, &raw mut value, &raw mut is_null) {
            pgrx::check_for_interrupts!();
            if !is_null {
                let mut query = Vec::new();
                vector::append(value, element, &mut query);
                queries.push(query);
            }
        }
        pg_sys::array_free_iterator(iterator);
    }
    queries
}

/// The components, one query after the other, of the queries that an index of `dim` dimensions can
/// hold; `None` where rows of the index are the queries.
///
/// # Errors
///
/// If there are queries, but the index can hold none of them, or one has other dimensions.
pub(super) fn placed(kind: Kind, dim: usize, queries: &Queries) -> Result<Option<Vec<f32>>, Error> {
    let Some(queries) = queries else { return Ok(None) };
    let mut placed = Vec::new();
    for query in queries.iter().filter(|query| kind.has_place(query)) {
        if query.len() != dim {
            return Err(Error::Dimension { expected: dim, got: query.len() });
        }
        placed.extend_from_slice(query);
    }
    if placed.is_empty() {
        return Err(Error::argument(
            "no query can be used: the array is empty, or all are NULL, or zero under cosine",
        ));
    }
    Ok(Some(placed))
}
