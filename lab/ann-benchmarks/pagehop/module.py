"""Pagehop as an algorithm of ann-benchmarks: an index file, with a cache that holds all of it.

The setting of a search is the recall that is asked for, as its users have it. Queries that come one
by one are answered by one thread, and batches by all that the process may use.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import pagehop

from ..base.module import BaseANN

_METRICS = {"euclidean": "l2", "angular": "cosine"}
# Room for the cache's own tables, beside the pages of the file.
_SPARE_BYTES = 64 << 20


class Pagehop(BaseANN):
    """An index over the rows of a set; ids are the numbers of rows."""

    def __init__(self, metric: str, method_param: dict[str, Any]) -> None:
        """`method_param` are options of `pagehop.build`, such as `vectors`."""
        if metric not in _METRICS:
            raise NotImplementedError(f"pagehop has no metric {metric}, it has {' and '.join(_METRICS)}")
        self._metric, self._options = _METRICS[metric], dict(method_param)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._index: Any = None
        self._recall: float | None = None
        self._found: npt.NDArray[Any] | None = None
        self.name = f"pagehop ({self._options})"

    def fit(self, X: npt.NDArray[Any]) -> None:  # noqa: N803
        """Builds the index, with its calibration, and opens it."""
        self._folder = tempfile.TemporaryDirectory(prefix="pagehop-")
        path = Path(self._folder.name) / "index.pagehop"
        pagehop.build(path, np.asarray(X), metric=self._metric, **self._options).close()
        self._index = pagehop.open(path, cache=path.stat().st_size + _SPARE_BYTES)

    def set_query_arguments(self, recall: float) -> None:
        """The recall that searches ask for from now on."""
        self._recall = recall
        self.name = f"pagehop ({self._options}, recall={recall})"

    def query(self, q: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
        """The rows nearest to one vector, nearest first."""
        return np.asarray(self._index.search(q, k=n, recall=self._recall).ids)

    def batch_query(self, X: npt.NDArray[Any], n: int) -> None:  # noqa: N803
        """Answers many vectors by all threads; `get_batch_results` has the answers."""
        self._found = np.asarray(self._index.search(X, k=n, recall=self._recall).ids)

    def get_batch_results(self) -> npt.NDArray[Any]:
        """The answers of the last batch, a line for each vector."""
        assert self._found is not None, "a batch comes first"
        return self._found

    def done(self) -> None:
        """Closes the index and removes its file."""
        if self._index is not None:
            self._index.close()
        if self._folder is not None:
            self._folder.cleanup()
