"""Everything that a plan says to measure, one by one, in the order of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pagehop_lab.plan.model import DatasetSpec, EngineSpec, Load, Options, Plan


def words(options: Options) -> str:
    """Options as part of a name; -1 and nothing stand for what an engine has anyway."""
    return "-".join(f"{name}={value}" for name, value in options.items() if value not in (-1, ""))


@dataclass(frozen=True)
class IndexSpec:
    """An index to build."""

    dataset: DatasetSpec
    engine: EngineSpec
    build: Options
    rebuild: int

    def identity(self, plan: Plan, dataset: Mapping[str, Any], machine: str, version: str | None) -> dict[str, Any]:
        """All that decides what a build takes; `dataset` is what is known of the set."""
        return {
            "engine": self.engine.name,
            "version": version,
            "server": self.engine.server,
            "build": self.build,
            "dataset": dict(dataset),
            "machine": machine,
            "threads": plan.load.build_threads,
            "seed": plan.seed,
            "rebuild": self.rebuild,
        }

    @property
    def name(self) -> str:
        """A few words, for people and files."""
        again = f"b{self.rebuild + 1}" if self.rebuild else ""
        return ".".join(filter(None, [self.dataset.name, self.engine.name, words(self.build), again]))


@dataclass(frozen=True)
class PointSpec:
    """A measurement to make."""

    index: IndexSpec
    search: Options
    sessions: int
    repeat: int

    def identity(self, plan: Plan, dataset: Mapping[str, Any], machine: str, version: str | None) -> dict[str, Any]:
        """All that decides what a search takes; `dataset` is what is known of the set."""
        load = plan.load
        return self.index.identity(plan, dataset, machine, version) | {
            "search": self.search,
            "load": {
                "k": load.k,
                "sessions": self.sessions,
                "rate": load.rate,
                "cold_queries": plan.cold_queries,
                "seconds": load.seconds,
                "one_core": load.one_core,
            },
            "repeat": self.repeat,
        }

    @property
    def name(self) -> str:
        """A few words, for people and files."""
        sessions = f"s{self.sessions}" if self.sessions > 1 else ""
        return ".".join(filter(None, [self.index.name, words(self.search), sessions, f"r{self.repeat + 1}"]))


def indexes(plan: Plan, dataset: DatasetSpec, rebuild: int) -> list[IndexSpec]:
    """The indexes over a set: first one of each engine, then the second of each, so that neighbors are compared."""
    each = [[IndexSpec(dataset, engine, build, rebuild) for build in engine.build] for engine in plan.engines]
    longest = max(map(len, each), default=0)
    return [specs[at] for at in range(longest) for specs in each if at < len(specs)]


def points(index: IndexSpec, load: Load, repeat: int) -> list[PointSpec]:
    """What is measured on an index in one repeat."""
    return [PointSpec(index, search, count, repeat) for count in load.sessions for search in index.engine.search]


def everything(plan: Plan) -> Iterator[PointSpec]:
    """Every point of a plan."""
    for dataset in plan.datasets:
        for rebuild in range(plan.load.rebuilds):
            for index in indexes(plan, dataset, rebuild):
                for repeat in range(plan.load.repeats):
                    yield from points(index, plan.load, repeat)
