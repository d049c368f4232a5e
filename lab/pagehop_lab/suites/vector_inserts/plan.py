"""The load of a plan of vector inserts."""

from __future__ import annotations

from dataclasses import dataclass

from pagehop_lab.suites.inserts.plan import InsertsLoad


@dataclass(frozen=True)
class VectorLoad(InsertsLoad):
    """How long each step is, how large the table, and which vectors are in it."""

    rows: int = 20_000
    dataset: str = "generated-384"
    queries: int = 1000
