"""The figures of a run that may be compared, in one run or between two, for any suite."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pagehop_lab.analysis.aims import FIGURES, at_recall
from pagehop_lab.analysis.points import engines_of, told
from pagehop_lab.engines.catalog import CATALOG
from pagehop_lab.engines.engine import Served
from pagehop_lab.suites import compared
from pagehop_lab.suites.catalog import OF_SERVERS
from pagehop_lab.suites.results import Build, Results
from pagehop_lab.suites.server_results import AnyServers, ServerResults
from pagehop_lab.suites.suite import AnyResults

OURS = "pagehop"
"""Prefix of the names of Pagehop's engines and servers."""


@dataclass(frozen=True)
class Figure:
    """One figure of one engine or server, once in each repeat."""

    group: str
    """The key of comparable figures: the set, the load and the recall, or the test."""
    name: str
    """Of the engine or the server."""
    title: str
    kind: str
    """`library` or `server`: only figures of one kind are compared."""
    unit: str
    repeats: Mapping[Hashable, float]
    file: str
    """The raw file of the figure, relative to the run's folder."""
    more_is_better: bool = True
    is_counted: bool = False
    """Whether it is a count, which is the same in every repeat, and not a time."""
    is_least: bool = False
    """Whether the least effort of the plan already finds more than the recall of the group."""

    @property
    def middle(self) -> float:
        """The median of the repeats."""
        return statistics.median(self.repeats.values())

    @property
    def is_ours(self) -> bool:
        """Whether it is a figure of Pagehop."""
        return self.name.startswith(OURS)


def figures_of(results: AnyResults) -> list[Figure]:
    """Every figure of a run that is valid, in the order of its reports."""
    if isinstance(results, ServerResults):
        return list(_of_servers(results))
    # Settings of a calibration are compared by hops, with themselves.
    return [] if results.suite == "calibration" else list(_of_engines(results))


def _of_engines(results: Results) -> Iterator[Figure]:
    kinds = {facts.name: _kind(facts.name) for facts in results.engines}
    for dataset in results.datasets:
        for (sessions, asked), points in results.by_load(dataset).items():
            load = ", ".join(filter(None, [f"{sessions} sessions" if sessions > 1 else "", told(asked)]))
            for target in results.targets:
                group = ", ".join(filter(None, [dataset, load, f"recall@{results.k} = {target:g}"]))
                for engine in engines_of(points):
                    # Between the settings of the grid, or an engine with a coarser one would lose.
                    mine = [point for point in points if point.engine == engine]
                    if (found := at_recall(mine, target, FIGURES["qps"])) is None:
                        continue
                    repeats: dict[Hashable, float] = {run: qps for run, qps in found.figures.items()}  # noqa: C416
                    title, kind = results.title(engine), kinds[engine]
                    yield Figure(group, engine, title, kind, "QPS", repeats, found.file, is_least=found.is_least)
        for name, kind in kinds.items():
            builds = [build for build in results.builds if (build.dataset, build.engine) == (dataset, name)]
            yield from _of_builds(builds, name, results.title(name), kind)


def _of_builds(builds: Sequence[Build], name: str, title: str, kind: str) -> Iterator[Figure]:
    """The cheapest and the smallest index of an engine."""
    for unit, words, counted in [("CPU s", "the cheapest index", False), ("MB", "the smallest index", True)]:
        by_options: dict[object, list[tuple[Build, float]]] = {}
        for build in builds:
            if (value := _cost(build, unit)) is not None:
                by_options.setdefault(build.options, []).append((build, value))
        if by_options:
            least = min(by_options.values(), key=lambda found: statistics.median(value for _, value in found))
            repeats: dict[Hashable, float] = {build.rebuild: value for build, value in least}
            first = least[0][0]
            yield Figure(f"{first.dataset}, {words}", name, title, kind, unit, repeats, first.file, False, counted)


def _cost(build: Build, unit: str) -> float | None:
    if unit == "CPU s":
        return build.cpu_s
    size = build.raw.get("index_bytes")
    return None if not size else (size + (build.raw.get("table_bytes") or 0)) / 1e6


def _kind(engine: str) -> str:
    known = CATALOG.get(engine.partition(":")[0])
    return "server" if known is not None and issubclass(known, Served) else "library"


def _of_servers(results: AnyServers) -> Iterator[Figure]:
    suite = OF_SERVERS[results.suite]
    for one in compared.figures(results, suite.compared_loads, suite.compared):
        more, counted = one.of.more_is_better, one.of.is_counted
        yield Figure(one.group, one.server, one.server, "server", one.of.unit, one.repeats, one.file, more, counted)
