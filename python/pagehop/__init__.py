"""Find the nearest vectors in an index that may be far larger than memory."""

from pagehop.errors import (
    ArgumentError,
    CorruptIndexError,
    DimensionError,
    Error,
    FormatError,
    Interrupted,
    IoError,
)
from pagehop.index import CheckReport, Counters, Hits, Index, Info, Stats, build, open
from pagehop.sources import VectorSource, from_hdf5, from_npy, from_parquet

__all__ = [
    "ArgumentError",
    "CheckReport",
    "CorruptIndexError",
    "Counters",
    "DimensionError",
    "Error",
    "FormatError",
    "Hits",
    "Index",
    "Info",
    "Interrupted",
    "IoError",
    "Stats",
    "VectorSource",
    "build",
    "from_hdf5",
    "from_npy",
    "from_parquet",
    "open",
]
