"""Exact nearest rows under the inner product: every product is computed in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

_BASE_BLOCK = 8192
_QUERY_BLOCK = 1024


def nearest(rows: npt.NDArray[Any], queries: npt.NDArray[Any], depth: int) -> tuple[Int64, Float64]:
    """The rows with the greatest products, and the negated products.

    Greatest first, ties in order of row.
    """
    depth = min(depth, len(rows))
    ids = np.empty((len(queries), depth), dtype=np.int64)
    distances = np.empty((len(queries), depth), dtype=np.float64)
    for start in range(0, len(queries), _QUERY_BLOCK):
        block = queries[start : start + _QUERY_BLOCK].astype(np.float64)
        found_ids, found = np.empty((len(block), 0), dtype=np.int64), np.empty((len(block), 0))
        for first in range(0, len(rows), _BASE_BLOCK):
            products = -(block @ rows[first : first + _BASE_BLOCK].astype(np.float64).T)
            among = _least(products, depth)
            found_ids = np.hstack([found_ids, among + first])
            found = np.hstack([found, np.take_along_axis(products, among, axis=1)])
            best = _least(found, depth)
            found_ids, found = np.take_along_axis(found_ids, best, axis=1), np.take_along_axis(found, best, axis=1)
        ids[start : start + len(block)], distances[start : start + len(block)] = found_ids, found
    return ids, distances


def _least(values: Float64, count: int) -> Int64:
    """Positions of the `count` least values of each line, least first, ties by position."""
    if values.shape[1] <= count:
        return np.argsort(values, axis=1, kind="stable")
    # A partition may leave out the first of several equal values. A stable sort up to the bound
    # does not.
    bound = np.partition(values, count - 1, axis=1)[:, count - 1 : count]
    found = np.empty((len(values), count), dtype=np.int64)
    for line, (row, most) in enumerate(zip(values, bound, strict=True)):
        among = np.flatnonzero(row <= most)
        found[line] = among[np.argsort(row[among], kind="stable")[:count]]
    return found
