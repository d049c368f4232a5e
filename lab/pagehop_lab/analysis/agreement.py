"""Do two runs of one plan say the same? Best QPS of each engine at each target, side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pagehop_lab.analysis.intervals import unpaired
from pagehop_lab.analysis.points import Point, engines_of
from pagehop_lab.analysis.settings import Setting, settings_of
from pagehop_lab.analysis.targets import best_at

TOLERANCE = 0.1
"""Figures within this of each other agree."""

Verdict = Literal["agree", "differ", "cannot tell", "only one reaches it", "neither reaches it"]


@dataclass(frozen=True)
class Pair:
    """What two runs found of one engine at one target."""

    engine: str
    target: float
    first: Setting | None
    second: Setting | None

    @property
    def ratio(self) -> float | None:
        """QPS of the second over QPS of the first, both the middle of their repeats."""
        if self.first is None or self.second is None:
            return None
        return self.second.qps.median / self.first.qps.median

    @property
    def verdict(self) -> Verdict:
        """Figures that differ by more than the tolerance, with an interval of their ratio that has
        1 in it, tell nothing.
        """
        if self.first is None or self.second is None:
            return "neither reaches it" if self.first is self.second else "only one reaches it"
        low, high = sorted([self.first.qps.median, self.second.qps.median])
        if high <= low * (1 + TOLERANCE):
            return "agree"
        # Repeats of different runs have nothing in common but their number.
        figures, others = ([point.qps for point in setting.points] for setting in (self.second, self.first))
        return "differ" if unpaired(figures, others).is_apart else "cannot tell"


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
