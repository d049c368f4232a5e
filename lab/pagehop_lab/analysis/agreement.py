"""Compares two runs of one plan: their figures side by side, such as QPS at each target."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pagehop_lab.analysis.intervals import Interval, unpaired
from pagehop_lab.analysis.points import Point, engines_of
from pagehop_lab.analysis.settings import Setting, settings_of
from pagehop_lab.analysis.targets import best_at

TOLERANCE = 0.1
"""Figures agree if they differ by less than this share."""

Verdict = Literal["agree", "differ", "inconclusive", "only one reaches it", "neither reaches it", "only one has it"]
DISAGREE: tuple[Verdict, ...] = ("differ", "only one reaches it", "only one has it")
"""Verdicts that two runs of one plan should not have."""


def verdict(first: float, second: float, ratio: Interval) -> Verdict:
    """The verdict on two figures by the interval of their ratio. If they differ by more than the
    tolerance and the interval contains 1, it is inconclusive.
    """
    low, high = sorted([first, second])
    if high <= low * (1 + TOLERANCE):
        return "agree"
    return "differ" if ratio.is_apart else "inconclusive"


@dataclass(frozen=True)
class Held:
    """How often the interval of a ratio of two runs contains 1, and how wide such intervals are."""

    count: int
    """Number of ratios with an interval; an interval takes two repeats in both runs."""
    held: int
    width: float
    """Mean half width of the intervals, as a share of their middle."""

    @staticmethod
    def of(ratios: Iterable[Interval]) -> Held:
        """Of all ratios; those of one repeat have no interval."""
        known = [ratio for ratio in ratios if ratio.count > 1]
        held = sum(ratio.low <= 1 <= ratio.high for ratio in known)
        widths = [math.sqrt(ratio.high / ratio.low) - 1 for ratio in known]
        return Held(len(known), held, statistics.fmean(widths) if widths else 0.0)

    def shown(self) -> str:
        """The share and the width in a sentence."""
        if not self.count:
            return "No figure has an interval: that takes two repeats in both runs."
        return (
            f"The 95% interval of the ratio holds 1 in {self.held:,} of {self.count:,} figures "
            f"({self.held / self.count:.1%}); it goes {self.width:.1%} to either side, on average."
        )


@dataclass(frozen=True)
class Pair:
    """The figures of two runs for one engine at one target."""

    engine: str
    target: float
    first: Setting | None
    second: Setting | None

    @property
    def ratio(self) -> float | None:
        """QPS of the second run over QPS of the first, both the median of their repeats."""
        if self.first is None or self.second is None:
            return None
        return self.second.qps.median / self.first.qps.median

    @property
    def interval(self) -> Interval | None:
        """Where that ratio lies."""
        if self.first is None or self.second is None:
            return None
        # Repeats of different runs share only their number.
        figures, others = ([point.qps for point in setting.points] for setting in (self.second, self.first))
        return unpaired(figures, others)

    @property
    def verdict(self) -> Verdict:
        """Whether both say the same."""
        if self.first is None or self.second is None or self.interval is None:
            return "neither reaches it" if self.first is self.second else "only one reaches it"
        return verdict(self.first.qps.median, self.second.qps.median, self.interval)


def pairs(first: Iterable[Point], second: Iterable[Point], targets: Iterable[float]) -> list[Pair]:
    """Every engine of either run at every target, engines first; points of one dataset and one
    load.
    """
    both = [list(first), list(second)]
    one, other = (settings_of(points) for points in both)

    def best(settings: list[Setting], engine: str, target: float) -> Setting | None:
        return best_at([setting for setting in settings if setting.engine == engine], target)

    return [
        Pair(engine, target, best(one, engine, target), best(other, engine, target))
        for engine in engines_of([*both[0], *both[1]])
        for target in targets
    ]
