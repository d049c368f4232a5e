"""Searches with a requested recall: whether they find it, and what they cost.

The cost is compared with the cheapest setting that finds what was asked for. A search that missed
it is compared with the cheapest setting of at least its own recall, so that a lower recall does not
count as an advantage.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pagehop_lab.analysis.points import Options, Point, shown
from pagehop_lab.analysis.settings import SAME, Setting, indexes_of, settings_of

BELOW, ABOVE = 0.005, 0.007
"""How far the measured recall may be below and above the requested one."""
LOST = 0.01
"""Largest loss of recall after rounds of changes."""
DEARER = 1.15
"""Largest ratio of hops to those of the cheapest setting."""


@dataclass(frozen=True)
class Asked:
    """A requested recall, on one index."""

    engine: str
    build: Options
    recall: float
    found: float
    low: float
    """Lower end of the 95% confidence interval, for other queries of the same kind."""
    high: float
    hops: float
    cheapest: tuple[float, str] | None
    """Hops and words of the cheapest setting that finds the requested recall; None if none does."""
    at_found: tuple[float, str] | None
    """The same for what was found."""
    file: str

    @property
    def accuracy(self) -> str:
        """Whether the measured recall is close enough to the requested one."""
        if -BELOW - SAME <= self.found - self.recall <= ABOVE + SAME:
            return "floor reached"
        apart = self.high < self.recall - BELOW or self.low > self.recall + ABOVE
        return "MISSED" if apart else "floor inconclusive"

    @property
    def compared(self) -> tuple[float, str] | None:
        """The cheapest setting that the price is taken over; None if there is none."""
        return self.cheapest if self.found >= self.recall - SAME else self.at_found

    @property
    def dearer(self) -> float | None:
        """Ratio of the hops to the hops of the cheapest setting."""
        return None if self.compared is None else self.hops / self.compared[0]


def asked_of(points: Iterable[Point], recall_name: str) -> list[Asked]:
    """Every requested recall.

    Settings without a recall are the grid that these are compared with.
    """
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
                    (count, shown(one.search)) for count, one in grid if one.recall.median >= recall - SAME
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


@dataclass(frozen=True)
class Changed:
    """One setting on an index after its build, and after rows were deleted and added again."""

    engine: str
    rounds: int
    label: str
    before: float
    """The recall after the build."""
    after: float
    low: float
    """Lower end of the 95% confidence interval of the recall after the changes."""
    high: float
    file: str

    @property
    def lost(self) -> float:
        """Recall that is gone."""
        return self.before - self.after


def changed_of(points: Iterable[Point], recall_name: str) -> list[Changed]:
    """Every setting on indexes that differ in `rounds` alone.

    The index without rounds is the base.
    """
    settings = settings_of(points)
    plain = {
        (one.engine, _without_rounds(one.build), one.search): one
        for one in settings
        if not dict(one.build).get("rounds", 0)
    }
    found = []
    for setting in settings:
        rounds = int(dict(setting.build).get("rounds", 0))
        before = plain.get((setting.engine, _without_rounds(setting.build), setting.search))
        if not rounds or before is None:
            continue
        point, after = setting.middle, setting.recall.median
        low, high = (point.raw.get("recall_interval") or {}).get(recall_name, (after, after))
        label, engine = shown(setting.search), setting.engine
        found.append(Changed(engine, rounds, label, before.recall.median, after, low, high, point.file))
    return found


def _without_rounds(build: Options) -> Options:
    return tuple(option for option in build if option[0] != "rounds")


def _hops(point: Point) -> float | None:
    return (point.raw.get("work") or {}).get("hops")
