"""Confidence intervals of figures and ratios, and the conclusions from them: Student's t over
logarithms, 95% confidence.

Two things are compared by their ratio in each repeat, since what changes from repeat to repeat
changes for both. Things without common repeats are compared by Welch's t. The figure in the middle
is a geometric mean, so it is not the ratio of the medians that tables show. A ratio whose interval
leaves out 1 is higher or lower; one within 5% of 1 is the same; any other is inconclusive. The
spread of one repeat is not known.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

# Student's t for 95% confidence, by degrees of freedom from 1. Beyond these it falls to 1.96.
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11)
_T_LIMIT = 2.1
SAME = 1.05
"""A ratio counts as 1 if its interval lies within this factor of 1."""

Said = Literal["higher", "lower", "same", "inconclusive", "one repeat"]


@dataclass(frozen=True)
class Interval:
    """The geometric mean of figures and its 95% confidence interval; one figure alone has none.

    Of differences it is the mean.
    """

    middle: float
    low: float
    high: float
    count: int
    counted: str = "repeats"
    """What `count` counts."""

    @staticmethod
    def of(figures: Sequence[float], *, is_counted: bool = False) -> Interval:
        """The interval of positive figures, at least one; counts need no repeats."""
        logs = _logs(figures)
        middle = statistics.fmean(logs)
        if len(logs) < 2:
            return _around(middle, 0.0 if is_counted else math.inf, len(logs))
        return _around(middle, _t(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs)), len(logs))

    @staticmethod
    def of_differences(figures: Sequence[float]) -> Interval:
        """The interval of figures that may be less than 0, which are not none: by their mean, and
        not by logarithms.
        """
        middle, count = statistics.fmean(figures), len(figures)
        if count < 2:
            return Interval(middle, -math.inf, math.inf, count)
        wide = _t(count - 1) * statistics.stdev(figures) / math.sqrt(count)
        return Interval(middle, middle - wide, middle + wide, count)

    @property
    def said(self) -> Said:
        """The conclusion from a ratio."""
        if self.low > 1:
            return "higher"
        if self.high < 1:
            return "lower"
        if self.low >= 1 / SAME and self.high <= SAME:
            return "same"
        return "inconclusive" if self.count > 1 else "one repeat"

    @property
    def is_apart(self) -> bool:
        """Whether the interval of a ratio leaves out 1."""
        return self.said in ("higher", "lower")

    def shown(self, form: str = ".2f") -> str:
        """The interval and the repeats in a few words."""
        return (
            "one repeat"
            if self.count < 2
            else f"{self.low:{form}} to {self.high:{form}} by {self.count} {self.counted}"
        )


def compared(one: Mapping[Any, float], other: Mapping[Any, float]) -> Interval:
    """The ratio of two figures of one run; both by repeat, not none, and positive."""
    shared = [run for run in one if run in other]
    if len(shared) > 1:
        return Interval.of([one[run] / other[run] for run in shared])
    return unpaired(list(one.values()), list(other.values()))


def unpaired(figures: Sequence[float], others: Sequence[float]) -> Interval:
    """The ratio of two figures that have no repeats in common, by Welch's t. Both have at least one
    repeat.
    """
    one, other = _logs(figures), _logs(others)
    middle, count = statistics.fmean(one) - statistics.fmean(other), min(len(one), len(other))
    if count < 2:
        return _around(middle, math.inf, 1)
    errors = [statistics.variance(logs) / len(logs) for logs in (one, other)]
    whole = sum(errors)
    if whole == 0:
        return _around(middle, 0.0, count)
    below = sum(error**2 / (len(logs) - 1) for error, logs in zip(errors, (one, other), strict=True))
    return _around(middle, _t(int(whole**2 / below)) * math.sqrt(whole), count)


def _around(middle: float, wide: float, count: int) -> Interval:
    low, high = (0.0, math.inf) if math.isinf(wide) else (math.exp(middle - wide), math.exp(middle + wide))
    return Interval(math.exp(middle), low, high, count)


def _logs(figures: Sequence[float]) -> list[float]:
    return [math.log(max(figure, 1e-12)) for figure in figures]


def _t(freedom: int) -> float:
    return _T[max(freedom, 1) - 1] if freedom <= len(_T) else _T_LIMIT
