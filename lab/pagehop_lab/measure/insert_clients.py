"""The clients of the vector Insert Benchmark: one that inserts, one that deletes as much, one that asks.

Each is a process, and all go by one clock. Each opens its connection, waits for the others, and writes down what it did
when it is told to stop.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pagehop_bench.engines.pgvector import COPY_END, COPY_HEAD
from pagehop_lab.engines.postgres_server import rows_in_binary

Float32 = npt.NDArray[np.float32]

_PAUSE_S = 0.0005


@dataclass(frozen=True)
class Where:
    """A table of vectors."""

    dsn: str
    table: str
    base: Path
    """A .npy of rows; row `id` is the one at `id` modulo their number."""
    out: Path
    """Where a client leaves what it did, a .npy."""


def insert(where: Where, first: int, commit_rows: int, rate: float, rows_max: int, shared: Any) -> None:
    """Inserts rows from id `first` on; `rate` rows a second and `rows_max` rows in all are limits if they are not 0."""
    base = np.load(where.base, mmap_mode="r")
    connection = _connect(where.dsn)
    into = f"COPY {where.table} (id, embedding) FROM STDIN (FORMAT binary)"
    batches: list[tuple[float, float]] = []
    shared.ready.wait()
    begun_s = time.monotonic()
    while not shared.stop.is_set():
        due_s = begun_s + len(batches) * commit_rows / rate if rate else 0.0
        is_enough = rows_max and len(batches) * commit_rows >= rows_max
        if is_enough or time.monotonic() < due_s:
            time.sleep(_PAUSE_S)
            continue
        at = first + len(batches) * commit_rows
        rows = np.asarray(base[np.arange(at, at + commit_rows) % len(base)])
        before = time.monotonic()
        with connection.cursor() as cursor, cursor.copy(into) as copying:
            copying.write(COPY_HEAD + rows_in_binary(at, rows, ">f4") + COPY_END)
        batches.append((before, time.monotonic()))
        shared.inserted.value += commit_rows
    np.save(where.out, np.asarray(batches).reshape(-1, 2))


def delete(where: Where, first: int, commit_rows: int, shared: Any) -> None:
    """Deletes rows from id `first` on, as many as were inserted."""
    connection = _connect(where.dsn)
    batches: list[tuple[float, float]] = []
    shared.ready.wait()
    while not shared.stop.is_set():
        if shared.inserted.value < (len(batches) + 1) * commit_rows:
            time.sleep(_PAUSE_S)
            continue
        low = first + len(batches) * commit_rows
        before = time.monotonic()
        connection.execute(f"DELETE FROM {where.table} WHERE id >= {low} AND id < {low + commit_rows}")
        batches.append((before, time.monotonic()))
    np.save(where.out, np.asarray(batches).reshape(-1, 2))


def ask(where: Where, queries: Path, settings: Mapping[str, str], k: int, shared: Any) -> None:
    """Asks for the k nearest, again and again: start, end and ids of each request, one line of a .npy each."""
    asked = np.load(queries)
    connection = _connect(where.dsn)
    for name, value in settings.items():
        connection.execute(f"SET {name} = '{value}'")
    wire = connection.pgconn
    statement = f"SELECT id FROM {where.table} ORDER BY embedding <-> $1 LIMIT {k}"
    _checked(wire.prepare(b"nearest", statement.encode()))
    parameters = [_binary(query) for query in asked]
    # A first round through everything that is only done once.
    for parameter in parameters[:20]:
        _ids(wire.exec_prepared(b"nearest", [parameter], [1], 1), k)
    times: list[tuple[float, float]] = []
    found: list[list[int]] = []
    shared.ready.wait()
    while not shared.stop.is_set():
        parameter = parameters[len(times) % len(parameters)]
        before = time.monotonic()
        result = wire.exec_prepared(b"nearest", [parameter], [1], 1)
        times.append((before, time.monotonic()))
        found.append(_ids(result, k))
    # Seconds of this machine's clock and ids are both exact in float64.
    np.save(where.out, np.hstack([np.asarray(times).reshape(-1, 2), np.asarray(found, dtype=float).reshape(-1, k)]))


def _ids(result: Any, k: int) -> list[int]:
    _checked(result)
    found = [int.from_bytes(result.get_value(row, 0), "big") for row in range(result.ntuples)]
    return found + [-1] * (k - len(found))


def _checked(result: Any) -> None:
    if result.error_message:
        raise RuntimeError(result.error_message.decode(errors="replace").strip())


def _binary(query: Float32) -> bytes:
    """A parameter in the binary format of `vector`."""
    return len(query).to_bytes(2, "big") + bytes(2) + query.astype(">f4").tobytes()


def _connect(dsn: str) -> Any:
    import psycopg

    return psycopg.connect(dsn, autocommit=True)
