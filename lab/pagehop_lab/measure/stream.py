"""Rows that are inserted at a steady rate during a measurement.

A new row is a row of the set, moved a tenth of the way to another. All of them are removed
afterwards, so that the next measurement finds the index with the rows that it was built over.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import TracebackType

import numpy as np

from pagehop_lab.analysis.records import PointRecord
from pagehop_lab.data import Dataset
from pagehop_lab.engines.engine import EngineError, Float32, Served, left_by

_TRANSACTIONS_PER_S = 10
# Most rows of a transaction, at any rate: a rate that is too high must show as such, and not take
# forever.
_ROWS_MAX = 1000
_SHARE_OF_ANOTHER = np.float32(0.1)


class Stream:
    """Inserts within its context, by a thread; a rate of 0 inserts nothing."""

    def __init__(self, engine: Served, dataset: Dataset, rate: float, matching: float, seed: int = 1) -> None:
        self._dataset, self._rate, self._matching = dataset, rate, matching
        self._inserter = engine.inserter() if rate else None
        self._random = np.random.default_rng(seed)
        self._rows: list[Float32] = []
        self._seconds = 0.0
        """Until the last row was in."""
        self._failed: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._insert)

    def __enter__(self) -> Stream:
        if self._inserter is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inserter is None:
            return
        self._stop.set()
        self._thread.join()
        self._inserter.close(len(self._dataset.base))

    def told(self) -> PointRecord:
        """The wanted and the reached rate, for the raw measurement.

        EngineError if an insertion failed.
        """
        if self._failed is not None:
            raise EngineError(f"inserting failed: {self._failed}") from self._failed
        if self._inserter is None:
            return {}
        inserted = sum(map(len, self._rows))
        per_s = inserted / self._seconds if inserted else 0.0
        return {"insert_rate": self._rate, "inserted_per_s": per_s, "inserted_count": inserted}

    def dataset(self) -> Dataset:
        """The set with the inserted rows, some of which a filter may leave out.

        Its truth has old rows only. So recall by threshold counts every row, old or new, that is as
        near as the k-th old one, and misses no new one. Recall by id counts old rows only. For a
        search that began during an insertion, the actual recall lies between the two.
        """
        if not self._rows:
            return self._dataset
        base = np.concatenate([self._dataset.base, *self._rows])
        kept = None if self._dataset.kept is None else left_by(self._matching, len(base))
        return replace(self._dataset, base=base, kept=kept, facts=replace(self._dataset.facts, rows=len(base)))

    def _insert(self) -> None:
        assert self._inserter is not None
        first, begun = len(self._dataset.base), time.perf_counter()
        try:
            while not self._stop.is_set():
                due = int((time.perf_counter() - begun) * self._rate) + 1 - (first - len(self._dataset.base))
                if due > 0:
                    rows = self._made(min(due, _ROWS_MAX))
                    self._inserter.insert(first, rows)
                    self._rows.append(rows)
                    first += len(rows)
                    self._seconds = time.perf_counter() - begun
                self._stop.wait(1 / _TRANSACTIONS_PER_S)
        except Exception as error:
            self._failed = error

    def _made(self, count: int) -> Float32:
        one, another = (self._random.integers(len(self._dataset.base), size=count) for _ in range(2))
        rows = self._dataset.base[one]
        return np.asarray(rows + _SHARE_OF_ANOTHER * (self._dataset.base[another] - rows), dtype=np.float32)
