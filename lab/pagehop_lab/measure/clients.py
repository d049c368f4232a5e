"""The clients of a step: one that inserts, one that deletes as much, one that queries.

Each is a process, and all use one clock. Each opens its connection, waits for the others, and
writes down its work when it is told to stop.
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
    """A client's view of a table."""

    def insert(self, first: int, count: int) -> None:
        """One commit of rows with ids from `first` on."""

    def delete(self, first: int, count: int) -> None:
        """One commit without these rows."""

    def ask(self, number: int, low: int, high: int, /) -> Sequence[int]:
        """The query of this number, while ids from `low` to below `high` exist.

        Returns the kept answer.
        """


class Rows(Protocol):
    """A table in a server, in a form that can be sent to a process."""

    @property
    def kept(self) -> int:
        """Number of values that are kept of an answer."""

    def open(self) -> Connection:
        """A connection, ready to do anything above; called by the process that uses it."""


def work(role: Callable[..., None], failed: Path, *told: Any) -> None:
    """The process of a client. An error goes into a file, for the process that started it."""
    # Otherwise it would survive a run that is killed.
    end_with_parent(signal.SIGKILL)
    # A garbage collection over all results so far takes 20 ms after 50,000 requests, and would
    # count as the server's time.
    gc.disable()
    try:
        role(*told)
    except Exception as error:
        # Each library has errors of its own.
        failed.write_text(" ".join(f"{type(error).__name__}: {error}".split()))
        sys.exit(1)


def insert(rows: Rows, out: Path, first: int, commit_rows: int, rate: float, rows_max: int, shared: Any) -> None:
    """Inserts rows from id `first` on.

    `rate` (rows a second) and `rows_max` (in all) are limits unless 0.
    """
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
    """Changes rows, and retries as often as the server asks.

    Returns whether it was done in time.
    """
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
    """Sends one query after the other.

    Keeps start, end and the kept answer of each in a line of a .npy.
    """
    connection = rows.open()
    # The first queries do work that is only done once.
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
