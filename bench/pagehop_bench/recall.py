"""Share of the true neighbors that a search found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagehop_bench.truth import Truth

# A distance this close to the k-th true one, relatively, is the same distance.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Recall:
    """Recall of one search, counted twice."""

    by_id: float
    """Rows found that are among the true `k`; a twin of a true row is wrong."""
    with_ties: float
    """Rows found that are as near as the k-th true row; a twin of a true row is right."""


def recall_at(
    k: int,
    found: npt.NDArray[np.int64],
    truth: Truth,
    base: npt.NDArray[np.float32],
    queries: npt.NDArray[np.float32],
) -> Recall:
    """Share of the true `k` nearest that were found, by id and counting ties as found.

    Repeats are common in real data, and which of several equal rows comes back is nobody's fault.
    A row given twice counts once.
    """
    found = np.sort(found[:, :k], axis=1)
    fresh = np.ones(found.shape, dtype=bool)
    fresh[:, 1:] = found[:, 1:] != found[:, :-1]
    fresh &= found >= 0
    same = (found[:, :, None] == truth.ids[:, None, :k]).any(axis=2) & fresh

    rows, columns = np.nonzero(fresh & ~same)
    tied = same.copy()
    for start in range(0, len(rows), 8192):
        part = slice(start, start + 8192)
        vectors = np.asarray(base[found[rows[part], columns[part]]], dtype=np.float64)
        distances = ((vectors - queries[rows[part]]) ** 2).sum(axis=1)
        tied[rows[part], columns[part]] = distances <= truth.distances[rows[part], k - 1] * (1 + TOLERANCE)
    return Recall(by_id=float(same.sum() / same.size), with_ties=float(tied.sum() / tied.size))
