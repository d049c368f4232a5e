//! The files that vectors, ids and true neighbors come in.
//!
//! Each format's header becomes a [`Layout`], checked against the length of the file before a row is
//! read. A [`Table`] then reads rows in chunks. Any bytes give rows or an error, never a panic.

use std::io::Read;
use std::path::Path;

use pagehop_engine::Error;

mod bin;
mod element;
mod ids;
mod layout;
mod npy;
mod table;
mod truth;
mod vecs;
mod vectors;

use element::Element;
use layout::Layout;
use npy::Shape;
use table::Table;

pub(crate) use ids::read_ids;
pub(crate) use npy::int64_header;
pub(crate) use truth::Truth;
pub(crate) use vectors::{Chunk, Vectors};

/// How a file is laid out; its name says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Npy,
    Fvecs,
    Bvecs,
    Ivecs,
    Fbin,
    U8bin,
    I8bin,
    Ibin,
}

impl Format {
    /// The format that the name of `path` claims.
    pub(crate) fn of(path: &Path) -> Result<Self, Error> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let extension = extension.unwrap_or_default().to_ascii_lowercase();
        let format = match extension.as_str() {
            "npy" => Self::Npy,
            "fvecs" => Self::Fvecs,
            "bvecs" => Self::Bvecs,
            "ivecs" => Self::Ivecs,
            "fbin" => Self::Fbin,
            "u8bin" => Self::U8bin,
            "i8bin" => Self::I8bin,
            "ibin" => Self::Ibin,
            "h5" | "hdf5" | "parquet" => {
                return layout::refuse(path, "HDF5 and Parquet are read by the Python package");
            }
            _ => {
                return layout::refuse(
                    path,
                    "its name does not say which format it has; it must end in .npy, .fvecs, \
                     .bvecs, .fbin, .u8bin or .i8bin (true neighbors: .ibin, .ivecs or .npy)",
                );
            }
        };
        Ok(format)
    }
}

/// Fills `bytes`; the file was found to be long enough, so it must have changed if it is not.
fn read_exact(path: &Path, file: &mut impl Read, bytes: &mut [u8]) -> Result<(), Error> {
    file.read_exact(bytes).map_err(|error| {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            let what = format!("{}: it became shorter while it was read", path.display());
            return Error::Format { what };
        }
        table::cannot("read", path, error)
    })
}

#[cfg(test)]
mod tests;
