"""Searches that ask for a recall: whether they find it, and what they take beside the cheapest setting that does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pagehop_lab.analysis.points import Options, Point, shown
from pagehop_lab.analysis.settings import Setting, indexes_of, settings_of

BELOW, ABOVE = 0.005, 0.007
"""How much less and more than what was asked for may be found."""
DEARER = 1.15
"""Hops over those of the cheapest setting."""
_SAME = 1e-9


@dataclass(frozen=True)
class Asked:
    """A recall that was asked for, on one index."""

    engine: str
    build: Options
    recall: float
    found: float
    low: float
    """Of the interval for other queries of the same kind, with 95% confidence."""
    high: float
    hops: float
    cheapest: tuple[float, str] | None
    """Hops and words of the cheapest setting that finds what was asked for; None if none does."""
    at_found: tuple[float, str] | None
    """The same for what was found."""
    file: str

    @property
    def accuracy(self) -> str:
        """Whether what is found is near enough to what was asked for."""
        if -BELOW - _SAME <= self.found - self.recall <= ABOVE + _SAME:
            return "floor reached"
        apart = self.high < self.recall - BELOW or self.low > self.recall + ABOVE
        return "MISSED" if apart else "floor cannot be told"

    @property
    def dearer(self) -> float | None:
        """Hops over those of the cheapest setting."""
        return None if self.cheapest is None else self.hops / self.cheapest[0]


def asked_of(points: Iterable[Point], recall_name: str) -> list[Asked]:
    """Every recall that was asked for; the settings without one are the grid that they are compared with."""
    found = []
    for (engine, _), settings in indexes_of(settings_of(points)).items():
        counted = [(one, hops) for one in settings if (hops := one.figure(_hops)) is not None]
        grid = [(hops.median, one) for one, hops in counted if "recall" not in dict(one.search)]
        for setting, hops in counted:
            wanted = dict(setting.search).get("recall")
            if wanted is None:
                continue
            point = setting.middle
            low, high = (point.raw.get("recall_interval") or {}).get(recall_name, (point.recall, point.recall))

            def least(recall: float, grid: list[tuple[float, Setting]] = grid) -> tuple[float, str] | None:
                reaching = [
                    (count, shown(one.search)) for count, one in grid if one.recall.median >= recall - _SAME
                ]  # fmt: skip
                return min(reaching, default=None)

            median = setting.recall.median
            found.append(
                Asked(
                    engine, setting.build, float(wanted), median, low, high, hops.median,
                    least(float(wanted)), least(median), point.file,
                )
            )  # fmt: skip
    return found


def _hops(point: Point) -> float | None:
    return (point.raw.get("work") or {}).get("hops")
