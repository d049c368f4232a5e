"""The vector Insert Benchmark: its steps on a table with a vector index, and their recall."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

import numpy as np

from pagehop_lab.analysis.server_records import LoadedRecord
from pagehop_lab.data import Dataset
from pagehop_lab.measure import inserts
from pagehop_lab.measure.steps import Float64, State
from pagehop_lab.suites.inserts.cases import Moves, recall_while_moving
from pagehop_lab.suites.vector_inserts.records import VectorStepRecord
from pagehop_lab.suites.vector_inserts.vector_rows import Float32, VectorRows

TABLE = "items"
INDEX = "items_embedding"
K = 10
# Vectors for each row of the window. Fewer would repeat soon, and an index that has had a vector
# before, dead or not, inserts it at a lower cost.
VECTORS_PER_ROW = 12
_JUDGED = 1000


class Tables(Protocol):
    """A server that takes a table of vectors."""

    @property
    def pid(self) -> int | None: ...

    def settle(self) -> None: ...

    def create(self, dim: int) -> None:
        """Makes the table, without an index over its vectors."""

    def index(self) -> None:
        """Makes the index."""

    def index_bytes(self) -> int: ...

    def plan(self, query: Float32) -> tuple[str, bool]:
        """The server's plan for a search, and whether it uses the index."""

    def rows(self, base: Path, queries: Path) -> VectorRows:
        """The table, for clients."""


def load(tables: Tables, dataset: Dataset, rows: int, timeout_s: float) -> LoadedRecord:
    """Rows without an index, 100 in a commit (l.i0), then the index (l.x)."""
    tables.create(dataset.facts.dim)
    said = inserts.fill(tables.pid, _rows(tables, dataset), rows, timeout_s)
    tables.settle()
    begun = time.monotonic()
    tables.index()
    index_s = time.monotonic() - begun
    return said | {"index_s": index_s, "index_bytes": tables.index_bytes()}


def write(tables: Tables, dataset: Dataset, state: State, commit_rows: int, seconds: float) -> VectorStepRecord:
    """Inserts and deletes as fast as they go (l.i1, l.i2)."""
    raw = inserts.write(tables.pid, _rows(tables, dataset), state, commit_rows, seconds)
    return {**VectorStepRecord(), **raw, "rows_again_count": _again(state, dataset)}


def query(
    tables: Tables, dataset: Dataset, state: State, rate: float, seconds: float,
    commit_rows: int = inserts.BESIDE_ROWS,
) -> VectorStepRecord:  # fmt: skip
    """Queries at full speed beside a number of rows inserted and deleted a second (qv)."""
    plan, index_used = tables.plan(dataset.queries[0])
    before = State(state.low, state.high)
    raw, moved = inserts.query(tables.pid, _rows(tables, dataset), state, rate, seconds, commit_rows)
    starts, ends, found = moved.asked[:, 0], moved.asked[:, 1], moved.asked[:, 2:].astype(np.int64)
    chosen = np.linspace(0, len(found) - 1, min(len(found), _JUDGED)).astype(int)
    judged = recall_while_moving(
        found[chosen], starts[chosen], ends[chosen], dataset.queries[chosen % len(dataset.queries)],
        np.asarray(dataset.base), _moves(moved.inserted, before.high, commit_rows),
        _moves(moved.deleted, before.low, commit_rows),
    )  # fmt: skip
    return {
        **VectorStepRecord(),
        **raw,
        # The size of the index after rows were inserted and deleted.
        "index_bytes": tables.index_bytes(),
        "recall": float(judged.recall.mean()),
        "recall_judged": len(chosen),
        "rows_again_count": _again(state, dataset),
        "rows_gone_count": judged.gone_count,
        "rows_short_count": judged.short_count,
        "index_used": index_used,
        "plan": plan,
        "arrays": inserts.arrays_of(moved),
    }


def _rows(tables: Tables, dataset: Dataset) -> VectorRows:
    base, queries = (dataset.folder / f"{name}.npy" for name in ("base", "queries"))
    return tables.rows(base, queries)


def _again(state: State, dataset: Dataset) -> int:
    """Number of rows so far whose vectors the table had before."""
    return max(0, state.high - len(dataset.base))


def _moves(batches: Float64, first: int, commit_rows: int) -> Moves:
    """The time at which each row was inserted or deleted: the time of its commit."""
    each = np.repeat(batches, commit_rows, axis=0)
    return Moves(first, each[:, 0], each[:, 1])
