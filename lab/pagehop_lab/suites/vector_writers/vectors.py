"""The rows of a set in a random order, without repeats.

An index inserts a vector that it already has at a lower cost.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pagehop_lab.data import Dataset
from pagehop_lab.measure.oltp import MeasureError

Float32 = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

_AT_ONCE = 16384


@dataclass(frozen=True)
class Vectors:
    """The place of the vectors, in a form that can be sent to a process."""

    base: Path
    queries: Path
    order: Path
    """A .npy: row `id` of the table is this row of the set."""

    def open(self) -> Opened:
        return Opened(self)


class Opened:
    """The vectors, mapped from their files."""

    def __init__(self, vectors: Vectors) -> None:
        # Not a memmap: each of its rows would be one, too, which takes longer to make than to read.
        self._base: Float32 = np.asarray(np.load(vectors.base, mmap_mode="r"))
        self._order: Ids = np.load(vectors.order)

    def __len__(self) -> int:
        return len(self._order)

    def row(self, number: int) -> Float32:
        return np.asarray(self._base[self._order[number]], dtype=np.float32)

    def rows(self, first: int, end: int) -> Float32:
        """Rows from `first` on, below `end`."""
        return np.asarray(self._base[self._order[first:end]], dtype=np.float32)


@dataclass(frozen=True)
class Supply:
    """The vectors of a run, and their number."""

    dataset: Dataset
    seed: int

    @cached_property
    def vectors(self) -> Vectors:
        folder = self.dataset.folder
        order = folder / f"order-{self.seed}.npy"
        if not order.exists():
            unfinished = order.with_name(f".unfinished-{os.getpid()}-{order.name}")
            np.save(unfinished, shuffled(self.dataset.base, self.seed))
            unfinished.replace(order)
        return Vectors(folder / "base.npy", folder / "queries.npy", order)

    @cached_property
    def count(self) -> int:
        """Different rows."""
        return len(np.load(self.vectors.order, mmap_mode="r"))

    def need(self, rows: int, what: str) -> None:
        """MeasureError if there are fewer new rows than a step needs."""
        if rows > self.count:
            raise MeasureError(
                f"{what} takes {rows:,} rows that are different, and {self.dataset.facts.name} has {self.count:,}: "
                "name a larger set, or plan fewer rows"
            )


def shuffled(base: Float32, seed: int) -> Ids:
    """Rows of a set in a random order, without those that are equal to one before."""
    first = np.unique(_hashes(base), return_index=True)[1]
    return np.random.default_rng(seed).permutation(first).astype(np.int64)


def _hashes(base: Float32) -> npt.NDArray[np.uint64]:
    """A number for each row: equal for equal bytes, and different for nearly all other rows."""
    factors = np.random.default_rng(0).integers(1, 1 << 63, base.shape[1], dtype=np.uint64) | np.uint64(1)
    parts = [
        (
            np.ascontiguousarray(base[start : start + _AT_ONCE], dtype=np.float32).view(np.uint32).astype(np.uint64)
            * factors
        ).sum(axis=1)
        for start in range(0, len(base), _AT_ONCE)
    ]
    return np.concatenate(parts)
