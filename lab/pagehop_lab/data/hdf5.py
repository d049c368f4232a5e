"""Files in ann-benchmarks' layout.

train[n,d], test[q,d], neighbors[q,100], distances[q,100], and the attribute distance.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pagehop_lab.data.errors import DataError

Truth = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]

_METRICS = ("euclidean", "angular")


def read_hdf5(
    path: Path, rows: int | None, queries: int | None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], str, Truth | None]:
    """Rows, queries, metric, and the truth unless only some of the rows are wanted."""
    try:
        import h5py
    except ImportError:
        raise DataError(f"{path}: reading it needs the package h5py") from None
    try:
        with h5py.File(path, "r") as file:
            missing = [name for name in ("train", "test") if name not in file]
            if missing:
                raise DataError(f"{path} has no {' and no '.join(missing)}: it is not in ann-benchmarks' layout")
            metric = _text(file.attrs.get("distance", "euclidean"))
            if metric not in _METRICS:
                raise DataError(f"{path}: its distance is {metric}, known are {' and '.join(_METRICS)}")
            whole = rows is None or rows >= len(file["train"])
            given: Truth | None = None
            if whole and "neighbors" in file and "distances" in file:
                given = (file["neighbors"][:queries].astype(np.int64), file["distances"][:queries].astype(np.float64))
            base = np.asarray(file["train"][:rows], dtype=np.float32)
            asked = np.asarray(file["test"][:queries], dtype=np.float32)
            return base, asked, metric, given
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}") from None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
