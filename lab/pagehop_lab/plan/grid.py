"""Everything that a plan measures, one by one, in the order of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from pagehop_lab.plan.model import DatasetSpec, EngineSpec, Load, Options, Plan

# Fields of a load that the identity of a search has only where they are not the default, so that
# raw files from before keep theirs.
_LATER = ("warmup_s", "in_turns", "seconds_max", "undisturbed", "fio_s")


def words(options: Options) -> str:
    """Options as part of a name; -1 and empty values mean the engine's default."""
    return "-".join(f"{name}={value}" for name, value in options.items() if value not in (-1, ""))


@dataclass(frozen=True)
class IndexSpec:
    """An index to build."""

    dataset: DatasetSpec
    engine: EngineSpec
    build: Options
    rebuild: int

    def identity(self, plan: Plan, dataset: Mapping[str, Any], machine: str, version: str | None) -> dict[str, Any]:
        """Everything that decides the cost of a build; `dataset` is the description of the set."""
        return {
            "engine": self.engine.name,
            "version": version,
            "server": self.engine.server,
            **({"commit": self.engine.commit} if self.engine.commit else {}),
            **({"memory_mib": plan.load.build_memory_mib} if plan.load.build_memory_mib else {}),
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

    def looked_at(self, plan: Plan, dataset: Mapping[str, Any], machine: str, version: str | None) -> dict[str, Any]:
        """Everything that decides which settings are picked."""
        identity = self.identity(plan, dataset, machine, version)
        ladders = [list(ladder) for ladder in self.engine.ladders]
        return identity | {"k": plan.load.ks, "targets": plan.targets, "recall": plan.recall, "ladders": ladders}

    def unpicked(self, load: Load) -> Picked:
        """Settings for an index whose recalls were never measured: the first of each ladder."""
        return {k: [ladder[0] for ladder in self.engine.ladders] for k in load.ks}


@dataclass(frozen=True)
class PointSpec:
    """A measurement to make."""

    index: IndexSpec
    search: Options
    sessions: int
    repeat: int
    asked: Options = field(default_factory=dict)
    """The options of the load that are not the default: see `asked`."""

    def identity(
        self, plan: Plan, dataset: Mapping[str, Any], machine: str, version: str | None, *, as_before: bool = False
    ) -> dict[str, Any]:
        """Everything that decides the cost of a search; `dataset` is the description of the set.

        `as_before` leaves out the fields that raw files of older labs do not have.
        """
        load, usual = plan.load, Load()
        later = {name: getattr(load, name) for name in _LATER if getattr(load, name) != getattr(usual, name)}
        return self.index.identity(plan, dataset, machine, version) | {
            "search": self.search,
            "load": {
                "k": load.k,
                "sessions": self.sessions,
                "rate": load.rate,
                "cold_queries": plan.cold_queries,
                "seconds": load.seconds,
                "one_core": load.one_core,
                **({} if as_before else later),
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
    """The indexes over a set: the first of each engine, then the second of each.

    So indexes that are compared are built close in time. Every other rebuild goes in reverse order.
    """
    each = [[IndexSpec(dataset, engine, build, rebuild) for build in engine.build] for engine in plan.engines]
    longest = max(map(len, each), default=0)
    ordered = [specs[at] for at in range(longest) for specs in each if at < len(specs)]
    return ordered[::-1] if rebuild % 2 else ordered


def groups(found: Sequence[IndexSpec], load: Load) -> list[Sequence[IndexSpec]]:
    """Indexes in the groups that are open at once, and measured in turns."""
    return [found[start : start + load.in_turns] for start in range(0, len(found), load.in_turns)]


def asked(engine: EngineSpec, load: Load) -> list[Options]:
    """All loads of an engine, except the number of sessions. Default values are left out."""
    batches = [1] if engine.served else load.batch
    plain: Options = {
        "k": load.k, "batch": 1, "threads": 1, "cache": "cold", "memory_mib": 0, "matching": 1.0, "insert_rate": 0.0,
    }  # fmt: skip
    found = []
    each = product(load.ks, batches, load.call_threads, load.caches, load.matching, load.insert_rate)
    for k, batch, threads, cache, matching, rate in each:
        if cache == "fresh" and (batch, threads) != (batches[0], load.call_threads[0]):
            # Queries that each begin with empty caches are sent one by one.
            continue
        limit = load.memory_mib if cache == "limited" else 0
        values: Options = dict(zip(plain, (k, batch, threads, cache, limit, matching, rate), strict=True))
        if cache == "fresh":
            values |= {"batch": 1, "threads": 1}
        found.append({name: value for name, value in values.items() if value != plain[name]})
    return found


Picked = Mapping[int, Sequence[Options]]
"""For each k the settings that are measured."""


def points(index: IndexSpec, load: Load, repeat: int, picked: Picked | None = None) -> list[PointSpec]:
    """The points of an index in one repeat: all of them, or those that were picked."""
    return [
        PointSpec(index, search, count, repeat, more)
        for more in asked(index.engine, load)
        for count in load.sessions
        if _is_asked(load, count, more)
        for search in (index.engine.search if picked is None else picked[int(more.get("k", load.k))])
    ]


def _is_asked(load: Load, sessions: int, more: Options) -> bool:
    """Whether a load is measured with this number of sessions."""
    if more.get("cache") == "fresh":
        # Queries that each begin with empty caches are sent one by one.
        return sessions == load.sessions[0]
    if len(load.sessions) == 1 or len(load.call_threads) == 1:
        return True
    # Threads of a call of many queries, and sessions with one query each, are two ways of having
    # several threads: they are not multiplied.
    is_many = int(more.get("batch", 1)) > 1
    return sessions == load.sessions[0] if is_many else more.get("threads", 1) == load.call_threads[0]


def most_picked(plan: Plan, index: IndexSpec) -> Picked | None:
    """The largest number of settings that may be picked on an index; None if all are measured."""
    if not plan.load.around_targets or index.engine.served:
        return None
    return {
        k: [one for ladder in index.engine.ladders for one in ladder[: 2 * len(plan.targets)]] for k in plan.load.ks
    }


def everything(plan: Plan, picked: Callable[[IndexSpec], Picked | None] | None = None) -> Iterator[PointSpec]:
    """Every point of a plan. `picked` gives the settings of an index to measure, if not all."""
    for dataset in plan.datasets:
        for rebuild in range(plan.load.rebuilds):
            for index in indexes(plan, dataset, rebuild):
                chosen = picked(index) if picked is not None else None
                for repeat in range(plan.load.repeats):
                    yield from points(index, plan.load, repeat, chosen)
