"""Seeded vectors that behave like embeddings: few real dimensions, clusters, repeats.

Uniform random vectors mislead: in them every row is about equally far from every other. Embeddings
lie near a curved surface of few dimensions, in topics of very unequal size, and the same text comes
again and again. So a row here is a point of a cluster in `LATENT` dimensions (cluster sizes follow
a power law), carried into `dim` dimensions by one fixed random network, plus a little noise in all
directions, at unit length. Some rows repeat one of a few hundred others, exactly or nearly.

Rows are made in blocks of `BLOCK`, each from its own stream of random numbers, so any row can be
had without those before it, and the chunks asked for do not change the rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

BLOCK = 2048
LATENT = 24
HIDDEN = 256
CLUSTERS = 400
CLUSTER_SPREAD = 0.6
NOISE = 0.15
REPEATED = 500
REPEATS_EXACT = 0.01
REPEATS_NEAR = 0.02
NEAR = 0.02

# Streams of random numbers: one for data that all rows share, and one each for repeated rows, base
# rows and queries.
_SHARED, _REPEATED, _BASE, _QUERY = range(4)


@dataclass(frozen=True)
class Generator:
    """The rows of one seed and dimension."""

    dim: int
    seed: int = 1

    def base(self, start: int, stop: int) -> Float32:
        """Rows `start` to `stop` of the set to index."""
        return self._rows(_BASE, start, stop)

    def queries(self, start: int, stop: int) -> Float32:
        """Rows `start` to `stop` of the queries: other rows of the same kind."""
        return self._rows(_QUERY, start, stop)

    def recipe(self) -> str:
        """A name for everything that decides the rows; two recipes never share a name."""
        numbers = [
            self.seed, BLOCK, LATENT, HIDDEN, CLUSTERS, CLUSTER_SPREAD, NOISE,
            REPEATED, REPEATS_EXACT, REPEATS_NEAR, NEAR,
        ]  # fmt: skip
        return hashlib.sha256(repr(numbers).encode()).hexdigest()[:8]

    def write_npy(self, path: Path, rows: int) -> None:
        """The first `rows` base rows as a `.npy` file, holding one block at a time."""
        unfinished = path.with_suffix(".part")
        out = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.float32, shape=(rows, self.dim))
        for start in range(0, rows, BLOCK):
            stop = min(rows, start + BLOCK)
            out[start:stop] = self.base(start, stop)
        out.flush()
        del out
        unfinished.rename(path)

    def _rows(self, stream: int, start: int, stop: int) -> Float32:
        blocks = list(self._blocks(stream, start, stop))
        return np.concatenate(blocks) if blocks else np.empty((0, self.dim), dtype=np.float32)

    def _blocks(self, stream: int, start: int, stop: int) -> Iterator[Float32]:
        for block in range(start // BLOCK, -(-stop // BLOCK)):
            first = block * BLOCK
            yield self._block(stream, block)[max(start - first, 0) : stop - first]

    def _block(self, stream: int, block: int) -> Float32:
        random = np.random.default_rng([self.seed, stream, block])
        rows = self._fresh(random, BLOCK)
        kind = random.random(BLOCK)
        source = random.choice(REPEATED, size=BLOCK, p=_power_law(REPEATED, 0.5))
        jitter = random.standard_normal((BLOCK, self.dim), dtype=np.float32) * np.float32(NEAR / self.dim**0.5)
        near = kind < REPEATS_EXACT + REPEATS_NEAR
        rows[near] = _unit(self._repeated[source[near]] + jitter[near])
        exact = kind < REPEATS_EXACT
        rows[exact] = self._repeated[source[exact]]
        return rows

    def _fresh(self, random: np.random.Generator, rows: int) -> Float32:
        cluster = random.choice(CLUSTERS, size=rows, p=_power_law(CLUSTERS, 1.0))
        latent = self._centers[cluster] + CLUSTER_SPREAD * random.standard_normal((rows, LATENT))
        first, bias, second = self._network
        surface = np.tanh(latent @ first + bias) @ second
        noise = random.standard_normal((rows, self.dim), dtype=np.float32) * np.float32(NOISE / self.dim**0.5)
        return _unit(surface.astype(np.float32) + noise)

    @cached_property
    def _centers(self) -> Float64:
        return np.random.default_rng([self.seed, _SHARED, 0]).standard_normal((CLUSTERS, LATENT))

    @cached_property
    def _network(self) -> tuple[Float64, Float64, Float64]:
        """Two layers; the second keeps lengths near 1."""
        random = np.random.default_rng([self.seed, _SHARED, 1])
        first = random.standard_normal((LATENT, HIDDEN)) / LATENT**0.5
        bias = random.standard_normal(HIDDEN) * 0.5
        second = random.standard_normal((HIDDEN, self.dim)) * 2 / (HIDDEN * self.dim) ** 0.5
        return first, bias, second

    @cached_property
    def _repeated(self) -> Float32:
        return self._fresh(np.random.default_rng([self.seed, _REPEATED]), REPEATED)


def _power_law(count: int, exponent: float) -> Float64:
    weight = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    weight /= weight.sum()
    return weight


def _unit(rows: Float32) -> Float32:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Float32 = rows / np.maximum(length, np.float32(1e-12))
    return unit
