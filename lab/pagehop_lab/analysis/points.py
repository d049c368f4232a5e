"""A measured point: one index, one search setting, one load, and the recall and speed there."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from pagehop_lab.analysis.records import PointRecord
from pagehop_lab.analysis.turns import Run, run_of

OptionValue = str | int | float | bool
Options = tuple[tuple[str, OptionValue], ...]
"""Names and values, in the order of the plan."""


def options_of(given: Mapping[str, OptionValue]) -> Options:
    """Options that can be compared and used as keys."""
    return tuple(given.items())


def shown(options: Options) -> str:
    """Options in a few words, `m=16 ef_search=40`.

    Options that are -1 or empty are defaults, left out.
    """
    return " ".join(f"{name}={value}" for name, value in options if value not in (-1, ""))


_TOLD = {
    "k": "k = {}",
    "threads": "{} threads a call",
    "batch": "{} queries a call",
    "cache": "caches {}",
    "memory_mib": "{} MiB",
    "matching": "a filter leaves {:.3g} of the rows",
    "insert_rate": "{:g} rows a second inserted",
}


def told(asked: Options) -> str:
    """The options of a load that are not the default, for a title."""
    return ", ".join(_TOLD[name].format(value) for name, value in asked)


@dataclass(frozen=True)
class Point:
    """One measurement. The recall is that of the timed answers."""

    dataset: str
    engine: str
    build: Options
    search: Options
    recall: float
    """The recall that the plan compares by: by distance threshold, unless the plan has another one.
    """
    qps: float
    sessions: int = 1
    rebuild: int = 0
    repeat: int = 0
    wrong: tuple[str, ...] = ()
    """The reasons why the figure is invalid; empty if it is valid."""
    noted: tuple[str, ...] = ()
    """Notes on a valid figure."""
    file: str = ""
    """The raw file, relative to the run's folder."""
    asked: Options = ()
    """The options of the load that are not the default."""
    raw: PointRecord = field(default_factory=PointRecord, compare=False, repr=False)
    """Everything that was measured."""
    group: int = 0
    """Number of the indexes that were open at once and measured in turns, by the plan."""

    @property
    def valid(self) -> bool:
        """Whether the figure may be compared."""
        return not self.wrong

    @property
    def run(self) -> Run:
        """What it was measured with; points of one run make pairs."""
        return run_of(self.raw, self.group, self.rebuild, self.repeat)

    @property
    def setting(self) -> Hashable:
        """The identity that repeats and rebuilds of one measurement share."""
        return (self.dataset, self.engine, self.build, self.search, self.sessions, self.asked)

    @property
    def label(self) -> str:
        """Build options, search options and unusual options of the load, in a few words."""
        return " ".join(filter(None, [shown(self.build), shown(self.search), shown(self.asked)]))


def engines_of(points: Iterable[Point]) -> list[str]:
    """The engines, in the order in which they come."""
    return list(dict.fromkeys(point.engine for point in points))
