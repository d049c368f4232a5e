"""Throughput of several servers that were asked in turns of a fraction of a second: what befell all
is taken away.

The weather of a machine (others that run, its clock) lasts longer than a round of turns, in which
every server is asked once, every other round the other way round. So it makes all figures of a
round smaller or larger by one factor, which their mean has, too. What is left of a server in a
repeat is the middle of its rounds: a round that was disturbed in the middle is one of many.
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


def paired_ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """One figure over another in a repeat, from those of its rounds: the middle of the rounds'
    ratios.
    """
    return float(np.exp(np.median(np.log(np.asarray(one)) - np.log(np.asarray(other)))))


def without_weather(rounds: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """Figures of each server in each repeat, from `rounds[server][repeat][round]`, all of one
    length.

    Their mean over all is that of the figures that were measured; only their ratios say anything.
    """
    logs = np.log(np.asarray(rounds, dtype=np.float64))
    # Of three servers, one that was disturbed in a round shifts the others by a third of it; the
    # middle forgets that.
    left = logs - logs.mean(axis=0, keepdims=True)
    return [[float(one) for one in repeats] for repeats in np.exp(np.median(left, axis=2) + logs.mean())]
