"""Find the nearest vectors in an index that may be far larger than memory."""

# This import comes first: it refuses an incomplete installation. pip writes this file before the
# others.
try:
    from pagehop.installed import check_library as check_library
except ImportError as error:
    if error.name != "pagehop.installed":
        raise
    raise ImportError(f"{error}; the installation is incomplete: pip install --force-reinstall pagehop") from None
from pagehop.conditions import Condition, column, ids
from pagehop.errors import (
    ArgumentError,
    BusyError,
    CorruptIndexError,
    DimensionError,
    Error,
    ForkedError,
    FormatError,
    FullError,
    Interrupted,
    IoError,
    OutOfMemoryError,
    RecallWarning,
)
from pagehop.hits import Counters, Hits, Stats
from pagehop.index import Index
from pagehop.open import build, compact, create, open
from pagehop.reports import (
    AddReport,
    Audit,
    BackupReport,
    Calibration,
    CheckReport,
    CompactReport,
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
    "BackupReport",
    "BusyError",
    "Calibration",
    "CheckReport",
    "CompactReport",
    "Condition",
    "CorruptIndexError",
    "Counters",
    "DeleteReport",
    "DimensionError",
    "Error",
    "ForkedError",
    "FormatError",
    "FullError",
    "Hits",
    "Index",
    "Info",
    "Interrupted",
    "IoError",
    "Measured",
    "OutOfMemoryError",
    "RecallReport",
    "RecallWarning",
    "Setting",
    "Stats",
    "VacuumReport",
    "VectorSource",
    "build",
    "column",
    "compact",
    "create",
    "from_hdf5",
    "from_npy",
    "from_parquet",
    "ids",
    "open",
]
