"""Rows from a user's file: `.npy`, or a column of a Parquet file. Queries are a file of their own,
or the last rows, which are then not indexed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pagehop_lab.data.errors import DataError

ENDINGS = (".npy", ".parquet")
_QUERIES = 1000


def read_files(
    path: Path, queries_path: Path | None, column: str | None, rows: int | None, queries: int | None
) -> tuple[Any, npt.NDArray[np.float32]]:
    """Reads rows and queries. Raises DataError if they cannot be read or do not fit each other.

    If a file comes alone, its last `queries` rows (1,000 by default) are the queries.
    """
    base = _read(path, column)
    if queries_path is not None:
        asked = _read(queries_path, column)[:queries]
    else:
        count = queries or _QUERIES
        if len(base) <= count:
            raise DataError(
                f"{path}: its {len(base):,} rows are not more than {count:,} queries: say queries, or queries_path"
            )
        base, asked = base[:-count], base[-count:]
    if base.shape[1] != asked.shape[1]:
        raise DataError(f"{path} has {base.shape[1]} dimensions, {queries_path} has {asked.shape[1]}")
    return base[:rows], np.asarray(asked, dtype=np.float32)


def _read(path: Path, column: str | None) -> Any:
    """An array of shape [n, dim]."""
    found = _parquet(path, column) if path.suffix == ".parquet" else _npy(path, column)
    if found.ndim != 2 or not found.size or found.dtype.kind not in "fiu":
        raise DataError(f"{path}: it has shape {found.shape} of {found.dtype}, and not rows of numbers")
    return found


def _npy(path: Path, column: str | None) -> Any:
    if path.suffix != ".npy":
        raise DataError(f"{path}: rows are read from {', '.join(ENDINGS)} and ann-benchmarks' .hdf5")
    if column is not None:
        raise DataError(f"{path}: a .npy file has no column {column}")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {error}") from None


def _parquet(path: Path, column: str | None) -> Any:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DataError(f"{path}: reading it needs the package pyarrow") from None
    try:
        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
        if column is None or column not in names:
            raise DataError(f"{path}: say which column has the vectors: column = one of {', '.join(names)}")
        whole = file.read([column]).column(0).combine_chunks()
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise DataError(f"cannot read {path}: {error}") from None
    if whole.null_count or not hasattr(whole, "flatten"):
        raise DataError(
            f"{path}: column {column} is {whole.type} with {whole.null_count} nulls, and not lists of numbers"
        )
    values = np.asarray(whole.flatten())
    if not len(whole) or len(values) % len(whole) or not _are_alike(whole, len(values) // len(whole)):
        raise DataError(f"{path}: the lists of column {column} have several lengths, or there are none")
    return values.reshape(len(whole), -1)


def _are_alike(lists: Any, dim: int) -> bool:
    """Whether all lists have the same length, and no value is missing."""
    import pyarrow.compute

    lengths = pyarrow.compute.list_value_length(lists)
    return bool(pyarrow.compute.all(pyarrow.compute.equal(lengths, dim)).as_py()) and not lists.flatten().null_count
