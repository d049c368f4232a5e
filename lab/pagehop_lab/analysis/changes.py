"""Finds the versions at which throughput changed: E-divisive, over repeats of one measurement.

From Matteson and James, A Nonparametric Approach for Multiple Change Point Analysis of Multivariate
Data (JASA 2014), with alpha = 1. The two sides of a boundary differ by the energy distance of their
measurements. A boundary counts if random orders of the same measurements seldom differ as much.
Then each side is searched in the same way.

A change can only be where a version begins, so only those boundaries are tried. Measurements are
compared by their logarithms, so that a change of 5% weighs the same at every level. If each repeat
measures every version, in turns, a repeat is a block: what all of its measurements have in common
is ignored, and random orders stay within each repeat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

LEVEL = 0.05
_SHUFFLES = 199
# Few repeats have few orders within them, so that p is near to the level.
_SHUFFLES_IN_BLOCKS = 999


@dataclass(frozen=True)
class Change:
    """A step of throughput."""

    at: int
    """The first version after it, by its place."""
    ratio: float
    """The middle after it over the middle before it, each up to the next change."""
    p: float
    """How often a random order differs as much."""


def changes(
    series: Sequence[Sequence[float]], seed: int = 1, level: float = LEVEL, *, in_blocks: bool = False
) -> list[Change]:
    """The changes in measurements by version, in order. `series[version]` has at least one repeat.

    With `in_blocks` all versions have the same repeats in the same order.
    """
    logs = [np.log(np.asarray(repeats, dtype=np.float64)) for repeats in series]
    random = np.random.default_rng(seed)
    found: dict[int, float] = {}
    left = [(0, len(logs))]
    while left:
        start, end = left.pop()
        split = _split(logs[start:end], random, in_blocks)
        if split is not None and split[1] <= level:
            at = start + split[0]
            found[at] = split[1]
            left += [(start, at), (at, end)]
    places = [0, *sorted(found), len(logs)]
    middles = [float(np.median(np.concatenate(logs[a:b]))) for a, b in pairwise(places)]
    return [
        Change(at, math.exp(after - before), found[at])
        for at, before, after in zip(places[1:-1], middles, middles[1:], strict=False)
    ]


def can_tell(counts: Sequence[int], level: float = LEVEL, *, in_blocks: bool = False) -> bool:
    """Whether this number of repeats of each version is enough to tell any change from chance."""
    if in_blocks:
        versions = len(counts)
        orders = [math.comb(versions, at) ** counts[0] / (2 if 2 * at == versions else 1) for at in range(1, versions)]
        return counts[0] > 1 and max(orders, default=1) * level / 2 >= 1
    whole, ends = sum(counts), np.cumsum(counts)[:-1]
    usable = [int(end) for end in ends if 2 <= end <= whole - 2]
    # A boundary in the middle looks the same from both sides.
    return any((2 if 2 * end == whole else 1) / math.comb(whole, end) <= level / 2 for end in usable)


def _split(logs: Sequence[Float64], random: np.random.Generator, in_blocks: bool) -> tuple[int, float] | None:
    """The best boundary and its p; None if there is none with two measurements on either side."""
    if in_blocks:
        logs = np.asarray(logs) - np.mean(logs, axis=0)
    whole = np.concatenate(logs)
    ends = np.cumsum([len(one) for one in logs])[:-1]
    usable = [(place + 1, int(end)) for place, end in enumerate(ends) if 2 <= end <= len(whole) - 2]
    if not usable:
        return None
    sizes = np.array([end for _, end in usable])
    apart = np.abs(whole[:, None] - whole[None, :])
    energies = _energies(apart, sizes)
    best = int(np.argmax(energies))
    beaten, shuffles = 0, _SHUFFLES_IN_BLOCKS if in_blocks else _SHUFFLES
    for _ in range(shuffles):
        order = _order(random, len(logs), len(logs[0])) if in_blocks else random.permutation(len(whole))
        # Rounding must not make a draw a win.
        beaten += bool(_energies(apart[np.ix_(order, order)], sizes).max() >= energies[best] * (1 - 1e-9))
    return usable[best][0], (1 + beaten) / (1 + shuffles)


def _order(random: np.random.Generator, versions: int, repeats: int) -> npt.NDArray[np.int64]:
    """A random order of the versions within each repeat, of measurements that lie by version."""
    places = np.arange(versions * repeats).reshape(versions, repeats)
    return random.permuted(places, axis=0).ravel()


def _energies(apart: Float64, sizes: npt.NDArray[np.int64]) -> Float64:
    """The scaled energy distance of the first `size` measurements to the rest, by size."""
    sums = apart.cumsum(axis=0).cumsum(axis=1)
    count = len(apart)
    first, both = sums[sizes - 1, sizes - 1], sums[sizes - 1, count - 1]
    between, rest = both - first, sums[-1, -1] - 2 * both + first
    others = count - sizes
    distance = 2 * between / (sizes * others) - first / (sizes * (sizes - 1)) - rest / (others * (others - 1))
    return np.asarray(distance * sizes * others / count)
