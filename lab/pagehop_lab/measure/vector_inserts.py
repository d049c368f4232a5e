"""The vector Insert Benchmark: its steps on a table with a vector index, and the recall of the queries."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from pagehop_lab.analysis.inserts import Moves, recall_while_moving
from pagehop_lab.data import Dataset
from pagehop_lab.measure import inserts
from pagehop_lab.measure.steps import Float64, State
from pagehop_lab.measure.vector_rows import VectorRows

TABLE = "items"
INDEX = "items_embedding"
K = 10
_JUDGED = 1000


class Tables(Protocol):
    """A server with a table of vectors."""

    @property
    def pid(self) -> int: ...

    def dsn(self) -> str: ...

    def execute(self, *statements: str) -> list[Any]: ...

    def index_statement(self, table: str, index: str) -> str: ...

    def search_settings(self, k: int) -> Mapping[str, str]: ...


def load(tables: Tables, dataset: Dataset, rows: int, timeout_s: float) -> dict[str, Any]:
    """Rows without an index, 100 in a commit (l.i0), then the index (l.x)."""
    dim = dataset.facts.dim
    tables.execute(
        "CREATE EXTENSION IF NOT EXISTS vector",
        f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, embedding vector({dim}) STORAGE PLAIN NOT NULL)",
    )
    said = inserts.fill(tables.pid, _rows(tables, dataset), rows, timeout_s)
    tables.execute(f"VACUUM (ANALYZE) {TABLE}", "CHECKPOINT")
    begun = time.monotonic()
    tables.execute(tables.index_statement(TABLE, INDEX))
    index_s = time.monotonic() - begun
    index_bytes = int(tables.execute(f"SELECT pg_relation_size('{INDEX}')")[0][0])
    return said | {"index_s": index_s, "index_bytes": index_bytes}


def write(tables: Tables, dataset: Dataset, state: State, commit_rows: int, seconds: float) -> dict[str, Any]:
    """Inserts and deletes as fast as they go (l.i1, l.i2)."""
    return inserts.write(tables.pid, _rows(tables, dataset), state, commit_rows, seconds)


def query(tables: Tables, dataset: Dataset, state: State, rate: float, seconds: float) -> dict[str, Any]:
    """Queries at full speed beside so many rows inserted and deleted a second (qv)."""
    plan = "\n".join(row[0] for row in tables.execute(*_settings(tables), _explain(dataset)))
    before = State(state.low, state.high)
    raw, moved = inserts.query(tables.pid, _rows(tables, dataset), state, rate, seconds)
    starts, ends, found = moved.asked[:, 0], moved.asked[:, 1], moved.asked[:, 2:].astype(np.int64)
    chosen = np.linspace(0, len(found) - 1, min(len(found), _JUDGED)).astype(int)
    judged = recall_while_moving(
        found[chosen], starts[chosen], ends[chosen], dataset.queries[chosen % len(dataset.queries)],
        np.asarray(dataset.base), _moves(moved.inserted, before.high), _moves(moved.deleted, before.low),
    )  # fmt: skip
    return raw | {
        "recall": float(judged.recall.mean()),
        "recall_judged": len(chosen),
        "rows_gone_count": judged.gone_count,
        "rows_short_count": judged.short_count,
        "index_used": INDEX in plan,
        "plan": plan,
        "arrays": inserts.arrays_of(moved),
    }


def _rows(tables: Tables, dataset: Dataset) -> VectorRows:
    base, queries = (dataset.folder / f"{name}.npy" for name in ("base", "queries"))
    return VectorRows(tables.dsn(), TABLE, base, queries, dict(tables.search_settings(K)), K)


def _moves(batches: Float64, first: int) -> Moves:
    """When each row came or went, from when its commit did."""
    each = np.repeat(batches, inserts.BESIDE_ROWS, axis=0)
    return Moves(first, each[:, 0], each[:, 1])


def _settings(tables: Tables) -> list[str]:
    return [f"SET {name} = '{value}'" for name, value in tables.search_settings(K).items()]


def _explain(dataset: Dataset) -> str:
    vector = "[" + ",".join(f"{value:.6g}" for value in dataset.queries[0]) + "]"
    return f"EXPLAIN SELECT id FROM {TABLE} ORDER BY embedding <-> '{vector}' LIMIT {K}"
