"""Results of other benchmarks beside ours: hollow marks on charts, and a table with their source.

They come from another machine, another client and other rules, so no ratio of them to ours is
shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from pagehop_lab.analysis.points import Options, Point, engines_of, shown, told
from pagehop_lab.analysis.settings import settings_of
from pagehop_lab.analysis.targets import frontier
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Cell, Mark, Series, Table

MARK = "(foreign)"
USUAL_K = 10
"""Neighbors of a foreign point whose load does not say."""


def of(results: Results, dataset: str) -> list[Point]:
    """The foreign points of a set."""
    return [point for point in results.foreign if point.dataset == dataset]


def series(points: Sequence[Point], sessions: int, asked: Options, k: int) -> list[Series]:
    """Foreign points of the same load, for a chart.

    `k` is the number of neighbors if `asked` has none.
    """
    wanted = _load(asked, k)
    alike = [point for point in points if point.sessions == sessions and _load(point.asked, USUAL_K) == wanted]
    found = []
    for engine in engines_of(alike):
        mine = [point for point in alike if point.engine == engine]
        marks = [Mark(one.recall, one.qps, f"{one.label}, {one.raw['source']}", one.file, True) for one in mine]
        line = [(one.recall.median, one.qps.median) for one in frontier(settings_of(mine))]
        found.append(Series(f"{engine} {MARK}", marks, line))
    return found


def _load(asked: Options, k: int) -> dict[str, object]:
    """The options that must be equal for two loads to be comparable; different batches are."""
    return {"k": k} | {name: value != 1 if name == "batch" else value for name, value in asked}


def table(points: Sequence[Point], name: str) -> Table:
    """Every foreign point, with where it is from."""
    rows = [
        [
            Cell(f"{one.engine} {MARK}", one.engine),
            Cell(" ".join(filter(None, [shown(one.build), shown(one.search)])) or "-"),
            Cell.of(one.sessions, "d"),
            Cell(told(one.asked) or "plain", told(one.asked)),
            Cell.of(one.recall, ".4f"),
            Cell(str(one.raw["recall_of"])),
            Cell.of(one.qps, ",.0f", file=one.file),
            Cell(str(one.raw["benchmark"])),
            Cell(str(one.raw["source"])),
        ]
        for one in sorted(points, key=lambda one: (one.engine, one.sessions, one.recall))
    ]
    columns = ("engine", "setting", "clients", "load", "recall", "recall of", "QPS", "benchmark", "file")
    note = "Measured elsewhere, by other benchmarks on other machines. None of these are compared with ours."
    return Table(f"foreign-{name}", "Foreign results", columns, rows, note)
