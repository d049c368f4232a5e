"""Finds the versions at which throughput changed, over repeats of many tests.

A change can only be where a version begins, so only those boundaries are tried. The two sides of a
boundary are compared by Student's t over logarithms, so that a change of 5% weighs the same at
every level. The boundary with the greatest t counts if chance seldom gives as large a one at any
boundary (Bonferroni). Then each side is searched in the same way.

If each repeat measures every version, in turns, a repeat is a block: what all of its measurements
have in common is taken away, which costs a degree of freedom for each repeat.

Of many tests without a change, one in twenty would be listed at a level of 5%. So the level is that
of all tests together (Holm, 1979): if nothing changed anywhere, chance lists anything in one run of
twenty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pagehop_lab.analysis.student import two_sided_p

Float64 = npt.NDArray[np.float64]

LEVEL = 0.05
# With fewer degrees of freedom, only steps of many times the noise could be distinguished from
# chance.
_FREEDOM_MIN = 3
# Logarithms that differ by less are equal, up to rounding.
_EQUAL = 1e-12


@dataclass(frozen=True)
class Change:
    """A step of throughput."""

    at: int
    """Position of the first version after the change."""
    ratio: float
    """The median after the change over the median before it, each up to the next change."""
    p: float
    """Probability that chance gives as large a t in this test."""


@dataclass(frozen=True)
class Repeats:
    """The measurements of a test: `by_version[version]` has at least one repeat."""

    by_version: Sequence[Sequence[float]]
    in_blocks: bool = False
    """Whether all versions have the same repeats in the same order."""

    @property
    def can_tell(self) -> bool:
        """Whether there are enough repeats to distinguish any change from chance."""
        return _split(_logs(self.by_version), self.in_blocks) is not None


def changes(repeats: Repeats, level: float = LEVEL) -> list[Change]:
    """The changes of one test, in order."""
    logs = _logs(repeats.by_version)
    found: dict[int, float] = {}
    left = [(0, len(logs))]
    while left:
        start, end = left.pop()
        split = _split(logs[start:end], repeats.in_blocks)
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


def changes_of_tests(tests: Mapping[str, Repeats], families: int = 1) -> dict[str, list[Change]]:
    """The changes of many tests, by Holm's step-down over their clearest boundaries.

    `families` is the number of figures for which the same tests are searched. The clearest test
    must pass the level divided by all of them, the next one that divided by one less. Further
    changes of a test must pass its level, too.
    """
    clearest = {
        name: split[1] for name, one in tests.items() if (split := _split(_logs(one.by_version), one.in_blocks))
    }
    found = {}
    for place, name in enumerate(sorted(clearest, key=lambda name: clearest[name])):
        level = LEVEL / families / (len(clearest) - place)
        if clearest[name] > level:
            break
        found[name] = changes(tests[name], level)
    return {name: found[name] for name in tests if name in found}


def _logs(by_version: Sequence[Sequence[float]]) -> list[Float64]:
    return [np.log(np.asarray(repeats, dtype=np.float64)) for repeats in by_version]


def _split(logs: Sequence[Float64], in_blocks: bool) -> tuple[int, float] | None:
    """The best boundary and its p; None if there is none with two measurements on either side."""
    if in_blocks:
        logs = list(np.asarray(logs) - np.mean(logs, axis=0))
    whole = np.concatenate(logs)
    freedom = len(whole) - 2 - (len(logs[0]) - 1 if in_blocks else 0)
    ends = np.cumsum([len(one) for one in logs])[:-1]
    usable = {place + 1: int(end) for place, end in enumerate(ends) if 2 <= end <= len(whole) - 2}
    if not usable or freedom < _FREEDOM_MIN:
        return None
    apart = {at: abs(_t(whole[:end], whole[end:], freedom)) for at, end in usable.items()}
    best = max(apart, key=lambda at: apart[at])
    return best, min(two_sided_p(apart[best], freedom) * len(usable), 1.0)


def _t(before: Float64, after: Float64, freedom: int) -> float:
    """Student's t of two sides with one spread."""
    step = float(after.mean() - before.mean())
    if abs(step) < _EQUAL:
        return 0.0
    squares = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())
    error = math.sqrt(squares / freedom * (1 / len(before) + 1 / len(after)))
    return step / error if error > 0 else math.copysign(math.inf, step)
