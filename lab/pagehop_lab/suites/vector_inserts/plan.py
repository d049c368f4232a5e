"""The load of a plan of vector inserts."""

from __future__ import annotations

from dataclasses import dataclass

from pagehop_lab.suites.inserts.plan import InsertsLoad


@dataclass(frozen=True)
class VectorLoad(InsertsLoad):
    """The length of each step, the size of the table, and its vectors."""

    rows: int = 20_000
    dataset: str = "generated-384"
    queries: int = 1000
