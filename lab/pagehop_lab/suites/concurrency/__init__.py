"""`concurrency`: what sessions do to throughput, on one fixed index and setting of each engine."""

from __future__ import annotations

from typing import ClassVar

from pagehop_lab.suites.concurrency import tables
from pagehop_lab.suites.engines import EnginesSuite
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Section


class Concurrency(EnginesSuite):
    """The suite."""

    name: ClassVar = "concurrency"

    def sections(self, results: Results) -> list[Section]:
        return tables.sections(results)
