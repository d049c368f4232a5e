"""What the lab needs from an engine.

A library answers in its own process; the load generator queries a server. Both build an index over
the rows of a set and search it with the options of a plan. An engine has a process to itself, and
may crash it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

OptionValue = str | int | float | bool
Options = Mapping[str, Any]
Float32 = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
Kept = npt.NDArray[np.bool_]
"""For each row, whether it passes a filter."""

Work = Mapping[str, float]
"""Figures by name."""

Search = Callable[[Float32], Ids]
"""Answers queries of shape [n, dim] with ids of shape [n, k], nearest first, then -1."""

LADDER = (10, 16, 24, 36, 56, 80, 120, 200, 400)
"""Lengths of the candidate list, if a plan has none; no engine takes less than k."""


class NotInstalled(Exception):  # noqa: N818
    """The engine is not installed; the text says what to do."""


class EngineError(Exception):
    """The engine cannot do what was requested."""


@dataclass(frozen=True)
class Description:
    """The properties of an engine that are known before it is started."""

    name: str
    """As plans call it."""
    title: str
    """As reports call it."""
    environment: str
    """Its Python environment: a name from run/environments.py, or the path of an interpreter.

    The interpreter needs NumPy.
    """
    build: Mapping[str, OptionValue]
    """Build options, with their defaults."""
    search: Mapping[str, tuple[OptionValue, ...]]
    """Search options, with the values that are swept by default."""
    source: str
    """Where the settings come from."""
    metrics: tuple[str, ...] = ("euclidean", "angular")
    exact: bool = False
    """Whether it compares every row by design."""
    reads_storage: bool = False
    """Whether it reads storage by design, so that no cache of it is ever hot."""
    takes_url: bool = False
    """Whether a plan may name a running server."""
    takes_commit: bool = False
    """Whether it is compiled from this repository, so that a plan may name a commit."""
    more_build: Mapping[str, OptionValue] = field(default_factory=dict)
    """Build options that exist only if a plan names them, each with a possible value."""
    more_search: Mapping[str, OptionValue] = field(default_factory=dict)
    """The same of a search."""
    halves: bool = False
    """Whether it builds from rows of float16, too; others get such rows as float32, in memory."""
    call_threads: bool = False
    """Whether one call may be answered by several threads of the library."""


def _nothing(_: str) -> None:
    """Drops the message."""


class Library(ABC):
    """An engine that answers in this process."""

    description: ClassVar[Description]

    def __init__(self, folder: Path) -> None:
        """An engine without an index; `folder` is empty and its own."""
        self.folder = folder
        self.on_phase: Callable[[str], None] = _nothing
        """Called at the start of each phase of a build: `load`, `index`."""
        self.memory_mib = 0
        """Limit of memory after it is next made cold, in MiB; 0 is none.

        Its caches must leave room for the rest.
        """
        self.build_memory_mib = 0
        """Limit of memory of the process while it builds and afterwards, in MiB; 0 is none.

        The kernel's cache of its files counts.
        """
        self.opened_s: float | None = None
        """Seconds that opening the index took when it was last made cold. None if it is not opened
        then, or if the time is not known.
        """
        self.load_s: float | None = None
        """Seconds of the build before the index. None if rows and index are one."""
        self.threads = 1
        """Threads that answer one call of a searcher that is made afterwards."""
        self.samples: Float32 | None = None
        """Queries like those of the set, none of which is measured.

        An engine may calibrate with them.
        """

    @classmethod
    @abstractmethod
    def version(cls) -> str:
        """The library's version; NotInstalled or ImportError if it is not here."""

    @abstractmethod
    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> None:
        """Builds an index over `base`, a map of a file of shape [rows, dim], and makes it ready."""

    @abstractmethod
    def searcher(self, options: Options, k: int) -> Search:
        """A search with these options by one thread.

        Several searchers may run at once, with equal options.
        """

    def filtered(self, options: Options, k: int, kept: Kept) -> Search:
        """The same search, over the rows that pass a filter. EngineError if the engine has no
        filters.
        """
        raise EngineError("the lab knows no filter of it")

    def counted(self, queries: Float32, options: Options, k: int) -> tuple[Ids, Work] | None:
        """Answers, and the sums of the index's own counters for them; None if it has no counters.

        Names are `hops`, `pages` (used) and `pages_missed` (read from storage).
        """
        return None

    def cool(self) -> None:
        """Empties every cache.

        Earlier searchers are not valid afterwards. EngineError if it is impossible.
        """
        raise EngineError("it holds everything in memory: it is never cold")

    def index_bytes(self) -> int | None:
        """Bytes of the index, rows included if it has them; None if it does not report them."""
        return None

    def cache_bytes(self) -> int | None:
        """Most bytes of its data that it holds in memory; None if there is no limit."""
        return None

    def processes(self) -> list[int]:
        """Own processes of the engine that answer searches; their CPU and memory count, too."""
        return []

    def has_died(self) -> bool:
        """Whether own processes of the engine that answer searches have ended."""
        return False

    def index_used(self) -> bool | None:
        """Whether the searches so far used the index; None if the engine does not report it."""
        return None

    def close(self) -> None:  # noqa: B027 - most have nothing to let go
        """Lets everything go."""


@dataclass(frozen=True)
class Built:
    """The cost and the result of a server's build."""

    load_s: float
    build_s: float
    index_bytes: int
    table_bytes: int
    about: Mapping[str, str] = field(default_factory=dict)
    """Settings that matter, as the server reports them."""


@dataclass(frozen=True)
class Question:
    """The statement for the load generator."""

    protocol: Literal["postgres", "mysql"]
    url: str
    statement: str
    base_statement: str
    """A statement that returns the same number of rows without a search: the ceiling."""
    settings: Mapping[str, str]
    index: str
    """The index that the plan must use."""
    param_type: str | None = None
    local: bool = True
    """Whether the server runs on this machine, so that its CPU can be read."""


FILTER_PARTS = 1000
"""A filter leaves the rows whose id modulo this is below some number.

So the filter is unrelated to the positions of the rows.
"""

FILTERED = f"id % {FILTER_PARTS}"
"""The expression that filters compare, in SQL."""


def condition(matching: float) -> str:
    """The condition that this share of the rows meets."""
    return f"{FILTERED} < {round(FILTER_PARTS * matching)}"


def left_by(matching: float, rows: int) -> Kept:
    """Whether each of `rows` rows, with ids from 0, meets `condition`."""
    return np.asarray(np.arange(rows) % FILTER_PARTS < round(FILTER_PARTS * matching))


class Inserter(ABC):
    """A connection that inserts rows into a table that is searched."""

    @abstractmethod
    def insert(self, first: int, rows: Float32) -> None:
        """Rows with ids from `first`, in one transaction."""

    @abstractmethod
    def close(self, first: int) -> None:
        """Removes the rows with ids from `first`, from table and index, and ends the connection."""


class Served(ABC):
    """An engine in a server."""

    description: ClassVar[Description]

    def __init__(self, folder: Path, url: str | None = None) -> None:
        """An engine without a server, or at `url`; `folder` is empty and its own."""
        self.folder = folder
        self.url = url
        self.on_phase: Callable[[str], None] = _nothing
        """Called at the start of each phase of a build: `load`, `index`."""
        self.memory_mib = 0
        """Limit of memory after it is next made cold, in MiB; 0 is none.

        Its caches must leave room for the rest.
        """

    @classmethod
    @abstractmethod
    def version(cls, url: str | None = None) -> str:
        """The version that counts: of the extension and of the server.

        NotInstalled if it is missing.
        """

    @abstractmethod
    def build(self, base: Float32, metric: str, options: Options, threads: int, seed: int) -> Built:
        """Starts the server, loads a table, ids from 0, and indexes it."""

    @abstractmethod
    def question(self, options: Options, k: int, matching: float = 1.0) -> Question:
        """The statement of one search, over the rows that meet `condition(matching)`."""

    def inserter(self) -> Inserter:
        """A function that inserts rows during searches.

        EngineError if the lab has none for this engine.
        """
        raise EngineError("the lab cannot insert rows into this engine during searches")

    def cool(self) -> None:
        """Empties every cache, the kernel's included. EngineError if that is impossible."""
        raise EngineError("its caches cannot be emptied")

    def pid(self) -> int | None:
        """The server's first process, if the lab started it."""
        return None

    def has_died(self) -> bool:
        """Whether the server has ended, if the lab started it."""
        return False

    def close(self) -> None:  # noqa: B027 - a server may not be ours
        """Ends the server, if the lab started it, and removes its data."""


Engine = Library | Served
