"""The aims of a plan, and whether a run reaches them: figures at equal recall, ratios, verdicts.

A figure at a recall is interpolated between two measured settings, on a logarithmic scale. If the
least effort of the plan is already beyond the recall, its own figure is used, and says so. A ratio
is taken repeat by repeat, if both sides were measured in turns. Its 95% confidence interval is that
of Student's t over the logarithms of the repeats, or of Welch's t without turns. If a limit lies
within the interval, the verdict is neither reached nor missed: it is inconclusive.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pagehop_lab.analysis.curve import interpolate
from pagehop_lab.analysis.intervals import Interval, compared, unpaired
from pagehop_lab.analysis.points import OptionValue, Point, shown
from pagehop_lab.analysis.records import last_disk
from pagehop_lab.analysis.settings import SAME, Setting, indexes_of, is_least, settings_of
from pagehop_lab.analysis.turns import Run, joined


@dataclass(frozen=True)
class Figure:
    """What an aim is about."""

    unit: str
    more_is_better: bool
    of_point: Callable[[Point], float | None] | None = None
    """None for a figure of a build."""
    is_counted: bool = False
    """Whether the figure is a count without a clock, which is the same in every repeat."""
    counted_in: tuple[str, ...] = ()
    """The tests in which it is such a count, if not in all."""

    def counted(self, case: str) -> bool:
        """Whether it is such a count in a test of servers."""
        return self.is_counted and (not self.counted_in or case in self.counted_in)


def _work(name: str) -> Callable[[Point], float | None]:
    return lambda point: (point.raw.get("work") or {}).get(name)


def _fio_share(point: Point) -> float | None:
    """The disk's requests a second during the queries, over those of fio just after them."""
    disk, ceiling = last_disk(point.raw.get("phases")), point.raw.get("disk_ceiling")
    if ceiling is None or disk is None:
        return None
    return float(disk["reads"] / point.raw["elapsed_s"] / ceiling["reads_per_s"])


FIGURES: Mapping[str, Figure] = {
    "qps": Figure("QPS", True, lambda point: point.qps),
    "cpu_us": Figure("CPU us", False, lambda point: point.raw.get("engine_cpu_us_per_query")),
    "client_us": Figure("client CPU us", False, lambda point: point.raw.get("client_cpu_us_per_query")),
    "pages": Figure("pages", False, _work("pages_missed"), is_counted=True),
    "hops": Figure("hops", False, _work("hops"), is_counted=True),
    "first_ms": Figure("ms", False, lambda point: point.raw.get("first_ms")),
    "mean_us": Figure("us", False, lambda point: (point.raw.get("latency_us") or {}).get("mean")),
    "blocks": Figure("blocks", False, lambda point: point.raw.get("blocks_read_per_query")),
    "reads": Figure("reads of 4 KiB", False, lambda point: point.raw.get("storage_reads_per_query")),
    "fio_share": Figure("of fio's reads a second", True, _fio_share),
    "build_cpu_s": Figure("CPU s", False),
    "build_cpu_us": Figure("CPU us a row", False),
    "build_s": Figure("s", False),
    "bytes_per_row": Figure("bytes", False, is_counted=True),
}


@dataclass(frozen=True)
class Aim:
    """An aim: a limit for one figure at one recall, on each of some sets."""

    what: str
    figure: str
    """A name in FIGURES."""
    engine: str
    over: tuple[str, ...] = ()
    """The engine of the divisor; of several the first that has the figure.

    Empty for a plain figure, unless `over_dataset` is set.
    """
    datasets: tuple[str, ...] = ()
    """Names of sets; all sets of the plan if empty."""
    but: tuple[str, ...] = ()
    over_dataset: str | None = None
    """The set of the divisor, if it is another set."""
    recall: float | None = None
    """None for a figure of a build."""
    floor: float | None = None
    aim: float | None = None
    load: tuple[tuple[str, OptionValue], ...] = ()
    """Options of a load that an aim can name.

    They are `k`, `threads`, `cache`, `batch`, `sessions`, `matching` and `insert_rate`.
    """

    def is_of(self, dataset: str) -> bool:
        """Whether it is about a set."""
        return dataset not in self.but and (not self.datasets or dataset in self.datasets)


@dataclass(frozen=True)
class Series:
    """One figure in each repeat, with its source."""

    figures: Mapping[Run, float]
    told: str
    file: str = ""
    is_least: bool = False
    """Whether the recall is below the recall of the plan's least effort. The figure is then that of
    the least effort.
    """

    @property
    def middle(self) -> float:
        return statistics.median(self.figures.values())


def verdict(found: Interval, aim: Aim) -> str:
    """The verdict on a figure, by its interval and the limits of an aim."""
    return verdict_on(found, aim.floor, aim.aim, FIGURES[aim.figure].more_is_better)


def verdict_on(found: Interval, least: float | None, wanted: float | None, more: bool) -> str:
    """The same for a floor and an aim; `more` says whether more is better."""
    floor, goal = _side(found, least, more), _side(found, wanted, more)
    if goal == "reached":
        return "aim reached"
    if floor == "missed":
        return "MISSED"
    if floor == "reached":
        return "floor reached" + ("" if goal != "inconclusive" else ", aim inconclusive")
    return {"inconclusive": "floor inconclusive", "none": "no limit" if goal == "none" else f"aim {goal}"}[floor]


def _side(found: Interval, limit: float | None, more: bool) -> str:
    if limit is None:
        return "none"
    low, high = (found.low, found.high) if more else (-found.high, -found.low)
    limit = limit if more else -limit
    # A figure that equals the limit reaches it, up to floating point.
    edge = abs(limit) * SAME
    if low >= limit - edge:
        return "reached"
    return "missed" if high < limit - edge else "inconclusive"


def ratio(one: Series, other: Series, *, is_counted: bool, is_of_one_set: bool = True) -> Interval:
    """One series over another. Counts of different runs are compared by their medians."""
    if not is_counted and is_of_one_set:
        return compared(one.figures, other.figures)
    if not is_counted:
        return unpaired([*one.figures.values()], [*other.figures.values()])
    shared = [run for run in one.figures if run in other.figures and is_of_one_set]
    figures = [one.figures[run] / other.figures[run] for run in shared] or [one.middle / other.middle]
    return Interval.of(figures, is_counted=True)


def at_recall(points: Iterable[Point], recall: float, figure: Figure) -> Series | None:
    """The best figure of these points' indexes at a recall, in each repeat.

    None if none reaches it.
    """
    of_point = figure.of_point
    assert of_point is not None
    known = [point for point in points if point.valid and of_point(point) is not None]
    indexes = indexes_of(settings_of(known))
    found = [
        _on_index(index, recall, figure, f"{build} " if build and len(indexes) > 1 else "")
        for (_, build), index in indexes.items()
    ]
    reaching = [series for series in found if series is not None]
    best = max if figure.more_is_better else min
    return best(reaching, key=lambda series: series.middle, default=None)


def _on_index(settings: Sequence[Setting], recall: float, figure: Figure, build: str) -> Series | None:
    """The same for one index, which `build` names if there are several."""
    of_point = figure.of_point
    assert of_point is not None
    sign = 1.0 if figure.more_is_better else -1.0
    best: list[tuple[float, Setting]] = []
    for setting in sorted(settings, key=lambda one: (-one.recall.median, -sign * _middle(one, of_point))):
        worth = sign * _middle(setting, of_point)
        if not best or worth > best[-1][0]:
            best.append((worth, setting))
    above = [setting for _, setting in best if setting.recall.median >= recall - SAME]
    below = [setting for _, setting in best if setting.recall.median < recall - SAME]
    if not above:
        return None
    high, low = above[-1], below[0] if below else above[-1]
    figures = {
        joined(one.run, other.run): _between(recall, (low, one), (high, other), of_point)
        for repeat, one in low.by_repeat.items()
        if (other := high.by_repeat.get(repeat)) is not None
    }
    if not figures:
        return None
    told = build + " to ".join(shown(one.search) for one in ([high] if low is high else [low, high]))
    beyond = is_least(settings, recall)
    if beyond:
        told += f", the plan's least effort, finds {high.recall.median:.4f}"
    return Series(figures, told, high.middle.file, beyond)


def _between(
    recall: float, low: tuple[Setting, Point], high: tuple[Setting, Point], of: Callable[[Point], float | None]
) -> float:
    one, other = ((max(setting.recall.median, 0.0), max(of(point) or 0.0, 1e-12)) for setting, point in (low, high))
    return other[1] if low[0] is high[0] or other[0] <= recall + SAME else interpolate(recall, one, other)


def _middle(setting: Setting, of: Callable[[Point], float | None]) -> float:
    return statistics.median(of(point) or 0.0 for point in setting.points)
