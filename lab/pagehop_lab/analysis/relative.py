"""Throughput of several versions relative to one, and a group of tests in five numbers, rounded as
it is published.

A published table rounds each ratio to two decimals first, and its five numbers are those of the
rounded ratios. Both times half is rounded up, in decimals: a binary fraction such as 1.125 or 0.995
would go either way.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

_CENT = Decimal("0.01")


def half_up(figure: Decimal) -> Decimal:
    """A figure to two decimals; half goes up."""
    return figure.quantize(_CENT, ROUND_HALF_UP)


def ratio(figure: float, base: float) -> Decimal:
    """One figure over another, to two decimals."""
    # From their shortest decimals, which a file or a table has.
    return half_up(Decimal(repr(float(figure))) / Decimal(repr(float(base))))


def tone(over: float) -> str:
    """Whether a ratio is shown in a color, as published tables do: below 0.95 and above 1.05."""
    return "worse" if over < 0.95 else "better" if over > 1.05 else ""


@dataclass(frozen=True)
class Five:
    """Ratios of a group of tests."""

    least: Decimal
    most: Decimal
    mean: Decimal
    median: Decimal
    stdev: Decimal
    """Standard deviation of a sample; 0 for one ratio."""

    @staticmethod
    def of(ratios: Sequence[Decimal]) -> Five:
        """The five numbers of ratios that were rounded."""
        spread = statistics.stdev(ratios) if len(ratios) > 1 else Decimal(0)
        return Five(min(ratios), max(ratios), statistics.mean(ratios), statistics.median(ratios), spread)

    def shown(self) -> tuple[str, str, str, str, str]:
        """Least, most, mean, median, standard deviation, as printed."""
        least, most, mean, median, stdev = self.least, self.most, self.mean, self.median, self.stdev
        return (f"{half_up(least)}", f"{half_up(most)}", f"{half_up(mean)}", f"{half_up(median)}", f"{half_up(stdev)}")


def by_group(ratios: Mapping[str, Decimal], group_of: Mapping[str, str]) -> dict[str, Five]:
    """The five numbers of each group, from the rounded ratios of tests by their names."""
    grouped: dict[str, list[Decimal]] = {}
    for name, one in ratios.items():
        grouped.setdefault(group_of[name], []).append(one)
    return {group: Five.of(found) for group, found in grouped.items()}
