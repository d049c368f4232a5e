"""Oracles for the tests: exact neighbors by a slow and obvious search."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pagehop.arrays import Float32, Int64

ROWS, DIM, QUERIES = 3000, 48, 50


def clustered(seed: int, rows: int) -> Float32:
    """Rows around common centers. Components are whole numbers, which float16 has exactly."""
    centers = np.random.default_rng(5).normal(0, 40, (30, DIM))
    random = np.random.default_rng(seed)
    points = centers[random.integers(len(centers), size=rows)] + random.normal(0, 25, (rows, DIM))
    # Adding 0 turns negative zeros into zeros, since integers have none.
    return points.round().astype(np.float32) + np.float32(0)


def nearest(vectors: Float32, queries: Float32, k: int, metric: str = "l2") -> Int64:
    """Exact neighbors, nearest first, shape [queries, k], by reading every row in float64."""
    x, q = vectors.astype(np.float64), queries.astype(np.float64)
    if metric == "cosine":
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        q /= np.linalg.norm(q, axis=1, keepdims=True)
    distances = -(q @ x.T)
    if metric == "l2":
        distances = 2 * distances + (x**2).sum(1)
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


def recall(found: Int64, truth: Int64) -> float:
    """Share of the true neighbors that was found."""
    return float(np.mean([len(np.intersect1d(f, t)) / len(t) for f, t in zip(found, truth, strict=True)]))


def content(path: Path) -> bytes:
    """The bytes of an index without the header of page 0, which has a random identity."""
    return path.read_bytes()[24:]


def beside(path: Path) -> list[str]:
    """Names of the files beside an index."""
    return sorted(entry.name for entry in path.parent.iterdir() if entry != path)


# Rows for indexes that change.
CHANGING = clustered(seed=21, rows=3000)
