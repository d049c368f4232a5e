"""Exact nearest neighbors under squared L2.

Candidates come from float32 matrix products; their distances are then computed again in float64
by subtraction. A row is proven when no candidate left out can be nearer than the k-th, given the
error the products may have; the few rows that are not are searched again with all that could be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

# Neighbors kept for each query.
DEPTH = 100
# Candidates beyond them.
_SPARE = 60
_BASE_BLOCK = 16384
_QUERY_BLOCK = 1024


@dataclass(frozen=True)
class Truth:
    """The nearest base rows of each query, nearest first, equal distances in order of row."""

    ids: Int64
    distances: Float64


def compute(base: Float32, queries: Float32, depth: int = DEPTH) -> Truth:
    """The truth, by comparing every query with every base row."""
    depth = min(depth, len(base))
    norms = _norms(base)
    ids = np.empty((len(queries), depth), dtype=np.int64)
    distances = np.empty((len(queries), depth), dtype=np.float64)
    for start in range(0, len(queries), _QUERY_BLOCK):
        block = queries[start : start + _QUERY_BLOCK]
        kept, estimates = _candidates(base, norms, block, min(depth + _SPARE, len(base)))
        error = _error_bound(norms, block)
        for row, query in enumerate(block):
            candidates = kept[row]
            found = _nearest(base, query, candidates, depth)
            if len(candidates) < len(base) and found.distances[-1] + error[row] > estimates[row]:
                candidates = _within(base, norms, query, found.distances[-1] + error[row])
                found = _nearest(base, query, candidates, depth)
            ids[start + row], distances[start + row] = found.ids, found.distances
    return Truth(ids, distances)


def _candidates(base: Float32, norms: Float64, block: Float32, count: int) -> tuple[Int64, Float64]:
    """About `count` nearest rows of each query, and the estimate of the farthest of them."""
    best = np.full((len(block), count), np.inf, dtype=np.float32)
    ids = np.full((len(block), count), -1, dtype=np.int64)
    for start in range(0, len(base), _BASE_BLOCK):
        estimates = _estimates(base, norms, block, start)
        if estimates.shape[1] > count:
            order = np.argpartition(estimates, count - 1, axis=1)[:, :count]
            estimates, rows = np.take_along_axis(estimates, order, axis=1), order + start
        else:
            rows = np.broadcast_to(np.arange(start, start + estimates.shape[1]), estimates.shape)
        both, both_ids = np.hstack([best, estimates]), np.hstack([ids, rows])
        order = np.argpartition(both, count - 1, axis=1)[:, :count]
        best, ids = np.take_along_axis(both, order, axis=1), np.take_along_axis(both_ids, order, axis=1)
    return ids, best.max(axis=1).astype(np.float64) + _norms(block)


def _estimates(base: Float32, norms: Float64, block: Float32, start: int) -> Float32:
    """Squared distances less the queries' own norms, from a matrix product."""
    rows = np.asarray(base[start : start + _BASE_BLOCK], dtype=np.float32)
    estimates: Float32 = block @ rows.T
    estimates *= np.float32(-2)
    estimates += norms[start : start + _BASE_BLOCK].astype(np.float32)
    return estimates


def _within(base: Float32, norms: Float64, query: Float32, distance: float) -> Int64:
    """Every row whose estimate is at most `distance`."""
    bound = distance - float(_norms(query[None])[0])
    blocks = range(0, len(base), _BASE_BLOCK)
    found = [start + np.flatnonzero(_estimates(base, norms, query[None], start)[0] <= bound) for start in blocks]
    return np.concatenate(found).astype(np.int64)


def _nearest(base: Float32, query: Float32, candidates: Int64, depth: int) -> Truth:
    candidates = np.sort(candidates)
    difference = np.asarray(base[candidates], dtype=np.float64) - query.astype(np.float64)
    distances = np.einsum("ij,ij->i", difference, difference)
    order = np.argsort(distances, kind="stable")[:depth]
    return Truth(candidates[order], distances[order])


def _error_bound(norms: Float64, block: Float32) -> Float64:
    """Upper bound of the error of a distance from the products, for each query of `block`."""
    longest = float(np.sqrt(norms.max(initial=0)))
    lengths = np.sqrt(_norms(block))
    bound: Float64 = block.shape[1] * np.finfo(np.float32).eps * (longest + lengths) ** 2
    return bound


def _norms(rows: Float32) -> Float64:
    norms = np.empty(len(rows), dtype=np.float64)
    for start in range(0, len(rows), _BASE_BLOCK):
        block = np.asarray(rows[start : start + _BASE_BLOCK], dtype=np.float64)
        norms[start : start + _BASE_BLOCK] = np.einsum("ij,ij->i", block, block)
    return norms
