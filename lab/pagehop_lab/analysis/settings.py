"""Repeats and rebuilds of one setting together: their median and their spread."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from pagehop_lab.analysis.points import Options, Point, shown

SAME = 1e-9
"""Recalls that differ by less are equal, up to floating point."""


@dataclass(frozen=True)
class Spread:
    """The middle of several figures, and the least and the greatest."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(figures: Iterable[float]) -> Spread:
        """The spread of figures, which are not none."""
        kept = sorted(figures)
        return Spread(statistics.median(kept), kept[0], kept[-1])


@dataclass(frozen=True)
class Setting:
    """One index and one search setting under one load, with every valid measurement of it."""

    points: tuple[Point, ...]

    @property
    def engine(self) -> str:
        return self.points[0].engine

    @property
    def build(self) -> Options:
        return self.points[0].build

    @property
    def search(self) -> Options:
        return self.points[0].search

    @property
    def sessions(self) -> int:
        return self.points[0].sessions

    @property
    def asked(self) -> Options:
        return self.points[0].asked

    @property
    def recall(self) -> Spread:
        """The spread over rebuilds: repeats on one index send the same queries and mostly find the
        same rows.
        """
        return Spread.of(point.recall for point in self.points)

    @property
    def qps(self) -> Spread:
        return Spread.of(point.qps for point in self.points)

    @property
    def qps_by_run(self) -> dict[Hashable, float]:
        """QPS by run. What was not measured in turns has no key in common."""
        return {point.run: point.qps for point in self.points}

    @property
    def by_repeat(self) -> dict[tuple[int, int], Point]:
        """The measurements by rebuild and repeat, whenever they were made."""
        return {(point.rebuild, point.repeat): point for point in self.points}

    @property
    def middle(self) -> Point:
        """The measurement nearest to the median, to which links lead."""
        median = self.qps.median
        return min(self.points, key=lambda point: abs(point.qps - median))

    @property
    def label(self) -> str:
        return self.points[0].label

    def recall_interval(self, name: str) -> tuple[float, float] | None:
        """The widest 95% interval of a count of recall over repeats and rebuilds; `name` is that of
        raw files. None if none is known.
        """
        found = [(point.raw.get("recall_interval") or {}).get(name) for point in self.points]
        known = [interval for interval in found if interval]
        return (min(low for low, _ in known), max(high for _, high in known)) if known else None

    def figure(self, of: Callable[[Point], float | None]) -> Spread | None:
        """Any other figure, if every measurement has it."""
        figures = [of(point) for point in self.points]
        known = [figure for figure in figures if figure is not None]
        return Spread.of(known) if len(known) == len(figures) else None


def settings_of(points: Iterable[Point]) -> list[Setting]:
    """Valid points by setting, in the order in which they come."""
    grouped: dict[object, list[Point]] = {}
    for point in points:
        if point.valid:
            grouped.setdefault(point.setting, []).append(point)
    return [Setting(tuple(group)) for group in grouped.values()]


def is_least(index: Sequence[Setting], recall: float) -> bool:
    """Whether a recall is below the recall of the plan's least effort on an index. Then searches
    with exactly that recall were not measured.
    """
    return all(setting.recall.median > recall + SAME for setting in index)


def indexes_of(settings: Sequence[Setting]) -> dict[tuple[str, str], list[Setting]]:
    """Settings by engine and build options."""
    grouped: dict[tuple[str, str], list[Setting]] = {}
    for setting in settings:
        grouped.setdefault((setting.engine, shown(setting.build)), []).append(setting)
    return grouped
