"""Figures at a wanted recall, from a sweep of one setting: between the two values around it, never beyond."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pagehop_bench.curve import interpolate
from pagehop_bench.measure import Spread
from pagehop_bench.postgres.loadgen import Asked
from pagehop_bench.postgres.tables import Family

TARGETS = (0.95, 0.98, 0.99, 0.995)


@dataclass(frozen=True)
class Around:
    """The two values of a setting with the wanted recall between them; the same twice if the least is enough."""

    target: float
    low: float
    high: float


def around(target: float, recalls: Mapping[float, float]) -> Around | None:
    """The neighboring values around `target`, the first that reaches it and the one before; None if none does."""
    values = sorted(recalls)
    for number, value in enumerate(values):
        if recalls[value] >= target:
            return Around(target, values[max(number - 1, 0)], value)
    return None


@dataclass(frozen=True)
class Swept:
    """All timed runs of one setting of one side: a run of each value in each repeat."""

    side: str
    family: Family
    runs: Mapping[float, Sequence[Asked]]

    @property
    def recalls(self) -> dict[float, float]:
        """Recall of each value; it is the same in all repeats, for the queries are."""
        return {value: runs[0].recall or 0.0 for value, runs in self.runs.items()}

    def at(self, target: float, figure: Callable[[Asked], float]) -> list[float] | None:
        """`figure` at the wanted recall, once for each repeat; None if it is not reached."""
        between = around(target, self.recalls)
        if between is None:
            return None
        low, high = self.runs[between.low], self.runs[between.high]
        recalls = self.recalls[between.low], self.recalls[between.high]
        return [
            interpolate(target, (recalls[0], figure(a)), (recalls[1], figure(b)))
            for a, b in zip(low, high, strict=True)
        ]

    def bracket(self, target: float) -> str:
        """Both values around the wanted recall, with the recall and the QPS of each."""
        between = around(target, self.recalls)
        if between is None:
            best = max(self.recalls.items(), key=lambda item: item[1])
            return f"{self.family.shown(best[0])} reaches {best[1]:.4f} only"

        def shown(value: float) -> str:
            qps = Spread.of([run.qps for run in self.runs[value]]).median
            return f"{self.family.shown(value)}: {self.recalls[value]:.4f}, {qps:,.0f}"

        if between.low == between.high:
            return f"the least value, {shown(between.low)}"
        return f"{shown(between.low)} to {shown(between.high)}"


def best(swept: Sequence[Swept], target: float, figure: Callable[[Asked], float]) -> tuple[Swept, list[float]] | None:
    """The sweep whose median of `figure` at the wanted recall is greatest, and its figures."""
    found = [(one, figures) for one in swept if (figures := one.at(target, figure)) is not None]
    return max(found, key=lambda item: Spread.of(item[1]).median) if found else None


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """How many times theirs ours is, repeat by repeat."""
    return Spread.of([a / b for a, b in zip(ours, theirs, strict=True)])


def passes(seconds: float, queries: int, qps: float) -> int:
    """How often all queries are to be asked for a run of about so many seconds: at least once."""
    return max(1, math.ceil(seconds * qps / queries - 0.25))
