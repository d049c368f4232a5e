"""Everything that a plan says to measure, one by one, in the order of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
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
    asked: Options = field(default_factory=dict)
    """What else there is to the load, where it is not the plain one: see `asked`."""

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
                **self.asked,
            },
            "repeat": self.repeat,
        }

    @property
    def name(self) -> str:
        """A few words, for people and files."""
        sessions = f"s{self.sessions}" if self.sessions > 1 else ""
        parts = [self.index.name, words(self.search), sessions, words(self.asked), f"r{self.repeat + 1}"]
        return ".".join(filter(None, parts))


def indexes(plan: Plan, dataset: DatasetSpec, rebuild: int) -> list[IndexSpec]:
    """The indexes over a set: first one of each engine, then the second of each, so that neighbors are compared."""
    each = [[IndexSpec(dataset, engine, build, rebuild) for build in engine.build] for engine in plan.engines]
    longest = max(map(len, each), default=0)
    return [specs[at] for at in range(longest) for specs in each if at < len(specs)]


def asked(engine: EngineSpec, load: Load) -> list[Options]:
    """Every load of an engine beside the number of sessions; what is plain about one is not named."""
    batches = [1] if engine.served else load.batch
    plain: Options = {"batch": 1, "cache": "cold", "memory_mib": 0, "matching": 1.0, "insert_rate": 0.0}
    found = []
    for batch, cache, matching, rate in product(batches, load.caches, load.matching, load.insert_rate):
        limit = load.memory_mib if cache == "limited" else 0
        values: Options = dict(zip(plain, (batch, cache, limit, matching, rate), strict=True))
        found.append({name: value for name, value in values.items() if value != plain[name]})
    return found


def points(index: IndexSpec, load: Load, repeat: int) -> list[PointSpec]:
    """What is measured on an index in one repeat."""
    return [
        PointSpec(index, search, count, repeat, more)
        for more in asked(index.engine, load)
        for count in load.sessions
        for search in index.engine.search
    ]


def everything(plan: Plan) -> Iterator[PointSpec]:
    """Every point of a plan."""
    for dataset in plan.datasets:
        for rebuild in range(plan.load.rebuilds):
            for index in indexes(plan, dataset, rebuild):
                for repeat in range(plan.load.repeats):
                    yield from points(index, plan.load, repeat)
