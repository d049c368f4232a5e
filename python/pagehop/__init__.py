"""Find the nearest vectors in an index that may be far larger than memory."""

from pagehop.errors import (
    ArgumentError,
    CorruptIndexError,
    DimensionError,
    Error,
    FormatError,
    Interrupted,
    IoError,
    RecallWarning,
)
from pagehop.index import Counters, Hits, Index, Stats, build, create, open
from pagehop.reports import (
    AddReport,
    Audit,
    Calibration,
    CheckReport,
    DeleteReport,
    Info,
    Measured,
    RecallReport,
    Setting,
    VacuumReport,
)
from pagehop.sources import VectorSource, from_hdf5, from_npy, from_parquet

__all__ = [
    "AddReport",
    "ArgumentError",
    "Audit",
    "Calibration",
    "CheckReport",
    "CorruptIndexError",
    "Counters",
    "DeleteReport",
    "DimensionError",
    "Error",
    "FormatError",
    "Hits",
    "Index",
    "Info",
    "Interrupted",
    "IoError",
    "Measured",
    "RecallReport",
    "RecallWarning",
    "Setting",
    "Stats",
    "VacuumReport",
    "VectorSource",
    "build",
    "create",
    "from_hdf5",
    "from_npy",
    "from_parquet",
    "open",
]
