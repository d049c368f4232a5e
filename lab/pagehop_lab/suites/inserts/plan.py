"""The load of a plan of inserts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pagehop_lab.measure.inserts import BESIDE_ROWS
from pagehop_lab.plan.load import ServersLoad
from pagehop_lab.plan.tables import Table


@dataclass(frozen=True)
class InsertsLoad(ServersLoad):
    """The length of each step of the Insert Benchmark, and the size of its table."""

    rows: int = 200_000
    seconds: float = 20.0
    repeats: int = 1
    commit_rows: int = BESIDE_ROWS
    """Rows of a commit beside queries."""

    later: ClassVar = ServersLoad.later | {"commit_rows"}


def commit_rows(table: Table) -> int:
    """Rows of a commit beside queries, as a plan says them."""
    return table.take("commit_rows", int, BESIDE_ROWS, least=1)
