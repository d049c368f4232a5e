"""Point reads of data larger than memory: the cases, and when a case may be measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pagehop_lab.analysis.case import Case

WINDOW_S = 0.5
# Windows in a stretch. A rate has settled if the medians of the last two stretches differ little.
_STRETCH = 5
_DRIFT_MAX = 0.05


SELECT, HANDLER = "select", "handler"


@dataclass(frozen=True)
class ReadCase(Case):
    """A number of clients, while the kernel reads a number of bytes ahead."""

    clients: int = 1
    read_ahead_kib: int = 0
    memory_mib: int | None = None
    """A limit of memory that differs from the plan's first one."""

    @property
    def statement(self) -> str:
        """How a row is asked for."""
        return HANDLER if self.script == "point-handler" else SELECT


def read_cases(
    sessions: Iterable[int],
    read_ahead_kib: Iterable[int],
    more_memory_mib: Iterable[int] = (),
    statements: Iterable[str] = (SELECT,),
) -> tuple[ReadCase, ...]:
    """Every number of clients with every read-ahead, in every memory, by every statement."""
    clients, ahead, asked = list(sessions), list(read_ahead_kib), list(statements)
    found = []
    for memory in (None, *more_memory_mib):
        for kib in ahead:
            for statement in asked:
                more = ([f"memory={memory}"] if memory else []) + ([statement] if statement != SELECT else [])
                script = "point-handler" if statement == HANDLER else "point-query"
                group = " ".join([f"ahead={kib}", *more])
                found += [
                    ReadCase(
                        f"clients={count} {group}", group, script, 1, clients=count, read_ahead_kib=kib,
                        memory_mib=memory,
                    )
                    for count in clients
                ]  # fmt: skip
    return tuple(found)


def variant(case: str) -> str:
    """What a case's name says besides clients and read-ahead; empty for the plan's first memory
    and SELECT.
    """
    return " ".join(case.split()[2:])


def settled(rates: Sequence[float]) -> bool:
    """Whether a rate, seen in windows of the same length, has stopped rising or falling.

    The last stretch is compared with the one before it, by their medians: a single stall is no
    drift. A rate that is only noise counts as settled.
    """
    if len(rates) < 2 * _STRETCH:
        return False
    before, after = (statistics.median(part) for part in (rates[-2 * _STRETCH : -_STRETCH], rates[-_STRETCH:]))
    return abs(after - before) <= _DRIFT_MAX * max(abs(before), abs(after))
