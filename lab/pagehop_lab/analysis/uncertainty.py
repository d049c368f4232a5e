"""The confidence interval of a recall: bootstrap over queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 1000


@dataclass(frozen=True)
class Interval:
    """The 95% confidence interval of a figure."""

    low: float
    high: float


def bootstrap_mean(samples: npt.NDArray[np.float64], seed: int = 1, resamples: int = RESAMPLES) -> Interval:
    """The bootstrap interval of the mean of `samples`, over other queries of the same kind; seeded.

    The recall of a query has few values, so resampling goes by their counts: multinomial, and a
    hundred times faster.
    """
    values, counts = np.unique(samples, return_counts=True)
    random = np.random.default_rng(seed)
    drawn = random.multinomial(len(samples), counts / len(samples), size=resamples)
    means = drawn @ values / len(samples)
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(low), float(high))
