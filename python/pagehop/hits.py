"""Results of searches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagehop.arrays import Float32, UInt64
from pagehop.errors import ArgumentError
from pagehop.ids import as_objects


class Counters(NamedTuple):
    """The cost of each query of a search, in the order of the queries."""

    hops: UInt64
    pages_read: UInt64
    pages_missed: UInt64
    estimates: UInt64
    distances: UInt64


class Stats:
    """The cost of a search, summed over its queries; `per_query` has the cost of each."""

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
        """Distinct pages that each query read, from memory or storage."""
        return int(self._counters[:, 1].sum())

    @property
    def pages_missed(self) -> int:
        """Pages that came from storage."""
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


class _Pair(NamedTuple):
    ids: npt.NDArray[Any]
    """Row ids: int64, or str objects where ids are texts."""
    distances: Float32
    """Squared distance for `l2`, negative inner product for `ip`, 1 - cosine for `cosine`."""


class Hits(_Pair):
    """Rows found, nearest first; rows at the same distance are in order of id, text ids in an
    internal order.

    `ids, distances = index.search(...)` unpacks it; `stats` has the cost of the search.

    For one query, `ids` and `distances` are one-dimensional and hold the rows found. For a matrix
    of queries they are two-dimensional and `k` wide. If fewer than `k` rows were found, since the
    index has fewer or fewer pass `where`, the rest is id -1, or None where ids are texts, and
    distance infinity.
    """

    _buffer: bytearray
    _queries: int
    _counters_at: int
    _payload: list[Any] | None = None

    # Arrays have no truth value, so two results are equal only if they are the same object.
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__

    @property
    def payload(self) -> list[Any]:
        """The payload of each row found, bytes or None, if `search` was asked for payloads.

        For a matrix of queries, a list of payloads for each; it is shorter than `k` if fewer rows
        were found.
        """
        if self._payload is None:
            raise ArgumentError("this search was not asked for payloads: search(..., payload=True) finds them")
        return self._payload

    @property
    def stats(self) -> Stats:
        """The cost of the search."""
        width = len(Counters._fields)
        counters = np.frombuffer(self._buffer, _UINT64, self._queries * width, self._counters_at)
        return Stats(counters.reshape(self._queries, width))


_INT64, _UINT64, _FLOAT32 = np.dtype("<i8"), np.dtype("<u8"), np.dtype("<f4")
_COUNTERS_BYTES = 8 * len(Counters._fields)


def hits_of(
    buffer: bytearray,
    queries: int | None,
    k: int,
    found: int,
    texts: list[list[str]] | None,
) -> Hits:
    """The answers in `buffer`, which python/src/search.rs lays out.

    `queries` is the number of rows of the matrix of queries; None for one query, which found
    `found` rows. `texts` has the ids that each query found, where ids are texts.
    """
    count = 1 if queries is None else queries
    counters_at = 8 * k * count
    distances_at = counters_at + _COUNTERS_BYTES * count
    ids: npt.NDArray[Any]
    distances: Float32
    if queries is None:
        ids = np.frombuffer(buffer, _INT64, found)
        distances = np.frombuffer(buffer, _FLOAT32, found, distances_at)
    elif queries == 0:
        ids, distances = np.empty((0, k), _INT64), np.empty((0, k), _FLOAT32)
        buffer = bytearray(1)
    else:
        ids = np.frombuffer(buffer, _INT64, k * count).reshape(count, k)
        distances = np.frombuffer(buffer, _FLOAT32, k * count, distances_at).reshape(count, k)
    if texts is not None:
        ids = as_objects(texts[0]) if queries is None else _matrix(texts, k)
    hits = tuple.__new__(Hits, (ids, distances))
    hits._buffer, hits._queries, hits._counters_at = buffer, count, counters_at
    return hits


def _matrix(texts: list[list[str]], k: int) -> npt.NDArray[Any]:
    """A row for each query, filled up with None."""
    ids = np.full((len(texts), k), None, dtype=object)
    for row, found in zip(ids, texts, strict=True):
        row[: len(found)] = found
    return ids
