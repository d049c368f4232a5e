"""Throughput of several versions relative to one, and a group of tests in five numbers, rounded as it is published.

A published table rounds each ratio to two decimals first, and its five numbers are those of the rounded ratios.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


def ratio(figure: float, base: float) -> float:
    """One figure over another, to two decimals."""
    return round(figure / base, 2)


def tone(over: float) -> str:
    """Whether a ratio is told by a colour, as published tables do: below 0.95 and above 1.05."""
    return "worse" if over < 0.95 else "better" if over > 1.05 else ""


@dataclass(frozen=True)
class Five:
    """Ratios of a group of tests."""

    least: float
    most: float
    mean: float
    median: float
    stdev: float
    """Of a sample; 0 of one ratio."""

    @staticmethod
    def of(ratios: Sequence[float]) -> Five:
        """The five numbers of ratios that were rounded."""
        spread = statistics.stdev(ratios) if len(ratios) > 1 else 0.0
        return Five(min(ratios), max(ratios), statistics.mean(ratios), statistics.median(ratios), spread)

    def shown(self) -> tuple[str, str, str, str, str]:
        """Least, most, mean, median, standard deviation as printed."""
        least, most, mean, median, stdev = self.least, self.most, self.mean, self.median, self.stdev
        return (f"{least:.2f}", f"{most:.2f}", f"{mean:.2f}", f"{median:.2f}", f"{stdev:.2f}")


def by_group(figures: Mapping[str, float], base: Mapping[str, float], group_of: Mapping[str, str]) -> dict[str, Five]:
    """The five numbers of each group; `figures` and `base` are of tests by their names, and only common ones count."""
    grouped: dict[str, list[float]] = {}
    for name, figure in figures.items():
        if name in base:
            grouped.setdefault(group_of[name], []).append(ratio(figure, base[name]))
    return {group: Five.of(ratios) for group, ratios in grouped.items()}
