"""A run in the form for suites: points by set, builds, failures and missing measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pagehop_lab.analysis.aims import Aim
from pagehop_lab.analysis.coverage import Coverage
from pagehop_lab.analysis.points import Options, Point
from pagehop_lab.analysis.records import BuildRecord, CeilingRecord
from pagehop_lab.analysis.turns import Run, run_of
from pagehop_lab.measure.limit import TOO_LITTLE


@dataclass(frozen=True)
class Build:
    """An index that was built."""

    dataset: str
    engine: str
    options: Options
    rebuild: int
    file: str
    raw: BuildRecord
    group: int = 0
    """Number of the indexes that were open at once; see `Point`."""

    @property
    def run(self) -> Run:
        """What it was built with; builds of one run make pairs."""
        return run_of(self.raw, self.group, self.rebuild)

    @property
    def cpu_s(self) -> float | None:
        """CPU seconds of the index: those of a library's process, or of a server's processes."""
        if (cpu_s := self.raw.get("build_cpu_s")) is not None:
            return float(cpu_s)
        phases = [phase for phase in self.raw.get("phases") or [] if phase["phase"] == "index"]
        # A server that the lab did not start has phases without processes.
        return sum(phase["cpu_s"] for phase in phases) or None


@dataclass(frozen=True)
class Unbuilt:
    """An index that could not be built."""

    dataset: str
    engine: str
    options: Options
    reason: str
    file: str


@dataclass(frozen=True)
class EngineFacts:
    """The facts about an engine in this run."""

    name: str
    title: str
    version: str | None
    source: str
    failed: str | None
    """Why it does not run here."""


@dataclass(frozen=True)
class Results:
    """Everything that a run measured."""

    name: str
    suite: str
    k: int
    seed: int
    recall_by: str
    targets: tuple[float, ...]
    base: str
    """The engine that others are compared with."""
    machine: Mapping[str, Any]
    load: Mapping[str, Any]
    datasets: Mapping[str, Mapping[str, Any]]
    """Facts of each set."""
    missing_datasets: Mapping[str, str]
    """Sets that were not available, and why."""
    engines: Sequence[EngineFacts]
    points: Sequence[Point]
    foreign: Sequence[Point]
    """Points of other benchmarks that were measured elsewhere; they are not compared."""
    builds: Sequence[Build]
    ceilings: Sequence[CeilingRecord]
    coverage: Coverage
    aims: Sequence[Aim]
    """What was to be reached."""
    damaged: Sequence[str]
    """Files that cannot be read."""
    made_by: str
    """The commits of the lab that measured the run, if they are known."""
    again: int
    """Measurements that were made more than once; the last one with a figure counts."""
    unbuilt: Sequence[Unbuilt] = ()

    @property
    def sound(self) -> bool:
        """Whether everything was measured and all of it is valid."""
        whole = self.coverage.complete and not self.coverage.failed and not self.missing_datasets
        return whole and not self.damaged and all(point.valid for point in self.points)

    @property
    def is_whole(self) -> bool:
        """Whether nothing that can be measured here failed or is missing, and some is valid.

        An engine that the base is compared with may need more memory than its limit.
        """
        too_large = {
            f"no index: {one.reason}" for one in self.unbuilt if TOO_LITTLE in one.reason and one.engine != self.base
        }
        absent = all(
            reason.startswith("not installed") or reason in too_large for reason in self.coverage.failed.values()
        )
        whole = self.coverage.complete and absent and not self.missing_datasets and not self.damaged
        return whole and any(point.valid for point in self.points)

    @property
    def sound_where_installed(self) -> bool:
        """Whether all is valid as well."""
        return self.is_whole and all(point.valid for point in self.points)

    @property
    def about(self) -> dict[str, object]:
        """What the run is about."""
        names = ("name", "suite", "machine", "load", "seed", "recall_by", "datasets")
        return {name: getattr(self, name) for name in names}

    def title(self, engine: str) -> str:
        """The name of an engine in reports."""
        return next((facts.title for facts in self.engines if facts.name == engine), engine)

    def cpu_us_a_row(self, build: Build) -> float | None:
        """CPU microseconds of a build for each of its rows."""
        return None if build.cpu_s is None else build.cpu_s * 1e6 / self.datasets[build.dataset]["rows"]

    def of(self, dataset: str) -> list[Point]:
        """The points of a set."""
        return [point for point in self.points if point.dataset == dataset]

    def by_load(self, dataset: str) -> dict[tuple[int, Options], list[Point]]:
        """The points of a set by sessions and by the other options of the load. Never empty."""
        grouped: dict[tuple[int, Options], list[Point]] = {}
        for point in self.of(dataset):
            grouped.setdefault((point.sessions, point.asked), []).append(point)
        return dict(sorted(grouped.items())) or {(1, ()): []}

    def build_of(self, point: Point) -> Build | None:
        """The index on which a point was measured."""
        for build in self.builds:
            if (build.dataset, build.engine, build.options, build.rebuild) == (
                point.dataset, point.engine, point.build, point.rebuild,
            ):  # fmt: skip
                return build
        return None
