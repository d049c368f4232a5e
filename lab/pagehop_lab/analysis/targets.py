"""Engines at equal recall: the fastest setting that reaches a target, and the speed exactly at it.

The figure of a setting is the median of its repeats. "At or above" uses measured settings only.
"At" interpolates between two neighboring settings of one index, along the logarithm of QPS, and
never extrapolates. If the least effort of the plan already finds more on an index, its own figure
is used and marked, so "at" is never less than "at or above".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pagehop_lab.analysis.curve import interpolate
from pagehop_lab.analysis.points import Point, engines_of
from pagehop_lab.analysis.settings import SAME, Setting, indexes_of, is_least, settings_of


@dataclass(frozen=True)
class Between:
    """QPS at exactly a target, from the settings below and above it on one index.

    Both are the same setting if one meets the target, or if no setting of the index finds less.
    """

    qps: float
    low: Setting
    high: Setting
    is_least: bool = False
    """Whether the target is below the recall of the plan's least effort. The figure is then that of
    the least effort.
    """


@dataclass(frozen=True)
class AtTarget:
    """What one engine reaches."""

    engine: str
    target: float
    best: Setting | None
    """The fastest setting at or above the target; None if there is none."""
    between: Between | None
    """The fastest of all interpolations; None if no index reaches the target."""
    is_least: bool = False
    """Whether every setting of the index of `best` finds more than the target."""


def best_at(settings: Iterable[Setting], target: float) -> Setting | None:
    """The fastest setting whose recall is at least `target`; of equally fast ones the first."""
    reaching = [setting for setting in settings if setting.recall.median >= target - SAME]
    return max(reaching, key=lambda setting: setting.qps.median, default=None)


def between_at(settings: Sequence[Setting], target: float) -> Between | None:
    """The fastest QPS at `target`, interpolated on any one index."""
    found = [_between(group, target) for group in indexes_of(settings).values()]
    return max((one for one in found if one is not None), key=lambda one: one.qps, default=None)


def _between(index: Sequence[Setting], target: float) -> Between | None:
    """The settings of one index around the target, among those that no other setting dominates."""
    ordered = frontier(index)
    above = next((at for at, setting in enumerate(ordered) if setting.recall.median >= target - SAME), None)
    if above is None:
        return None
    high = ordered[above]
    if high.recall.median <= target + SAME or above == 0:
        return Between(high.qps.median, high, high, is_least(index, target))
    low = ordered[above - 1]
    pair = [(setting.recall.median, setting.qps.median) for setting in (low, high)]
    return Between(interpolate(target, pair[0], pair[1]), low, high)


def at_targets(points: Iterable[Point], targets: Iterable[float]) -> list[AtTarget]:
    """Every engine at every target, targets first; points of one dataset and one load."""
    points = list(points)
    settings = settings_of(points)
    found = []
    for target in targets:
        for engine in engines_of(points):
            mine = [setting for setting in settings if setting.engine == engine]
            best = best_at(mine, target)
            index = [setting for setting in mine if best is not None and setting.build == best.build]
            found.append(
                AtTarget(engine, target, best, between_at(mine, target), best is not None and is_least(index, target))
            )
    return found


def frontier(settings: Iterable[Setting]) -> list[Setting]:
    """The settings that no other one dominates in recall and QPS, in order of recall."""
    kept: list[Setting] = []
    for setting in sorted(settings, key=lambda one: (-one.recall.median, -one.qps.median)):
        if not kept or setting.qps.median > kept[-1].qps.median:
            kept.append(setting)
    return kept[::-1]
