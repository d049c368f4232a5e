"""The clients: they insert rows, each row committed, or search on a schedule.

Vectors go over the wire in binary, by prepared statements, past the libraries (`measure/wires.py`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from pagehop_lab.engines.postgres_server import COMPONENTS
from pagehop_lab.measure.crew import Shared
from pagehop_lab.measure.wires import PostgresWire, int32s
from pagehop_lab.suites.vector_writers.vectors import Float32, Vectors

TABLE = "items"
_PAUSE_MAX_S = 0.05
_FIRST_QUERIES = 50


@dataclass(frozen=True)
class Place:
    """The place of the table and its vectors, in a form that can be sent to a process."""

    dsn: str
    type: str
    """Type of the column: `vector` or `halfvec`."""
    vectors: Vectors
    settings: Mapping[str, str]
    """Of a session that searches."""
    k: int


@dataclass(frozen=True)
class Share:
    """The rows of one writer: every `step`-th from `first` on, below `end`."""

    first: int
    end: int
    step: int
    rate: float = 0.0
    """Rows a second of this writer, on a schedule; 0 for full speed."""
    delay: float = 0.0
    """Delay of the schedule, in its own steps."""
    warm_rows: int = 0
    """Rows that are inserted before the others begin."""


def write(place: Place, share: Share, out: Path, shared: Shared) -> None:
    """Inserts rows, each row committed: begin and end of each statement."""
    wire = PostgresWire(place.dsn)
    insert = wire.binary(f"INSERT INTO {TABLE} (id, embedding) VALUES ($1, $2)")
    vectors, rows = place.vectors.open(), iter(range(share.first, share.end, share.step))
    times: list[tuple[float, float]] = []

    def put(row: int) -> None:
        insert.ask((row.to_bytes(4, "big"), _binary(vectors.row(row), place.type)))

    for row in islice(rows, share.warm_rows):
        put(row)
    shared.ready.wait()
    begun_s = time.monotonic()
    for row in rows:
        if share.rate:
            due_s = begun_s + (len(times) + share.delay) / share.rate
            while (early_s := due_s - time.monotonic()) > 0 and not shared.stop.is_set():
                time.sleep(min(early_s, _PAUSE_MAX_S))
        if shared.stop.is_set():
            break
        before_s = time.monotonic()
        put(row)
        times.append((before_s, time.monotonic()))
    else:
        shared.finish()
    np.save(out, np.asarray(times).reshape(-1, 2))


def search(place: Place, rate: float, out: Path, shared: Shared) -> None:
    """Searches at a rate: when each was due, when it was sent, and when its answer was there.

    A search that is late does not delay the schedule of those after it.
    """
    asking = Searcher(place)
    for number in range(_FIRST_QUERIES):
        asking.ask(number)
    times: list[tuple[float, float, float]] = []
    shared.ready.wait()
    begun_s = time.monotonic()
    while not shared.stop.is_set():
        due_s = begun_s + len(times) / rate
        while (early_s := due_s - time.monotonic()) > 0 and not shared.stop.is_set():
            time.sleep(min(early_s, _PAUSE_MAX_S))
        sent_s = time.monotonic()
        if sent_s < due_s:
            break
        asking.ask(len(times))
        times.append((due_s, sent_s, time.monotonic()))
    np.save(out, np.asarray(times).reshape(-1, 3))


class Searcher:
    """A connection that searches."""

    def __init__(self, place: Place) -> None:
        wire = PostgresWire(place.dsn)
        wire.set(place.settings)
        self._wire = wire
        self._queries = [_binary(query, place.type) for query in np.load(place.vectors.queries)]
        statement = f"SELECT id FROM {TABLE} ORDER BY embedding <-> $1 LIMIT {place.k}"
        self._nearest = wire.binary(statement)

    def ask(self, number: int) -> list[int]:
        """The nearest rows of a query."""
        return int32s(self._nearest.ask((self._queries[number % len(self._queries)],)))


def _binary(vector: Float32, kind: str) -> bytes:
    """A parameter in the binary format of the type."""
    return len(vector).to_bytes(2, "big") + bytes(2) + vector.astype(COMPONENTS[kind]).tobytes()
