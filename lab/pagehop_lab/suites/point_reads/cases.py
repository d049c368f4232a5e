"""Point reads of data larger than memory: what is asked, and when it may be measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pagehop_lab.analysis.case import Case

WINDOW_S = 0.5
# Windows in a stretch. A rate has settled if the medians of the last two stretches differ little.
_STRETCH = 5
_DRIFT_MAX = 0.05


@dataclass(frozen=True)
class ReadCase(Case):
    """A number of clients, while the kernel reads a number of bytes ahead."""

    clients: int = 1
    read_ahead_kib: int = 0


def read_cases(sessions: Iterable[int], read_ahead_kib: Iterable[int]) -> tuple[ReadCase, ...]:
    """Every number of clients with every read-ahead."""
    ahead = list(read_ahead_kib)
    return tuple(
        ReadCase(
            f"clients={clients} ahead={kib}", f"ahead={kib}", "point-query", 1, clients=clients, read_ahead_kib=kib
        )
        for kib in ahead
        for clients in sessions
    )


def settled(rates: Sequence[float]) -> bool:
    """Whether a rate, seen in windows of the same length, has stopped rising or falling.

    The last stretch is compared with the one before it, by their medians: a single stall is no
    drift. A rate that is only noise counts as settled.
    """
    if len(rates) < 2 * _STRETCH:
        return False
    before, after = (statistics.median(part) for part in (rates[-2 * _STRETCH : -_STRETCH], rates[-_STRETCH:]))
    return abs(after - before) <= _DRIFT_MAX * max(abs(before), abs(after))
