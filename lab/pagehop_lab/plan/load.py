"""What every load of servers says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServersLoad:
    """How tests are asked and how often."""

    rows: int = 100_000
    clients: int = 1
    seconds: float = 1.0
    warmup_s: float = 0.3
    repeats: int = 3
    """Each has new servers and new data. Every other one goes in reverse order."""
    rounds: int = 1
    """In each round all servers run in turns, each for its part of `seconds`.

    With 1, one after another.
    """
    load_timeout_s: float = 600.0
