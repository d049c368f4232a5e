"""Checks a set: vectors are numbers, queries have the rows' dimension, and the truth is true."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagehop_lab.analysis.recalls import DISTANCES
from pagehop_lab.data.errors import DataError

Float32 = npt.NDArray[np.float32]

# Number of queries that are answered again.
_ASKED = 20
_AT_ONCE = 16384
# Files keep float32 distances, computed in an unknown order.
_CLOSE = 1e-3


def check_vectors(name: str, base: Float32, queries: Float32) -> None:
    """Fails unless rows and queries are vectors of one dimension, all of finite numbers."""
    if base.ndim != 2 or queries.ndim != 2 or 0 in base.shape or 0 in queries.shape:
        raise DataError(f"{name}: rows and queries must be matrices with rows, not {base.shape} and {queries.shape}")
    if base.shape[1] != queries.shape[1]:
        raise DataError(f"{name}: rows have {base.shape[1]} components, queries have {queries.shape[1]}")
    for what, rows in [("row", base), ("query", queries)]:
        for start in range(0, len(rows), _AT_ONCE):
            finite = np.isfinite(rows[start : start + _AT_ONCE]).all(axis=1)
            if not finite.all():
                raise DataError(f"{name}: {what} {start + int(np.argmin(finite))} has a component that is not finite")


def check_truth(
    name: str,
    base: Float32,
    queries: Float32,
    ids: npt.NDArray[np.int64],
    distances: npt.NDArray[np.float64],
    metric: str,
) -> None:
    """Fails if the truth's distances are not those of its rows, or if rows are nearer."""
    if ids.shape != distances.shape or ids.ndim != 2 or len(ids) != len(queries) or not ids.shape[1]:
        raise DataError(f"{name}: the truth has shapes {ids.shape} and {distances.shape} for {len(queries)} queries")
    if ids.min() < 0 or ids.max() >= len(base):
        raise DataError(f"{name}: the truth names row {int(ids.max())}, there are {len(base)}")
    depth = ids.shape[1]
    asked = set(np.linspace(0, len(queries) - 1, num=min(_ASKED, len(queries)), dtype=np.int64))
    for query, said in enumerate(distances):
        asking = np.broadcast_to(queries[query], (depth, base.shape[1]))
        named = np.sort(DISTANCES[metric](np.asarray(base[ids[query]]), asking))
        least = nearest(base, queries[query], metric, depth) if query in asked else named
        for what, right in [("is at", least), ("that it names is at", named)]:
            wrong = np.flatnonzero(np.abs(said - right) > _CLOSE * (np.abs(right) + _CLOSE))
            if len(wrong):
                at = int(wrong[0])
                told = f"neighbor {at + 1} {what} {right[at]:.6g}, its distance is said to be {said[at]:.6g}"
                raise DataError(f"{name}: the truth is wrong. Query {query}: {told}")


def nearest(base: Float32, query: Float32, metric: str, depth: int) -> npt.NDArray[np.float64]:
    """The least distances of a query, ascending, by comparing it with every row."""
    kept = np.empty(0)
    for start in range(0, len(base), _AT_ONCE):
        part = np.asarray(base[start : start + _AT_ONCE])
        found = DISTANCES[metric](part, np.broadcast_to(query, part.shape))
        kept = np.sort(np.concatenate([kept, found]))[:depth]
    return kept
