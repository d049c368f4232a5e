"""Tables and charts independent of their output: a page, a terminal, CSV and JSON show the same."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Value = str | float | int | None


@dataclass(frozen=True)
class Cell:
    """One figure: its text for readers, its value for programs, and its raw file."""

    text: str
    value: Value = None
    file: str = ""
    """The raw file, relative to the run's folder."""
    title: str = ""
    """What else is known of it."""
    invalid: bool = False
    tone: str = ""
    """`worse` or `better` than the base, if the difference is beyond a limit."""
    said: str = ""
    """The certainty of a ratio; see `analysis/intervals.py`."""
    is_apart: bool = False
    """Whether the interval of a ratio leaves out 1; only then is the cell shaded."""

    @staticmethod
    def of(value: Value, form: str = "", **more: str | bool) -> Cell:
        """A cell for a value, in a format such as `,.0f`; None is shown as a dash."""
        if value is None:
            return Cell("-")
        return Cell(format(value, form), value, **more)  # type: ignore[arg-type]


def brief(text: str, most: int = 300) -> str:
    """A long text in one line: its beginning, and its end, which usually has the reason."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most // 3]} ... {line[-2 * most // 3 :]}"


@dataclass(frozen=True)
class Table:
    """A table, with notes for its readers."""

    name: str
    """Name for files, unique in a report."""
    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    is_heat: bool = False
    """Whether its figures are ratios that are shaded by how far they surely are from 1.

    More than 1 is better.
    """

    @property
    def numeric(self) -> list[bool]:
        """For each column, whether it has figures."""
        return [
            any(isinstance(row[at].value, int | float) for row in self.rows if at < len(row))
            for at in range(len(self.columns))
        ]


@dataclass(frozen=True)
class Mark:
    """A point of a chart."""

    x: float
    y: float
    title: str
    file: str = ""
    invalid: bool = False
    low: float | None = None
    """The least of its repeats."""
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """The points of one engine, and the points that a line goes through."""

    name: str
    marks: Sequence[Mark]
    line: Sequence[tuple[float, float]]


def through_medians(groups: Iterable[Sequence[Mark]]) -> list[tuple[float, float]]:
    """A line through the median of the valid marks of each group, by x.

    A group is, for example, the repeats of a step.
    """
    valid = [[mark for mark in group if not mark.invalid] for group in groups]
    return sorted(
        (statistics.median(mark.x for mark in group), statistics.median(mark.y for mark in group))
        for group in valid
        if group
    )


@dataclass(frozen=True)
class Chart:
    """A chart of several engines."""

    name: str
    title: str
    x_title: str
    y_title: str
    series: Sequence[Series]
    x_nears_one: bool
    """Whether the axis has shares, such as recall, of which those near 1 need the most room."""
    note: str = ""


def with_marks(charts: Iterable[Chart]) -> list[Chart]:
    """The charts that have marks."""
    return [chart for chart in charts if any(mark.y > 0 for series in chart.series for mark in series.marks)]


@dataclass(frozen=True)
class Section:
    """Tables and charts of one set under one load."""

    title: str
    charts: Sequence[Chart] = field(default_factory=tuple)
    tables: Sequence[Table] = field(default_factory=tuple)
