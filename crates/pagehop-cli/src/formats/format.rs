//! Which format a file has, by its name.

use std::path::Path;

use pagehop_engine::Error;

use super::layout;

/// The format of a file, which the extension of its name gives.
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
    /// The format that the extension of `path` names, in small or capital letters. Other extensions
    /// are refused.
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
