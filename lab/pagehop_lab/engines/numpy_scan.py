"""Every row compared by one matrix product: a baseline for indexes, and the lab's reference."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pagehop_lab.analysis.recalls import unit
from pagehop_lab.engines.engine import Description, Float32, Ids, Kept, Library, Options, Search


class NumpyScan(Library):
    """Rows in memory, no index."""

    description: ClassVar = Description("numpy-scan", "NumPy, all rows", "main", {}, {}, "no settings", exact=True)

    @classmethod
    def version(cls) -> str:
        return np.__version__

    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        self._angular = metric == "angular"
        self._rows: Any = unit(np.asarray(base)) if self._angular else np.array(base)
        self._norms = np.einsum("ij,ij->i", self._rows, self._rows) / 2

    def searcher(self, options: Options, k: int) -> Search:
        return self._scan(self._rows, self._norms, k)

    def filtered(self, options: Options, k: int, kept: Kept) -> Search:
        ids = np.flatnonzero(kept)
        search = self._scan(self._rows[ids], self._norms[ids], k)
        return lambda queries: ids[search(queries)]

    def _scan(self, rows: Any, norms: Any, k: int) -> Search:
        def search(queries: Float32) -> Ids:
            nearness = queries @ rows.T - norms
            kept = np.argpartition(nearness, -k, axis=1)[:, -k:] if k < len(rows) else None
            if kept is None:
                return np.argsort(-nearness, axis=1).astype(np.int64)
            order = np.argsort(-np.take_along_axis(nearness, kept, axis=1), axis=1)
            return np.take_along_axis(kept, order, axis=1).astype(np.int64)

        return search

    def index_bytes(self) -> int:
        return int(self._rows.nbytes)

    def index_used(self) -> bool:
        return False
