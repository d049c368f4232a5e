//! File formats of vectors, ids, columns, payloads and true neighbors.
//!
//! The header of each format becomes a [`Layout`], which is checked against the length of the file
//! before a row is read. A [`Table`] then reads rows in chunks. Any bytes give rows or an error,
//! never a panic. A [`NewNpy`] writes an array.

mod bin;
mod columns;
mod element;
mod format;
mod ids;
mod layout;
mod new_npy;
mod npy;
#[cfg(feature = "parquet")]
mod parquet_columns;
mod payloads;
mod reading;
mod table;
mod text_ids;
mod truth;
mod vecs;
mod vectors;

use element::Element;
use layout::Layout;
use npy::Shape;
use table::Table;

pub(crate) use columns::read_columns;
pub(crate) use new_npy::NewNpy;
pub(crate) use payloads::read_payloads;
pub(crate) use text_ids::{IdList, check_ids_file, read_ids};
pub(crate) use truth::Truth;
pub(crate) use vectors::{Chunk, Vectors};

#[cfg(test)]
mod tests;
