"""The load of a measurement, in a form that can be sent to the process of the client."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Ask:
    """The load of one point."""

    k: int
    sessions: int
    rate: float | None
    seconds: float
    seconds_max: float
    warmup_s: float
    one_core: bool
    cold_queries: int | None = None
    """Number of queries in the suite `cold`; None to ask until the time is over, warmed up."""
    cache: str = "cold"
    """With `cold_queries`: `cold`, `limited`, `warm`, `hot` or `fresh`, as plans say it."""
    memory_mib: int = 0
    """Memory of the engine if caches are `limited`, in MiB."""
    batch: int = 1
    """Queries of one call of a library."""
    threads: int = 1
    """Threads that answer one call of a library."""
    matching: float = 1.0
    """Share of the rows that a filter leaves."""
    insert_rate: float = 0.0
    """Rows a second that are inserted during the measurement."""
    profile_s: float = 0.0
    """Seconds for which the queries are repeated to profile the engine; 0 means no profile."""

    def count(self, qps: float, queries: int) -> int:
        """Requests of a measurement, by the speed of the warm-up: whole passes if possible."""
        if self.rate:
            return max(1, math.ceil(self.rate * self.seconds))
        if queries > qps * self.seconds_max:
            return max(1, int(qps * self.seconds_max))
        return queries * max(1, math.ceil(self.seconds * qps / queries))
