"""One step of the vector Insert Benchmark: clients begin together, and what that costs is read around it."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pagehop_lab.analysis.inserts import Moves, recall_while_moving
from pagehop_lab.data import Dataset
from pagehop_lab.measure import insert_clients
from pagehop_lab.measure.insert_clients import Where
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.processes import Cost, cost, machine_busy_s
from pagehop_lab.measure.usage import family

TABLE = "items"
INDEX = "items_embedding"
K = 10
# Rows of a commit beside queries.
_COMMIT_ROWS = 10
_READY_S = 60.0
_JUDGED = 1000

Float64 = npt.NDArray[np.float64]


class Tables(Protocol):
    """A server with a table of vectors."""

    @property
    def pid(self) -> int: ...

    def dsn(self) -> str: ...

    def execute(self, *statements: str) -> list[Any]: ...

    def index_statement(self, table: str, index: str) -> str: ...

    def search_settings(self, k: int) -> Mapping[str, str]: ...


@dataclass
class State:
    """The table as it is: ids from `low` on, below `high`."""

    low: int
    high: int


def load(tables: Tables, dataset: Dataset, rows: int, timeout_s: float) -> dict[str, Any]:
    """Rows without an index, 100 in a commit (l.i0), then the index (l.x)."""
    dim = dataset.facts.dim
    tables.execute(
        "CREATE EXTENSION IF NOT EXISTS vector",
        f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, embedding vector({dim}) STORAGE PLAIN NOT NULL)",
    )
    state = State(0, 0)
    moved = _run(tables, dataset, state, commit_rows=100, until_rows=rows, seconds=timeout_s, deletes=False)
    if state.high < rows:
        raise MeasureError(f"{rows:,} rows were not loaded in {timeout_s:g} s, but {state.high:,}")
    load_s = float(moved.inserted[-1, 1] - moved.inserted[0, 0])
    tables.execute(f"VACUUM (ANALYZE) {TABLE}", "CHECKPOINT")
    begun = time.monotonic()
    tables.execute(tables.index_statement(TABLE, INDEX))
    index_s = time.monotonic() - begun
    index_bytes = int(tables.execute(f"SELECT pg_relation_size('{INDEX}')")[0][0])
    return {"load_s": load_s, "load_rows_per_s": rows / load_s, "index_s": index_s, "index_bytes": index_bytes}


def write(tables: Tables, dataset: Dataset, state: State, commit_rows: int, seconds: float) -> dict[str, Any]:
    """Inserts and deletes as fast as they go (l.i1, l.i2)."""
    moved = _run(tables, dataset, state, commit_rows=commit_rows, seconds=seconds)
    rows = len(moved.inserted) * commit_rows
    return _raw(moved, rows) | {
        # Whoever writes reads the log's old files, too: no cache was declared.
        "storage_reads_per_query": None,
        "rows_per_s": rows / moved.spent.elapsed_s,
        "deleted_per_s": len(moved.deleted) * commit_rows / moved.spent.elapsed_s,
        "commit_ms": _percentiles((moved.inserted[:, 1] - moved.inserted[:, 0]) * 1e3),
        "per_second": {"inserted": _per_second(moved.inserted[:, 1], moved.spent.begun_s, commit_rows)},
    }


def query(tables: Tables, dataset: Dataset, state: State, rate: float, seconds: float) -> dict[str, Any]:
    """Queries at full speed beside so many rows inserted and deleted a second (qv)."""
    plan = "\n".join(row[0] for row in tables.execute(*_settings(tables), _explain(dataset)))
    before = State(state.low, state.high)
    moved = _run(tables, dataset, state, commit_rows=_COMMIT_ROWS, seconds=seconds, rate=rate, asks=True)
    starts, ends, found = moved.asked[:, 0], moved.asked[:, 1], moved.asked[:, 2:].astype(np.int64)
    if not len(found):
        raise MeasureError("no query was answered")
    chosen = np.linspace(0, len(found) - 1, min(len(found), _JUDGED)).astype(int)
    judged = recall_while_moving(
        found[chosen], starts[chosen], ends[chosen], dataset.queries[chosen % len(dataset.queries)],
        np.asarray(dataset.base), _moves(moved.inserted, before.high), _moves(moved.deleted, before.low),
    )  # fmt: skip
    written = len(moved.inserted) * _COMMIT_ROWS / moved.spent.elapsed_s
    return _raw(moved, len(found)) | {
        "write_target": rate,
        "rows_per_s": written,
        "deleted_per_s": len(moved.deleted) * _COMMIT_ROWS / moved.spent.elapsed_s,
        "recall": float(judged.recall.mean()),
        "recall_judged": len(chosen),
        "rows_gone_count": judged.gone_count,
        "rows_short_count": judged.short_count,
        "index_used": INDEX in plan,
        "plan": plan,
        "latency_ms": _percentiles((ends - starts) * 1e3),
        "per_second": {
            "asked": _per_second(ends, moved.spent.begun_s, 1),
            "inserted": _per_second(moved.inserted[:, 1], moved.spent.begun_s, _COMMIT_ROWS),
        },
        "arrays": {"asked": moved.asked, "inserted": moved.inserted, "deleted": moved.deleted},
    }


@dataclass(frozen=True)
class _Spent:
    """What a step cost, and when it was."""

    begun_s: float
    elapsed_s: float
    server: Cost
    client: Cost
    busy_s: float
    clock_jump_s: float


@dataclass(frozen=True)
class _Moved:
    """What clients did, and what that cost."""

    spent: _Spent
    inserted: Float64
    """Begin and end of each commit."""
    deleted: Float64
    asked: Float64
    """Begin, end and ids of each request."""


class _Shared:
    """What the clients of a step have in common."""

    def __init__(self, context: Any, count: int) -> None:
        self.ready = context.Barrier(count + 1)
        self.stop = context.Event()
        self.inserted = context.Value("q", 0, lock=False)


def _run(
    tables: Tables, dataset: Dataset, state: State, *, commit_rows: int, seconds: float, rate: float | None = None,
    until_rows: int = 0, deletes: bool = True, asks: bool = False,
) -> _Moved:  # fmt: skip
    """Lets clients work for so many seconds, or until so many rows came; at a rate, if that is given, 0 is no rows."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="pagehop-inserts-") as folder:
        place = Path(folder)

        def where(name: str) -> Where:
            return Where(tables.dsn(), TABLE, dataset.folder / "base.npy", place / f"{name}.npy")

        works: list[tuple[Any, tuple[Any, ...]]] = []
        if rate != 0:
            works.append((insert_clients.insert, (where("inserted"), state.high, commit_rows, rate or 0.0, until_rows)))
            if deletes:
                works.append((insert_clients.delete, (where("deleted"), state.low, commit_rows)))
        if asks:
            queries = dataset.folder / "queries.npy"
            works.append((insert_clients.ask, (where("asked"), queries, dict(tables.search_settings(K)), K)))
        shared = _Shared(context, len(works))
        clients = [context.Process(target=target, args=(*args, shared), daemon=True) for target, args in works]
        try:
            for client in clients:
                client.start()
            moved = _watch(tables, clients, shared, seconds, until_rows)
        finally:
            shared.stop.set()
            for client in clients:
                client.join(_READY_S)
                client.kill()
        if any(client.exitcode for client in clients):
            raise MeasureError("a client failed: the server refused, or died")
        inserted, deleted = _done(place / "inserted.npy", 2), _done(place / "deleted.npy", 2)
        state.high += len(inserted) * commit_rows
        state.low += len(deleted) * commit_rows
        asked = _done(place / "asked.npy", 2 + K)
        return _Moved(moved, inserted, deleted, asked)


def _watch(tables: Tables, clients: Sequence[Any], shared: _Shared, seconds: float, until_rows: int) -> _Spent:
    late = time.monotonic() + _READY_S
    while shared.ready.n_waiting < len(clients):
        if time.monotonic() > late or any(client.exitcode is not None for client in clients):
            raise MeasureError("a client did not begin: it could not connect, or the server does not answer")
        time.sleep(0.01)
    members, own = family(tables.pid), [client.pid for client in clients]
    server, client, busy_s, wall_s = cost(members), cost(own), machine_busy_s(), time.time()
    shared.ready.wait()
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < seconds and not (until_rows and shared.inserted.value >= until_rows):
        if any(one.exitcode is not None for one in clients):
            raise MeasureError("a client failed in the middle: the server refused, or died")
        time.sleep(0.01)
    elapsed_s = time.monotonic() - begun_s
    spent, used, busy_s = cost(members) - server, cost(own) - client, machine_busy_s() - busy_s
    shared.stop.set()
    return _Spent(begun_s, elapsed_s, spent, used, busy_s, time.time() - wall_s - elapsed_s)


def _raw(moved: _Moved, count: int) -> dict[str, Any]:
    """What every step has; `count` are the queries, or the rows where nothing is asked."""
    return {
        "errors": 0,
        "count": count,
        "elapsed_s": moved.spent.elapsed_s,
        "qps": count / moved.spent.elapsed_s,
        "server_cpu_us_per_query": moved.spent.server.cpu_s / count * 1e6,
        "client_cpu_us_per_query": moved.spent.client.cpu_s / count * 1e6,
        "server_switches_per_query": moved.spent.server.switches / count,
        "bytes_written_per_query": moved.spent.server.bytes_written / count,
        "storage_reads_per_query": moved.spent.server.bytes_read / 4096 / count,
        "client_share_of_machine": moved.spent.client.cpu_s / moved.spent.elapsed_s / (os.cpu_count() or 1),
        "other_busy_cores": max(
            (moved.spent.busy_s - moved.spent.server.cpu_s - moved.spent.client.cpu_s) / moved.spent.elapsed_s, 0.0
        ),
        "clock_jump_s": moved.spent.clock_jump_s,
        "slowed": 0.0,
    }


def _moves(batches: Float64, first: int) -> Moves:
    """When each row came or went, from when its commit did."""
    each = np.repeat(batches, _COMMIT_ROWS, axis=0)
    return Moves(first, each[:, 0], each[:, 1])


def _done(file: Path, columns: int) -> Float64:
    return np.asarray(np.load(file)) if file.exists() else np.zeros((0, columns))


def _percentiles(values: Float64) -> dict[str, float]:
    names = {"p50": 50, "p95": 95, "p99": 99}
    return {name: float(np.percentile(values, at)) for name, at in names.items()} | {"max": float(values.max())}


def _per_second(ends: Float64, begun_s: float, each: int) -> list[int]:
    """How much was done in each second."""
    if not len(ends):
        return []
    return [int(count) * each for count in np.bincount((ends - begun_s).clip(0).astype(int))]


def _settings(tables: Tables) -> list[str]:
    return [f"SET {name} = '{value}'" for name, value in tables.search_settings(K).items()]


def _explain(dataset: Dataset) -> str:
    vector = "[" + ",".join(f"{value:.6g}" for value in dataset.queries[0]) + "]"
    return f"EXPLAIN SELECT id FROM {TABLE} ORDER BY embedding <-> '{vector}' LIMIT {K}"
