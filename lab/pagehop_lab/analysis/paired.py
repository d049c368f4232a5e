"""Throughput of several servers that are asked in turns of a fraction of a second.

Other load and the machine's clock change more slowly than a round of turns, in which every server
is asked once, in the reverse order every other round. So they scale all figures of a round by one
factor, and the mean of the round by the same. Each figure is divided by that mean. A server's
figure in a repeat is the median over its rounds, so one disturbed round changes little.

If there is one repeat of many rounds, parts of it stand for repeats. They share a server and its
data, so their spread has nothing of what new servers and new data change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def turn_order(servers: int, number: int) -> list[int]:
    """The order of the servers in a round: every other one goes the other way round, every two
    begin with another.
    """
    order = [(number // 2 + place) % servers for place in range(servers)]
    return order if number % 2 == 0 else order[::-1]


PARTS = 10
ROUNDS_MIN = 2 * PARTS
"""Rounds of a repeat from which on its parts stand for repeats."""


def in_parts(rounds: Sequence[float]) -> list[list[float]]:
    """The rounds of one repeat in parts of equal length.

    A part has neighboring rounds, since what disturbs one round disturbs the next. What is left
    over at the end is left out. Empty if there are too few rounds.
    """
    if len(rounds) < ROUNDS_MIN:
        return []
    size = len(rounds) // PARTS
    return [list(rounds[at * size : (at + 1) * size]) for at in range(PARTS)]


def paired_ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """The ratio of two figures in a repeat: the median of the ratios of its rounds."""
    return float(np.exp(np.median(np.log(np.asarray(one)) - np.log(np.asarray(other)))))


def without_weather(rounds: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """Figures of each server in each repeat, from `rounds[server][repeat][round]`, all of one
    length.

    Their mean over all is the mean of the measured figures; only their ratios are meaningful.
    """
    logs = np.log(np.asarray(rounds, dtype=np.float64))
    # One of three servers that was disturbed in a round shifts the others by a third of its
    # disturbance; the median ignores that.
    left = logs - logs.mean(axis=0, keepdims=True)
    return [[float(one) for one in repeats] for repeats in np.exp(np.median(left, axis=2) + logs.mean())]
