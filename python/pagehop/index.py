"""Build or create an index, open it, search it, change it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pagehop import _pagehop
from pagehop.arrays import (
    Float32,
    Int64,
    UInt64,
    as_array,
    as_bytes,
    as_count,
    as_float32,
    as_ids,
    as_number,
    as_queries,
    as_recall,
    as_rows,
)
from pagehop.errors import ArgumentError, DimensionError, RecallWarning
from pagehop.reports import (
    AddReport,
    Audit,
    Calibration,
    CheckReport,
    DeleteReport,
    Info,
    Measured,
    RecallReport,
    Setting,
    VacuumReport,
)
from pagehop.sources import PathLike, as_source

Progress: TypeAlias = Callable[[str, int, int], object]

_THREADS_MAX = 4096
_DIM_MAX = 4096
_SEED_MAX = (1 << 64) - 1
_SAMPLES_MAX = 1_000_000
_CACHE = "256MiB"
_LOG = "1GiB"


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


class Index:
    """An open index, from `build`, `create` or `open`. Every method may be called from any thread.

    One index at a time, in one process, may be open for writing a file; any number read it meanwhile, here and in
    other processes, and see each change when it is complete. `add`, `delete` and `vacuum` take place altogether or
    not at all, and what they did is safe when they return, whatever happens to the process. Until a checkpoint part
    of it is in a file beside the index, so close the index before copying or moving its file.
    """

    __slots__ = ("_dim", "_index", "_path", "_warned")

    def __init__(self, index: _pagehop.Index, path: str) -> None:
        self._dim: int = index.dim
        self._index = index
        self._path = path
        self._warned = False

    def search(
        self,
        query: Any,
        k: int = 10,
        search_list: int | None = None,
        slack: float | None = None,
        beam_width: int | None = None,
        threads: int = 0,
        *,
        recall: float | None = None,
    ) -> Hits:
        """Find the `k` rows nearest to one vector, or to each row of a matrix.

        recall: share of them to find, on average over queries like those the index was calibrated by: search_list
            and slack are then what `calibrate`, or the build, found to reach it, for `k` up to 10, 100 or
            1,000, the largest that is no more than a tenth of the rows. 1 looks at every row and finds them all:
            its time grows with the rows, whatever the data. Where nothing is given, 0.98 or the most below it that
            was measured.
        search_list: candidates kept while searching; raise it for recall, lower it for speed. Without
            slack, all of them are expanded. 100 and a slack of 0.2 if nothing is given and the index was never
            calibrated.
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
        if recall is not None:
            recall = _only_recall(recall, search_list, slack)
        threads = as_count("threads", threads, 0, _THREADS_MAX)
        queries = as_float32("query", array)
        if one:
            queries = queries.reshape(1, -1)

        ids = np.empty((len(queries), k), dtype=np.int64)
        distances = np.empty((len(queries), k), dtype=np.float32)
        counters = np.empty((len(queries), len(Counters._fields)), dtype=np.uint64)
        found, outdated = self._index.search(
            queries, ids, distances, counters, search_list, slack, beam_width, recall, threads
        )
        if outdated is not None:
            self._warn_of_changes(*outdated)
        if one:
            return Hits(ids[0, :found], distances[0, :found], Stats(counters))
        return Hits(ids, distances, Stats(counters))

    def add(self, ids: Any, vectors: Any, progress: Progress | None = None) -> AddReport:
        """Add rows, or replace those whose ids the index has; in one transaction.

        ids: one whole number per row, each below 2**63, or one number for one vector. Of rows with the same id the
            last counts.
        vectors: a matrix, or one vector. Types as for `build`.
        progress: called with phase, steps done and steps in all (0: unknown); False stops it, and nothing has
            changed then.

        A few hundred rows or more per call are fastest. The rows must fit in memory; of more, add some at a time.
        The first rows train the model of an empty index, and so do later ones each time it has grown eightfold, up to
        about 100,000 rows: such a call takes as long as a build.
        """
        self._index.may_change()
        numbers, array = as_rows(ids, vectors, self._dim)
        _check_progress(progress)
        return AddReport(*self._index.add(numbers, array, progress=progress))

    def delete(self, ids: Any) -> DeleteReport:
        """Delete rows by id, in one transaction. An id that the index does not have is reported, and no error.

        ids: whole numbers, or one; one that is there twice counts once.

        The space of deleted rows is free for others after a `vacuum`.
        """
        self._index.may_change()
        numbers = as_ids(np.atleast_1d(ids))
        first = np.unique(numbers, return_index=True)[1]
        deleted, unknown = self._index.delete(numbers[np.sort(first)])
        return DeleteReport(deleted, np.array(unknown, dtype=np.int64))

    def vacuum(self, progress: Progress | None = None) -> VacuumReport:
        """Take deleted and replaced rows out of the index, and free their space for the rows to come.

        Call it when `info().dead_rows` has come to a tenth of the rows or so. It is made of many transactions:
        searches go on meanwhile, and what was done stays done if it is stopped.

        progress: as for `add`.
        """
        self._index.may_change()
        _check_progress(progress)
        return VacuumReport(*self._index.vacuum(progress=progress))

    def calibrate(self, queries: Any = None, threads: int = 0, progress: Progress | None = None) -> Calibration | None:
        """Measure which settings reach which recall, and store it for `search(..., recall=...)`.

        queries: a matrix of queries such as the index is asked, 50 or more: the recall is then that of queries like
            them. Without any, up to 2,000 vectors of the index are queries, which stand for others that come from where
            the rows come from.
        threads: 0 means one per core.
        progress: as for `add`.

        A calibration by queries stays until the next one; one by vectors of the index is renewed where rows that
        are added train the index anew. It reads the index once or so; searches and changes go on meanwhile. None for
        an index of fewer than 1,000 rows: there is nothing to store, and searches with a recall look through all of it.
        """
        self._index.may_change()
        given = None if queries is None else as_queries("queries", queries, self._dim)
        _check_progress(progress)
        threads = as_count("threads", threads, 0, _THREADS_MAX)
        known = self._index.calibrate(given, threads, progress=progress)
        self._warned = False
        return None if known is None else _calibration(known)

    @property
    def calibration(self) -> Calibration | None:
        """What `calibrate`, or the build, found last; None if the index was never calibrated."""
        known = self._index.calibration()
        return None if known is None else _calibration(known)

    def recall(
        self,
        k: int = 10,
        samples: int = 400,
        queries: Any = None,
        recall: float | None = None,
        *,
        search_list: int | None = None,
        slack: float | None = None,
        threads: int = 0,
        progress: Progress | None = None,
    ) -> RecallReport:
        """Measure the recall of searches for `k` rows, against a look at every row.

        samples: how many vectors of the index are queries.
        queries: a matrix of queries to measure with instead.
        recall, search_list, slack: as for `search`; a recall that is missed by more than chance explains is a
            `RecallWarning`, too.
        threads: 0 means one per core.
        progress: as for `add`.

        It reads the index once or so, and keeps nobody waiting. If the index is open for writing, `info` shows what
        was found from then on.
        """
        k = as_count("k", k, 1, _pagehop.SEARCH_LIST_MAX)
        samples = as_count("samples", samples, 1, _SAMPLES_MAX)
        given = None if queries is None else as_queries("queries", queries, self._dim)
        if search_list is not None:
            search_list = as_count("search_list", search_list, 1, _pagehop.SEARCH_LIST_MAX)
        if slack is not None:
            slack = as_number("slack", slack)
        if recall is not None:
            recall = _only_recall(recall, search_list, slack)
            if recall == 1:
                raise ArgumentError("recall is 1, which is what a search is measured against; give one below 1")
        _check_progress(progress)
        found, is_missed = self._index.recall(
            k,
            samples,
            given,
            recall=recall,
            search_list=search_list,
            slack=slack,
            threads=as_count("threads", threads, 0, _THREADS_MAX),
            progress=progress,
        )
        report = RecallReport(**found)
        if is_missed:
            self._warn_of_recall(report, given is not None)
        return report

    def _warn_of_recall(self, report: RecallReport, by_queries: bool) -> None:
        advice = "calibrate() measures anew what it takes"
        if by_queries:
            advice = "calibrate(queries) measures what it takes for queries like these"
        warnings.warn(
            f"{self._path}: searches for {report.k} rows with recall={report.target:g} find {report.recall:.4f} +- "
            f"{report.interval:.4f}; {advice}",
            RecallWarning,
            stacklevel=3,
        )

    def _warn_of_changes(self, changes: int, rows: int) -> None:
        """Once for each calibration: there may be millions of searches."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{self._path}: {changes} rows were added or deleted since the index was calibrated at {rows} rows, so "
                "searches may find less than their recall; calibrate() measures anew what it takes",
                RecallWarning,
                stacklevel=3,
            )

    def checkpoint(self) -> None:
        """Bring every commit into the index file, which is then complete without the files beside it.

        It happens by itself when the log has reached its size, and when the index is closed.
        """
        self._index.checkpoint()

    def check(self) -> CheckReport:
        """Read every page and prove the structure; `CorruptIndexError` says where it is broken.

        Changes by this index wait meanwhile; if another process changed it, an `ArgumentError` may say so instead.
        """
        return CheckReport(**self._index.check())

    def info(self) -> Info:
        """What the index says of itself as of its newest commit, and what was written since it was opened."""
        words = self._index.info()
        calibration, audit = words["calibration"], words["audit"]
        words["calibration"] = None if calibration is None else Measured(**calibration)
        words["audit"] = None if audit is None else Audit(**audit)
        return Info(**words)

    def close(self) -> None:
        """Close the file once the searches under way are done; closing twice does nothing.

        If it was open for writing, it waits for changes under way and brings every commit into the index file. An
        index that is not closed loses nothing: what was committed is found by whoever opens it next.
        """
        self._index.close()

    @property
    def dim(self) -> int:
        """Components of each vector."""
        return self._dim

    @property
    def writable(self) -> bool:
        """Whether rows can be added and deleted; not once it is closed."""
        return self._index.writable

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    def __len__(self) -> int:
        """Rows as of the newest commit; of a closed index, as of its end."""
        return self._index.rows()

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
        state = ", closed" if self._index.closed else ", for writing" if self.writable else ""
        return f"<pagehop.Index {self._path!r}: {len(self)} rows of {self._dim} dimensions{state}>"


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
    *,
    write: bool = False,
    calibrate: bool = True,
) -> Index:
    """Build an index over all vectors at `path`, and open it.

    A build that fails or is stopped leaves what was at `path` before, or nothing.

    vectors: a 2-d array, memory-mapped or not, or a source such as `from_hdf5` gives. Values must be
        float32 values whatever their type: float16, uint8 and small integers are, most float64 are not.
    ids: one whole number per row, each below 2**63; None numbers the rows from 0.
    metric: "l2", "ip" (inner product) or "cosine".
    memory: bytes the build may hold at once.
    threads: 0 means one per core. The index does not depend on it.
    seed: same vectors, options and seed give the same file, but for the identity that each file has of its own.
    progress: called with phase, steps done and steps in all (0: unknown); False stops the build.
    write: open it for adding and deleting rows, as `open` with `write=True` does.
    calibrate: end the build by measuring which settings reach which recall, as `Index.calibrate` does.
    """
    source = as_source(vectors, ids)
    _check_metric(metric)
    _check_progress(progress)
    _pagehop.build(
        _text(path),
        source,
        source.dim,
        metric=metric,
        memory_bytes=as_bytes("memory", memory),
        threads=as_count("threads", threads, 0, _THREADS_MAX),
        seed=as_count("seed", seed, 0, _SEED_MAX),
        calibrate=bool(calibrate),
        overwrite=bool(overwrite),
        progress=progress,
    )
    return open(path, write=write)


def create(
    path: PathLike,
    dim: int,
    metric: str = "l2",
    *,
    seed: int = 1,
    overwrite: bool = False,
    cache: int | str = _CACHE,
    durability: str = "commit",
) -> Index:
    """Create an index without rows at `path`, and open it for writing.

    dim: components of the vectors to come.
    metric: "l2", "ip" (inner product) or "cosine".
    seed: of everything random.
    overwrite: replace what is at `path`.
    cache, durability: as for `open`.

    An index over vectors that are all there already is built faster by `build`.
    """
    _check_metric(metric)
    cache_bytes = as_bytes("cache", cache)
    _check_durability(durability)
    _pagehop.create(
        _text(path),
        as_count("dim", dim, 1, _DIM_MAX),
        metric=metric,
        seed=as_count("seed", seed, 0, _SEED_MAX),
        overwrite=bool(overwrite),
    )
    return open(path, cache_bytes, write=True, durability=durability)


def open(
    path: PathLike,
    cache: int | str = _CACHE,
    *,
    write: bool = False,
    durability: str = "commit",
    log: int | str = _LOG,
) -> Index:
    """Open the index at `path`, keeping at most `cache` bytes of its pages in memory.

    write: open it for adding and deleting rows, too. One index at a time, in one process, may write a file; any
        number read it meanwhile.
    durability: when a change is safe from a loss of power: "commit", when it returns, or "checkpoint", at the next
        checkpoint, which is much faster for small changes; a loss of power may then take the last ones, whole and
        from the end. From the end of the process it is safe in any case.
    log: bytes of commits kept beside the index before a checkpoint brings them in: more write less in all, and take
        longer to recover after a crash.
    """
    _check_durability(durability)
    text = _text(path)
    index = _pagehop.open(
        text,
        as_bytes("cache", cache),
        write=bool(write),
        durability=durability,
        log_bytes=as_bytes("log", log),
    )
    return Index(index, text)


def _calibration(words: dict[str, Any]) -> Calibration:
    settings = tuple(Setting(*setting) for setting in words["settings"])
    return Calibration(words["rows"], words["samples"], words["by_queries"], settings)


def _only_recall(recall: Any, search_list: int | None, slack: float | None) -> float:
    """`recall` as a recall, given without what it stands for."""
    if search_list is not None or slack is not None:
        raise ArgumentError("recall stands for search_list and slack: give it, or them")
    return as_recall(recall)


def _check_metric(metric: object) -> None:
    if not isinstance(metric, str):
        raise ArgumentError(f"metric is {metric!r}, it must be one of 'l2', 'ip', 'cosine'")


def _check_durability(durability: object) -> None:
    if durability not in ("commit", "checkpoint"):
        raise ArgumentError(f"durability is {durability!r}, it must be 'commit' or 'checkpoint'")


def _check_progress(progress: object) -> None:
    if progress is not None and not callable(progress):
        raise ArgumentError(f"progress is {progress!r}, it must be callable")


def _text(path: PathLike) -> str:
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise ArgumentError(f"path is {path!r}, it must be a path") from None
    if "\0" in text:
        raise ArgumentError(f"path {text!r} has a null character")
    return text
