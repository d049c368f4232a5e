"""Student's t: the probability that chance alone gives as large a t."""

from __future__ import annotations

import math


def two_sided_p(t: float, freedom: int) -> float:
    """How often a t of `freedom` degrees, at least 1, is as far from 0 as this one.

    By the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4; right to about 1e-15.
    """
    if math.isinf(t):
        return 0.0
    angle = math.atan(abs(t) / math.sqrt(freedom))
    cosine = math.cos(angle)
    is_odd = freedom % 2 == 1
    # The terms of the sum are powers of the cosine; each is a factor times the one before.
    term, total = (cosine, 0.0) if is_odd else (1.0, 0.0)
    for power in range(1 if is_odd else 0, freedom - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    within = math.sin(angle) * total
    return max(1.0 - (2 / math.pi * (angle + within) if is_odd else within), 0.0)
