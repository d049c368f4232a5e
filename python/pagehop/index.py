"""Build an index, open it, search it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pagehop import _pagehop
from pagehop.arrays import Float32, Int64, UInt64, as_array, as_bytes, as_count, as_float32, as_number
from pagehop.errors import ArgumentError, DimensionError
from pagehop.sources import PathLike, as_source

Progress: TypeAlias = Callable[[str, int, int], object]

_THREADS_MAX = 4096
_CACHE = "256MiB"


class Counters(NamedTuple):
    """What each query of a search cost, in the order of the queries."""

    hops: UInt64
    pages_read: UInt64
    pages_missed: UInt64
    estimates: UInt64
    distances: UInt64


class Stats:
    """What a search cost, summed over its queries; `per_query` has each."""

    __slots__ = ("_counters",)

    def __init__(self, counters: UInt64) -> None:
        self._counters = counters

    @property
    def per_query(self) -> Counters:
        """One array per counter, one element per query."""
        return Counters(*self._counters.T)

    @property
    def hops(self) -> int:
        """Nodes expanded."""
        return int(self._counters[:, 0].sum())

    @property
    def pages_read(self) -> int:
        """Distinct pages each query read, from memory or storage."""
        return int(self._counters[:, 1].sum())

    @property
    def pages_missed(self) -> int:
        """Pages that had to come from storage."""
        return int(self._counters[:, 2].sum())

    @property
    def estimates(self) -> int:
        """Distances estimated from edge codes."""
        return int(self._counters[:, 3].sum())

    @property
    def distances(self) -> int:
        """Distances computed from nodes' own codes."""
        return int(self._counters[:, 4].sum())

    def __repr__(self) -> str:
        words = (f"{name}={getattr(self, name)}" for name in Counters._fields)
        return f"Stats({', '.join(words)})"


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Rows found, nearest first, equal distances in order of id.

    For one query `ids` and `distances` are one-dimensional and end with the last row found. For a
    matrix of queries they are two-dimensional, `k` wide; where an index has fewer than `k` rows, the
    rest is id -1 and distance infinity.
    """

    ids: Int64
    """Row ids."""
    distances: Float32
    """Squared distance for `l2`, negative inner product for `ip`, 1 - cosine for `cosine`."""
    stats: Stats
    """What the search cost."""


class Info(NamedTuple):
    """What an index says of itself."""

    format_version: int
    metric: str
    dim: int
    rows: int
    pages: int
    max_degree: int
    nodes_per_page: int
    edge_bits: int
    edge_dims: int
    own_bits: int
    seed: int


class CheckReport(NamedTuple):
    """What `check` found in an index without contradictions."""

    pages: int
    nodes: int
    edges: int
    reachable: int


class Index:
    """An open index, from `build` or `open`. Every method may be called from any thread."""

    __slots__ = ("_dim", "_index", "_path", "_rows")

    def __init__(self, index: _pagehop.Index, path: str) -> None:
        info = index.info()
        self._index = index
        self._path = path
        self._dim: int = info["dim"]
        self._rows: int = info["rows"]

    def search(
        self,
        query: Any,
        k: int = 10,
        search_list: int | None = None,
        slack: float | None = None,
        beam_width: int | None = None,
        threads: int = 0,
    ) -> Hits:
        """Find the `k` rows nearest to one vector, or to each row of a matrix.

        search_list: candidates kept while searching; raise it for recall, lower it for speed. Without
            slack, all of them are expanded. With neither, 100 and a slack of 0.2.
        slack: stop once the best estimate left is beyond 1 + slack times the k-th distance found.
        beam_width: most pages asked for at once.
        threads: for a matrix; 0 means one per core.
        """
        array = as_array("query", query)
        one = array.ndim == 1
        if array.ndim not in (1, 2):
            raise ArgumentError(f"query has {array.ndim} dimensions, it must have one or two")
        if array.shape[-1] != self._dim:
            what = f"the index has {self._dim} dimensions, the query has {array.shape[-1]}"
            raise DimensionError(what, self._dim, array.shape[-1])
        k = as_count("k", k, 1, _pagehop.SEARCH_LIST_MAX)
        if search_list is not None:
            search_list = as_count("search_list", search_list, 1, _pagehop.SEARCH_LIST_MAX)
        if beam_width is not None:
            beam_width = as_count("beam_width", beam_width, 1, _pagehop.BEAM_WIDTH_MAX)
        if slack is not None:
            slack = as_number("slack", slack)
        threads = as_count("threads", threads, 0, _THREADS_MAX)
        queries = as_float32("query", array)
        if one:
            queries = queries.reshape(1, -1)

        ids = np.empty((len(queries), k), dtype=np.int64)
        distances = np.empty((len(queries), k), dtype=np.float32)
        counters = np.empty((len(queries), len(Counters._fields)), dtype=np.uint64)
        self._index.search(queries, ids, distances, counters, search_list, slack, beam_width, threads)
        if one:
            found = min(k, self._rows)
            return Hits(ids[0, :found], distances[0, :found], Stats(counters))
        return Hits(ids, distances, Stats(counters))

    def check(self) -> CheckReport:
        """Read every page and prove the structure; `CorruptIndexError` says where it is broken."""
        return CheckReport(**self._index.check())

    def info(self) -> Info:
        """What the index says of itself."""
        return Info(**self._index.info())

    def close(self) -> None:
        """Close the file once the searches under way are done; closing twice does nothing."""
        self._index.close()

    @property
    def dim(self) -> int:
        """Components of each vector."""
        return self._dim

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    def __len__(self) -> int:
        return self._rows

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self._index.closed else ""
        return f"<pagehop.Index {self._path!r}: {self._rows} rows of {self._dim} dimensions{state}>"


def build(
    path: PathLike,
    vectors: Any,
    ids: Any = None,
    metric: str = "l2",
    memory: int | str = "2GiB",
    threads: int = 0,
    seed: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Index:
    """Build an index over all vectors at `path`, and open it.

    A build that fails or is stopped leaves what was at `path` before, or nothing.

    vectors: a 2-d array, memory-mapped or not, or a source such as `from_hdf5` gives. Values must be
        float32 values whatever their type: float16, uint8 and small integers are, most float64 are not.
    ids: one whole number per row, each below 2**63; None numbers the rows from 0.
    metric: "l2", "ip" (inner product) or "cosine".
    memory: bytes the build may hold at once.
    threads: 0 means one per core. The index does not depend on it.
    seed: same vectors, options and seed give the same file.
    progress: called with phase, steps done and steps in all (0: unknown); False stops the build.
    """
    source = as_source(vectors, ids)
    if not isinstance(metric, str):
        raise ArgumentError(f"metric is {metric!r}, it must be one of 'l2', 'ip', 'cosine'")
    if progress is not None and not callable(progress):
        raise ArgumentError(f"progress is {progress!r}, it must be callable")
    _pagehop.build(
        _text(path),
        source,
        source.dim,
        metric=metric,
        memory_bytes=as_bytes("memory", memory),
        threads=as_count("threads", threads, 0, _THREADS_MAX),
        seed=as_count("seed", seed, 0, (1 << 64) - 1),
        overwrite=bool(overwrite),
        progress=progress,
    )
    return open(path)


def open(path: PathLike, cache: int | str = _CACHE) -> Index:
    """Open the index at `path`, keeping at most `cache` bytes of its pages in memory."""
    text = _text(path)
    return Index(_pagehop.open(text, as_bytes("cache", cache)), text)


def _text(path: PathLike) -> str:
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise ArgumentError(f"path is {path!r}, it must be a path") from None
    if "\0" in text:
        raise ArgumentError(f"path {text!r} has a null character")
    return text
