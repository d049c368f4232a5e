"""What sessions do to throughput: QPS of each, relative to a base, and a fit of the scaling curve.

The curve is the universal scalability law: qps(n) = scale * n / (1 + contention * (n - 1) +
coherence * n * (n - 1)). Contention is the share of the work that only one session does at a time.
Coherence is the cost that sessions impose on each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from pagehop_lab.analysis.settings import Setting


def per_session(settings: Iterable[Setting]) -> dict[int, float]:
    """QPS of each session, by their number."""
    return {one.sessions: one.qps.median / one.sessions for one in sorted(settings, key=lambda one: one.sessions)}


@dataclass(frozen=True)
class Scaling:
    """The fitted law."""

    scale: float
    """QPS of one session."""
    contention: float
    coherence: float

    def at(self, sessions: float) -> float:
        """QPS that the law gives."""
        slowed = 1 + self.contention * (sessions - 1) + self.coherence * sessions * (sessions - 1)
        return self.scale * sessions / slowed

    @property
    def peak_sessions(self) -> float:
        """The number of sessions at the highest throughput.

        It is 1 if more sessions only cost, and infinite if throughput never falls.
        """
        if self.contention >= 1:
            return 1.0
        return max(1.0, math.sqrt((1 - self.contention) / self.coherence)) if self.coherence > 0 else math.inf


def fit(qps: Mapping[int, float]) -> Scaling | None:
    """Fits the law to QPS by sessions. None for fewer than four points, which fit anything.

    n / qps is linear in the terms of the law, so the fit is least squares, weighted by relative
    error. No coefficient may be below 0: where least squares would go there, the term is left out.
    """
    if len(qps) < 4:
        return None
    sessions = np.array(sorted(qps), dtype=np.float64)
    measured = np.array([qps[int(n)] for n in sessions])
    wanted = sessions / measured
    terms = np.stack([np.ones_like(sessions), sessions - 1, sessions * (sessions - 1)], axis=1)
    used = [0, 1, 2]
    while True:
        solved = np.zeros(3)
        solved[used] = np.linalg.lstsq(terms[:, used] / wanted[:, None], np.ones_like(wanted), rcond=None)[0]
        below = [term for term in used[1:] if solved[term] < 0]
        if not below:
            break
        used.remove(min(below, key=lambda term: solved[term]))
    return Scaling(float(1 / solved[0]), float(solved[1] / solved[0]), float(solved[2] / solved[0]))
