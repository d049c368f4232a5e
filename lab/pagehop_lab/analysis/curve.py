"""Recall against effort, and figures at a wanted recall.

Engines are compared at equal recall. For each wanted recall the two neighboring efforts around it
are searched for and measured, and the figure is interpolated between them. There is no
extrapolation. If the least effort of the plan exceeds the wanted recall, the figure is that of the
least effort.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

# Steps of about an eighth: bracketing points lie close together.
# fmt: off
_STEPS = [
    10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 32, 36, 40, 44, 48, 56, 64, 72, 80, 96, 112, 128, 144, 160,
    192, 224, 256, 320, 384, 448, 512, 640, 768, 1024, 1280, 1536, 2048, 3072, 4096,
]
# fmt: on


def ladder(k: int) -> list[int]:
    """Efforts to try, least first. No engine takes less than `k`."""
    return [step for step in _STEPS if step >= k]


@dataclass(frozen=True)
class Bracket:
    """Neighboring efforts with the wanted recall between them.

    Both are equal if the least is enough.
    """

    target: float
    low: int
    high: int


def bracket(target: float, efforts: list[int], recall_of: Callable[[int], float]) -> Bracket | None:
    """The efforts around `target`, or None if the most is too little.

    Recall must not fall with effort. It climbs in doubling strides, then halves the last one: large
    efforts are tried only if small ones fail.
    """
    low, high, stride = -1, 0, 1
    while recall_of(efforts[high]) < target:
        if high == len(efforts) - 1:
            return None
        low, high, stride = high, min(high + stride, len(efforts) - 1), 2 * stride
    while high - low > 1:
        middle = (low + high) // 2
        if recall_of(efforts[middle]) >= target:
            high = middle
        else:
            low = middle
    return Bracket(target, efforts[max(low, 0)], efforts[high])


def interpolate(target: float, low: tuple[float, float], high: tuple[float, float]) -> float:
    """A figure at recall `target`, from (recall, figure) on both sides, along its logarithm.

    Raises ValueError where that would be extrapolation.
    """
    (recall_low, figure_low), (recall_high, figure_high) = low, high
    if low == high and recall_low >= target:
        return figure_low
    if not recall_low <= target <= recall_high:
        raise ValueError(f"recall {target} is not between {recall_low} and {recall_high}")
    share = (target - recall_low) / (recall_high - recall_low)
    return math.exp((1 - share) * math.log(figure_low) + share * math.log(figure_high))
