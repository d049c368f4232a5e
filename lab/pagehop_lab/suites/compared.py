"""The figures by which servers may be compared, in one run or between two: each suite lists those
of its tests.

Only figures that depend on the server are here. A rate that a schedule sets is the same for all
servers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Never, TypeVar

from pagehop_lab.analysis.server_records import CaseRecord, LoadedRecord
from pagehop_lab.analysis.turns import Run, load_run
from pagehop_lab.suites.server_results import R, ServerResults

Raw = TypeVar("Raw")
Raw_contra = TypeVar("Raw_contra", contravariant=True)

# Of a thousand queries for ten rows, the least recall that is missing is 1e-4, ten times this.
_MISSED_LEAST = 1e-5


@dataclass(frozen=True)
class Compared(Generic[Raw_contra]):
    """A figure of a test, or of the preparations before the tests."""

    unit: str
    of: Callable[[Raw_contra], float | None]
    """The value in a raw file; None, or a value that is not above 0, if it has none."""
    words: str = ""
    """Words behind the name of the test; empty for the main figure."""
    more_is_better: bool = False
    is_counted: bool = False
    """Whether it is a count without a clock, which every repeat gives alike."""


def _of_a_test(
    name: Literal["qps", "server_cpu_us_per_query", "bytes_written_per_query"],
) -> Callable[[CaseRecord], float | None]:
    """A figure of the raw files of tests."""
    return lambda found: scaled(found.get(name))


def _of_a_load(
    name: Literal["data_bytes", "index_bytes", "index_s", "load_rows_per_s"], scale: float = 1.0
) -> Callable[[LoadedRecord], float | None]:
    """A figure of the raw files of preparations, divided by `scale`."""
    return lambda found: scaled(found.get(name), scale)


def scaled(figure: float | None, scale: float = 1.0) -> float | None:
    """A figure divided by `scale`, if it is known."""
    return None if figure is None else float(figure) / scale


def missed(found: CaseRecord) -> float | None:
    """Recall that is missing: 0.99 is twice as good as 0.98."""
    recall = found.get("recall")
    return None if recall is None else max(1.0 - float(recall), _MISSED_LEAST)


RATE = Compared("a second", _of_a_test("qps"), more_is_better=True)
CPU = Compared("CPU us", _of_a_test("server_cpu_us_per_query"), "the server's CPU of one")
WRITTEN = Compared("bytes", _of_a_test("bytes_written_per_query"), "bytes given to storage for one")
MISSED = Compared("of 1", missed, "recall that is missing")

DATA = Compared("MB", _of_a_load("data_bytes", 1e6), "bytes of all data after loading")
INDEX = Compared("MB", _of_a_load("index_bytes", 1e6), "bytes of the index after loading")
CREATE_INDEX = Compared("s", _of_a_load("index_s"), "CREATE INDEX")
LOADED = Compared("a second", _of_a_load("load_rows_per_s"), "rows loaded without an index", more_is_better=True)

OF_A_TEST: Sequence[Compared[CaseRecord]] = (RATE, CPU)
"""Figures of tests that run at full speed."""


@dataclass(frozen=True)
class Found:
    """A figure of one server, once in each repeat."""

    group: str
    """The test, and the words of the figure."""
    server: str
    of: Compared[Never]
    repeats: Mapping[Hashable, float]
    file: str
    """The raw file that stands for all, relative to the run's folder."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The key that the same figure of another run has."""
        return (self.group, self.server, self.of.unit)

    @property
    def middle(self) -> float:
        """The median of the repeats."""
        return statistics.median(self.repeats.values())


def figures(
    results: ServerResults[R], loads: Sequence[Compared[LoadedRecord]], of_test: Callable[[str], Sequence[Compared[R]]]
) -> Iterator[Found]:
    """Every valid figure by which servers may be compared; `of_test` takes the name of a test."""
    for facts in results.servers:
        for of_load in loads:
            loaded = {load_run(load, number): load for number, load in enumerate(facts.loads)}
            yield from _found(of_load, of_load.words, facts.name, loaded, "machine.json")
    for case in results.groups:
        for server in results.names:
            measured = results.of(server, case)
            raws = {found.run: found.raw for found in measured}
            for one in of_test(case) if measured else ():
                group = ", ".join(filter(None, [case, one.words]))
                yield from _found(one, group, server, raws, measured[0].file)


def _found(one: Compared[Raw], group: str, server: str, raws: Mapping[Run, Raw], file: str) -> Iterator[Found]:
    """A figure of a server, if each of its repeats has it."""
    known = {repeat: one.of(raw) for repeat, raw in raws.items()}
    repeats: dict[Hashable, float] = {repeat: value for repeat, value in known.items() if value}
    if repeats and len(repeats) == len(raws):
        yield Found(group, server, one, repeats, file)
