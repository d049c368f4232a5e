"""The clients of a step: one that inserts, one that deletes as much, one that asks.

Each is a process, and all go by one clock. Each opens its connection, waits for the others, and writes down what it did
when it is told to stop.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pagehop_lab.measure.processes import end_with_parent
from pagehop_lab.measure.wires import DeadlockError

_PAUSE_S = 0.0005
_FIRST_QUERIES = 20


class Connection(Protocol):
    """A table as one client sees it."""

    def insert(self, first: int, count: int) -> None:
        """One commit of rows with ids from `first` on."""

    def delete(self, first: int, count: int) -> None:
        """One commit without these rows."""

    def ask(self, number: int, low: int, high: int, /) -> Sequence[int]:
        """The query of this number, while ids from `low` to below `high` are there; what is kept of its answer."""


class Rows(Protocol):
    """A table in a server, as a process is told of it."""

    @property
    def kept(self) -> int:
        """How many numbers are kept of an answer."""

    def open(self) -> Connection:
        """A connection, ready to do anything above; called by the process that uses it."""


def work(role: Callable[..., None], failed: Path, *told: Any) -> None:
    """What the process of a client does; why it could not is left in a file, for the process that started it."""
    # It would not end if the run were killed.
    end_with_parent(signal.SIGKILL)
    # To look through all that was written down so far takes 20 ms after 50,000 requests, which no server has taken.
    gc.disable()
    try:
        role(*told)
    except Exception as error:
        # Each library has errors of its own.
        failed.write_text(" ".join(f"{type(error).__name__}: {error}".split()))
        sys.exit(1)


def insert(rows: Rows, out: Path, first: int, commit_rows: int, rate: float, rows_max: int, shared: Any) -> None:
    """Inserts rows from id `first` on; `rate` rows a second and `rows_max` rows in all are limits if they are not 0."""
    connection = rows.open()
    batches: list[tuple[float, float]] = []
    shared.ready.wait()
    begun_s = time.monotonic()
    while not shared.stop.is_set():
        due_s = begun_s + len(batches) * commit_rows / rate if rate else 0.0
        is_enough = rows_max and len(batches) * commit_rows >= rows_max
        if is_enough or time.monotonic() < due_s:
            time.sleep(_PAUSE_S)
            continue
        before = time.monotonic()
        if not _commit(connection.insert, first + len(batches) * commit_rows, commit_rows, shared):
            break
        batches.append((before, time.monotonic()))
        shared.inserted.value += commit_rows
    np.save(out, np.asarray(batches).reshape(-1, 2))


def delete(rows: Rows, out: Path, first: int, commit_rows: int, shared: Any) -> None:
    """Deletes rows from id `first` on, as many as were inserted."""
    connection = rows.open()
    batches: list[tuple[float, float]] = []
    shared.ready.wait()
    while not shared.stop.is_set():
        if shared.inserted.value < (len(batches) + 1) * commit_rows:
            time.sleep(_PAUSE_S)
            continue
        before = time.monotonic()
        if not _commit(connection.delete, first + len(batches) * commit_rows, commit_rows, shared):
            break
        batches.append((before, time.monotonic()))
        shared.deleted.value += commit_rows
    np.save(out, np.asarray(batches).reshape(-1, 2))


def _commit(change: Callable[[int, int], None], first: int, count: int, shared: Any) -> bool:
    """Changes rows, as often as the server wants it tried again; whether that was done before time was up."""
    while True:
        try:
            change(first, count)
        except DeadlockError:
            with shared.deadlocks.get_lock():
                shared.deadlocks.value += 1
            if shared.stop.is_set():
                return False
            continue
        return True


def ask(rows: Rows, out: Path, low: int, high: int, shared: Any) -> None:
    """Asks one query after the other: start, end and what is kept of each answer, one line of a .npy each."""
    connection = rows.open()
    # A first round through everything that is only done once.
    for number in range(_FIRST_QUERIES):
        connection.ask(number, low, high)
    times: list[tuple[float, float]] = []
    found: list[Sequence[int]] = []
    shared.ready.wait()
    while not shared.stop.is_set():
        gone, come = shared.deleted.value, shared.inserted.value
        before = time.monotonic()
        answer = connection.ask(len(times), low + gone, high + come)
        times.append((before, time.monotonic()))
        found.append(answer)
    # Seconds of this machine's clock and ids are both exact in float64.
    kept = np.asarray(found, dtype=float).reshape(-1, rows.kept)
    np.save(out, np.hstack([np.asarray(times).reshape(-1, 2), kept]))
