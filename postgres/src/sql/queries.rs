//! Real queries that a user gives a function, as an array of vectors.

use pagehop_engine::Error;
use pgrx::pg_sys;

use crate::rows::opclass::{Element, Kind};
use crate::rows::vector;

/// Vectors of an argument, or `None` where rows of the index are the queries.
pub(super) type Queries = Option<Vec<Vec<f32>>>;

/// The vectors of an array; a NULL in it is left out.
///
/// # Safety
///
/// `call` is a call of a function whose argument `at` is an array, not null, of the type that
/// `element` names.
pub(super) unsafe fn argument(call: pg_sys::FunctionCallInfo, at: usize, element: Element) -> Queries {
    // SAFETY: the caller says that the argument is there and an array. Its copy lives in the memory
    // context of the call.
    let array = unsafe {
        let datum = pgrx::fcinfo::pg_getarg_datum(call, at).expect("the function is strict");
        pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>()
    };
    let (mut length, mut by_value, mut align) = (0, false, 0);
    let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
    // SAFETY: the array was brought in above, and its header names the type of its elements. The
    // rest is written to.
    unsafe {
        let element_type = (*array).elemtype;
        pg_sys::get_typlenbyvalalign(element_type, &raw mut length, &raw mut by_value, &raw mut align);
        let (values, nulls, count) = (&raw mut values, &raw mut nulls, &raw mut count);
        pg_sys::deconstruct_array(array, element_type, length.into(), by_value, align, values, nulls, count);
    }
    let mut queries = Vec::new();
    for at in 0..count as usize {
        // SAFETY: `deconstruct_array` made two arrays of `count` elements, and one that is not null
        // is a vector.
        unsafe {
            if !*nulls.add(at) {
                let mut query = Vec::new();
                vector::append(*values.add(at), element, &mut query);
                queries.push(query);
            }
        }
    }
    Some(queries)
}

/// The components, one query after the other, of the queries that an index of `dim` dimensions has
/// a place for.
///
/// # Errors
///
/// If there are queries but none has a place, or one has other dimensions.
pub(super) fn placed(kind: Kind, dim: usize, queries: &Queries) -> Result<Vec<f32>, Error> {
    let mut placed = Vec::new();
    let Some(queries) = queries else { return Ok(placed) };
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
    Ok(placed)
}
