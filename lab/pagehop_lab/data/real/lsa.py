"""Latent semantic analysis: word counts of passages, projected on their leading directions.

The weight of a count is (1 + ln count) x ln(passages / passages with the word), and nothing is
normalized: long passages of rare words have long vectors. The directions are the leading right
singular vectors, by subspace iteration from a seeded random start (Halko, Martinsson and Tropp,
2011). Bases are kept orthogonal on the words' side, which is shorter than the passages' side.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagehop_lab.data.errors import DataError

Float32 = npt.NDArray[np.float32]

_WORD = re.compile(r"[a-z][a-z0-9_]+")
_FEWEST_PASSAGES = 3
_MOST_SHARE = 0.25
"""Words in a greater share of the passages are left out: articles, prepositions."""
_SPARE = 64
"""Directions that are computed beyond those that are kept; the last ones converge slowly."""
_ROUNDS = 4
_AT_ONCE = 8192
_FITTED = 150_000
"""Passages that words and directions are taken from; further ones are projected on them."""


@dataclass(frozen=True)
class Analysis:
    """Passages in the space of topics."""

    rows: Float32
    queries: Float32
    words: int


def analyze(rows: Sequence[str], queries: Sequence[str], dim: int, seed: int) -> Analysis:
    """Rows and queries of `dim` components, the leading one first.

    Only the rows choose the words.
    """
    counted = [Counter(_WORD.findall(text.lower())) for text in rows]
    words = _vocabulary(counted[:_FITTED])
    if len(words) < dim:
        raise DataError(f"{len(rows)} passages have {len(words)} words, too few for {dim} dimensions")
    weights = np.log(min(len(rows), _FITTED) / np.array(list(words.values()), dtype=np.float64))
    columns = {word: (at, weight) for at, (word, weight) in enumerate(zip(words, weights, strict=True))}
    matrix = _matrix(counted, columns)
    directions = _directions(matrix[:_FITTED], dim, seed)
    asked = _matrix([Counter(_WORD.findall(text.lower())) for text in queries], columns)
    return Analysis(matrix @ directions, asked @ directions, len(words))


def _vocabulary(counted: Sequence[Counter[str]]) -> dict[str, int]:
    """Words in alphabetical order, and how many passages have each."""
    passages = Counter(word for counts in counted for word in counts)
    most = _MOST_SHARE * len(counted)
    return {word: count for word, count in sorted(passages.items()) if _FEWEST_PASSAGES <= count <= most}


def _matrix(counted: Sequence[Counter[str]], columns: dict[str, tuple[int, float]]) -> Any:
    """The weighted counts, one line for each passage."""
    from scipy.sparse import csr_matrix

    starts, places, values = [0], [], []
    for counts in counted:
        for word, count in counts.items():
            if word in columns:
                at, weight = columns[word]
                places.append(at)
                values.append((1 + np.log(count)) * weight)
        starts.append(len(places))
    shape = (len(counted), len(columns))
    made = csr_matrix((np.array(values, np.float32), np.array(places, np.int32), np.array(starts)), shape=shape)
    made.sort_indices()
    return made


def _directions(matrix: Any, dim: int, seed: int) -> Float32:
    """The `dim` leading right singular vectors as columns. The largest component is positive."""
    turned = matrix.T.tocsr()
    width = min(dim + _SPARE, *matrix.shape)
    basis = np.random.default_rng(seed).standard_normal((matrix.shape[1], width), dtype=np.float32)
    for _ in range(_ROUNDS):
        basis = np.linalg.qr(turned @ (matrix @ np.linalg.qr(basis)[0]))[0]
    products = np.zeros((width, width))
    for start in range(0, matrix.shape[0], _AT_ONCE):
        seen = (matrix[start : start + _AT_ONCE] @ basis).astype(np.float64)
        products += seen.T @ seen
    squares, turn = np.linalg.eigh(products)
    leading = turn[:, np.argsort(-squares, kind="stable")[:dim]].astype(np.float32)
    found: Float32 = basis @ leading
    signs = np.sign(found[np.abs(found).argmax(axis=0), np.arange(dim)])
    found *= signs
    return found
