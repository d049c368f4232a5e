"""The contents of a plan. Every field has the name that it has in the file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from pagehop_lab.analysis.aims import Aim

OptionValue = str | int | float | bool
Options = dict[str, OptionValue]

RecallBy = Literal["threshold", "ties", "id"]

SUITES = ("equal-recall", "concurrency", "cold", "phases", "calibration")
CACHES = ("cold", "limited", "warm", "hot", "fresh")
"""The states of caches.

Cold: all empty. Limited: too small for the index, by a limit of the engine's memory. Warm: as large
as the index's options say, after other queries. Hot: one query, repeated. Fresh: all empty before
each query.
"""
TARGETS = (1.0, 0.99, 0.98, 0.97, 0.96, 0.95)


def without_passwords(text: str) -> str:
    """A text whose URLs name users and no passwords."""
    return re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1@", text)


@dataclass(frozen=True)
class DatasetSpec:
    """A set to measure on."""

    name: str
    """`fashion-mnist`, `generated-DIM`, or the name of a file in reports."""
    path: str | None = None
    """A file in ann-benchmarks' HDF5 layout, `.npy` or `.parquet`."""
    queries_path: str | None = None
    """The queries of a `.npy` or `.parquet`.

    Without it, its last rows are the queries, and not rows.
    """
    column: str | None = None
    """The column of a `.parquet` that has the vectors."""
    rows: int | None = None
    """Only the first rows."""
    queries: int | None = None
    """Only the first queries."""
    samples: int | None = None
    """Number of queries after those, from which engines may learn."""
    metric: Literal["euclidean", "angular", "ip"] | None = None
    """The metric; `ip` is the greatest inner product.

    None for a file, or for a real set's own metric.
    """


@dataclass(frozen=True)
class EngineSpec:
    """An engine with every index to build and every setting to search with."""

    name: str
    """The name in the catalog, or that with a plan's own name, as in `postgres:vchordrq`."""
    build: tuple[Options, ...]
    search: tuple[Options, ...]
    url: str | None = None
    """The URL of a running server."""
    commit: str | None = None
    """The commit of this repository that it is compiled from; without it, the checkout as it is."""
    served: bool = False
    """Whether it is a server, which takes one query at a time."""
    ladders: tuple[tuple[Options, ...], ...] = ()
    """The settings of `search` in ladders.

    In a ladder only one option differs, least effort first.
    """

    @property
    def kind(self) -> str:
        """The engine's name in the catalog."""
        return self.name.partition(":")[0]

    def title(self, given: str) -> str:
        """The name in reports: that of the plan, or the engine's own."""
        return self.name.partition(":")[2] or given

    @property
    def server(self) -> str | None:
        """The URL without a password, for records and reports."""
        return None if self.url is None else without_passwords(self.url)


@dataclass(frozen=True)
class Load:
    """How searches are sent, and how often."""

    ks: tuple[int, ...] = (10,)
    """Numbers of neighbors, `k` in a plan. If there are several, the first is the default."""
    sessions: tuple[int, ...] = (1,)
    """How many ask at once."""
    batch: tuple[int, ...] = (1,)
    """Queries of one call of a library. A query of a batch has no latency of its own."""
    call_threads: tuple[int, ...] = (1,)
    """Threads that answer one call of a library."""
    matching: tuple[float, ...] = (1.0,)
    """Shares of the rows that a filter leaves; 1 is without a filter."""
    insert_rate: tuple[float, ...] = (0.0,)
    """Rows a second that are inserted during the measurement."""
    rate: float | None = None
    """Requests a second of all sessions together. None is a closed loop."""
    seconds: float = 1.0
    """A measurement takes whole passes over the queries until it took this long."""
    seconds_max: float = 60.0
    """A pass that takes longer is ended."""
    warmup_s: float = 0.3
    repeats: int = 3
    """Measurements of each point."""
    rebuilds: int = 1
    """How often each index is built and measured."""
    in_turns: int = 1
    """Indexes that are open at once, and measured in turns."""
    cold_queries: int = 50
    """Queries of a measurement in the suite `cold`, each sent once.

    All caches are empty before the first.
    """
    caches: tuple[str, ...] = ("cold",)
    """States of the suite `cold`; see CACHES."""
    memory_mib: int = 256
    """Memory of the engine if caches are `limited`, in MiB."""
    fio_s: float = 0.0
    """Seconds for which fio reads the index after each measurement of the suite `cold`.

    It has as many requests of the same size in flight as the searches had. 0 is without fio.
    """
    build_threads: int = 1
    build_memory_mib: int = 0
    """Memory of a library's process from its build on, in MiB; 0 is no limit.

    The kernel's cache of its files counts.
    """
    around_targets: bool = False
    """Whether to measure only the settings on both sides of each target.

    A pass over recalls finds them.
    """
    undisturbed: bool = False
    """Whether to repeat a measurement that other work disturbed, twice at most.

    The last one counts.
    """
    profile_sessions: tuple[int, ...] = ()
    """Numbers of sessions for which perf profiles the engine. It does so during one more pass over
    the queries.
    """
    one_core: bool = True
    """Whether client and engine share one core if one session alone searches."""
    build_timeout_s: float = 7200.0
    search_timeout_s: float = 600.0

    @property
    def k(self) -> int:
        """The plain one."""
        return self.ks[0]


@dataclass(frozen=True)
class Plan:
    name: str
    suite: str
    datasets: tuple[DatasetSpec, ...]
    engines: tuple[EngineSpec, ...]
    load: Load = field(default_factory=Load)
    seed: int = 1
    recall: RecallBy = "threshold"
    """The count of recall by which engines are compared."""
    targets: tuple[float, ...] = TARGETS
    base: str | None = None
    """The engine that others are compared with; by default the first."""
    aims: tuple[Aim, ...] = ()
    """What is to be reached."""
    text: str = ""
    """The text of the file without passwords, which is kept with the results."""

    @property
    def cold_queries(self) -> int | None:
        """Queries of a measurement that begins with empty caches. None if caches must be hot."""
        return self.load.cold_queries if self.suite == "cold" else None
