"""The steps of the Insert Benchmark and of its vector variant, and recall while rows come and go.

Rows are inserted and deleted in the order of their ids, so the table is always a window of ids. A
query sees some moment between its start and its end. Rows that exist all that time are certain.
Rows that are inserted or deleted in that time may be seen or not. The true rows are the k nearest
of the certain ones. A row that was found counts if it may have existed and is as near as the k-th
of those.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagehop_lab.analysis.case import Case

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

_TIE = 1e-5
_AT_ONCE = 64

_WRITES = (Case("l.i1", "writes", "write", 50, writes=True), Case("l.i2", "writes", "write", 5, writes=True))

VECTOR_STEPS: tuple[Case, ...] = (
    *_WRITES,
    *(Case(f"qv{rate}", "queries", "query", rate) for rate in (0, 100, 500, 1000)),
)
"""Steps after loading (l.i0) and indexing (l.x). `range`: rows of a commit, or rows a second."""

STEPS: tuple[Case, ...] = (
    *_WRITES,
    *(
        Case(f"{name}{rate}", "queries", kind, rate)
        for rate in (100, 500, 1000)
        for name, kind in (("qr", "range"), ("qp", "point"))
    ),
)
"""The classic ones: queries of ranges that an index covers, and of rows by their keys."""


@dataclass(frozen=True)
class Moves:
    """Times of insertions or deletions: row `first + i` is between begun[i] and done[i].

    Times are seconds of one clock, in order.
    """

    first: int
    begun: Float64
    done: Float64

    def surely(self, at_s: float) -> int:
        """The first id that was not certainly done at that time."""
        return self.first + int(np.searchsorted(self.done, at_s, side="right"))

    def maybe(self, at_s: float) -> int:
        """The first id that was certainly not begun at that time."""
        return self.first + int(np.searchsorted(self.begun, at_s, side="right"))


@dataclass(frozen=True)
class MovingRecall:
    """Recall while rows are inserted and deleted."""

    recall: Float64
    """Of each query."""
    gone_count: int
    """Number of returned rows that had certainly been deleted."""
    short_count: int
    """Answers with fewer than k rows."""


def recall_while_moving(
    found: Ids, starts: Float64, ends: Float64, queries: Float32, base: Float32, came: Moves, went: Moves
) -> MovingRecall:
    """Recall of `found`, shape [queries, k], -1 for no row, under L2.

    Row `id` is base[id % len(base)].
    """
    k = found.shape[1]
    recall = np.zeros(len(found))
    gone = 0
    lengths = np.einsum("ij,ij->i", base, base)
    for start in range(0, len(found), _AT_ONCE):
        at = slice(start, min(start + _AT_ONCE, len(found)))
        products = queries[at] @ base.T
        for row in range(at.start, at.stop):
            # Without the query's own length, which is the same for all rows.
            squares = lengths - 2 * products[row - at.start]
            low_maybe, low = went.surely(starts[row]), went.maybe(ends[row])
            high, high_maybe = came.surely(starts[row]), came.maybe(ends[row])
            sure = squares[np.arange(low, high) % len(base)]
            given = np.unique(found[row][found[row] >= 0])
            there = given[(given >= low_maybe) & (given < high_maybe)]
            gone += len(given) - len(there)
            wanted = min(k, len(sure))
            if wanted == 0:
                recall[row] = 1.0
                continue
            own = float(queries[row] @ queries[row])
            last = float(np.partition(sure, wanted - 1)[wanted - 1]) + own
            near = squares[there % len(base)] + own <= last * (1 + _TIE) + 1e-6
            recall[row] = min(int(near.sum()), wanted) / wanted
    return MovingRecall(recall, gone, int((found < 0).any(axis=1).sum()))
