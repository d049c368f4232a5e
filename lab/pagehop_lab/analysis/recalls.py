"""Recall of answers, query by query, counted three ways.

By id: rows that are among the true k. By distance threshold: rows no farther than the k-th true
distance plus 0.001, as ann-benchmarks counts; how much that forgives depends on the scale of the
data. Tie-aware: rows as near as the k-th true row, up to rounding, because any of several equal
rows is a correct answer. A row that is returned twice counts once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

RECALL_NAMES = {"threshold": "by_threshold", "ties": "with_ties", "id": "by_id"}
"""The names of the three counts in plans, and their names in raw measurements."""

THRESHOLD = 1e-3
# Two distances are equal if they differ by no more than this, relatively or at the scale of
# rounding.
_TIE = 1e-6
_AT_ONCE = 8192


@dataclass(frozen=True)
class Recalls:
    """Share of the k neighbors that each query found, shape [queries]."""

    by_id: Float64
    by_threshold: Float64
    with_ties: Float64

    def means(self) -> dict[str, float]:
        """The three recalls of all queries together."""
        return {
            "by_id": float(self.by_id.mean()),
            "by_threshold": float(self.by_threshold.mean()),
            "with_ties": float(self.with_ties.mean()),
        }


def euclidean(rows: Float32, queries: Float32) -> Float64:
    """Distances of pairs, from two arrays of shape [pairs, dim]."""
    difference = rows.astype(np.float64) - queries.astype(np.float64)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", difference, difference)))


def angular(rows: Float32, queries: Float32) -> Float64:
    """1 - cosine of pairs; a vector of zeros is at 1 from everything."""
    wide, asked = rows.astype(np.float64), queries.astype(np.float64)
    products = np.einsum("ij,ij->i", wide, asked)
    lengths = np.linalg.norm(wide, axis=1) * np.linalg.norm(asked, axis=1)
    return np.asarray(1 - np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0))


def product(rows: Float32, queries: Float32) -> Float64:
    """Negated inner products of pairs: the greatest product is nearest."""
    return np.asarray(-np.einsum("ij,ij->i", rows.astype(np.float64), queries.astype(np.float64)))


def unit(rows: Float32) -> Float32:
    """Rows at unit length; zero rows stay. For these, the order by L2 is the order by angle."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, np.float32(1e-30)), dtype=np.float32)


DISTANCES: dict[str, Callable[[Float32, Float32], Float64]] = {
    "euclidean": euclidean, "angular": angular, "ip": product,
}  # fmt: skip


def recalls(
    found: Ids, truth_ids: Ids, truth_distances: Float64, base: Float32, queries: Float32, metric: str, k: int
) -> Recalls:
    """Recall of `found`, shape [queries, at least k], where -1 stands for no row.

    Truth has shape [queries, at least k], in the metric's own distance (see DISTANCES), nearest
    first.
    """
    found = np.sort(found[:, :k], axis=1)
    fresh = np.ones(found.shape, dtype=bool)
    fresh[:, 1:] = found[:, 1:] != found[:, :-1]
    fresh &= (found >= 0) & (found < len(base))
    same = (found[:, :, None] == truth_ids[:, None, :k]).any(axis=2) & fresh

    distances = np.full(found.shape, np.inf)
    # The distance of a true row is at most the one in the truth, so it counts without a test.
    rows, columns = np.nonzero(fresh & ~same)
    for start in range(0, len(rows), _AT_ONCE):
        at = (rows[start : start + _AT_ONCE], columns[start : start + _AT_ONCE])
        distances[at] = DISTANCES[metric](np.asarray(base[found[at]]), queries[at[0]])
    last = truth_distances[:, k - 1 : k]
    near, tied = distances <= last + THRESHOLD, distances <= last + _TIE * np.abs(last) + _TIE * 1e-3
    return Recalls(*(_share(kept, k) for kept in (same, same | near, same | tied)))


def _share(kept: npt.NDArray[np.bool_], k: int) -> Float64:
    return np.asarray(kept.sum(axis=1) / k, dtype=np.float64)
