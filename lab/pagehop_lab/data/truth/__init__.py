"""The exact neighbors of queries under each metric, and the check of a set's own truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pagehop_lab.analysis.recalls import DISTANCES, unit
from pagehop_lab.data.truth import euclidean, product
from pagehop_lab.data.truth.check import check_truth, check_vectors

__all__ = ["DEPTH", "check_truth", "check_vectors", "neighbors"]

DEPTH = 100
"""Neighbors of each query that are kept."""


def neighbors(
    rows: npt.NDArray[Any], queries: npt.NDArray[Any], metric: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The nearest rows of each query, nearest first, and their distances under the metric.

    `l2` is squared. Neighbors by angle are those of the rows at unit length.
    """
    if metric == "ip":
        return product.nearest(rows, queries, DEPTH)
    if metric in ("l2", "euclidean"):
        found = euclidean.compute(rows, queries.astype(np.float32), DEPTH)
        return found.ids, found.distances if metric == "l2" else np.sqrt(found.distances)
    ids = euclidean.compute(unit(rows), unit(queries), DEPTH).ids
    each = np.repeat(np.arange(len(queries)), ids.shape[1])
    distances = DISTANCES[metric](np.asarray(rows[ids.ravel()]), queries[each]).reshape(ids.shape)
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(distances, order, axis=1)
