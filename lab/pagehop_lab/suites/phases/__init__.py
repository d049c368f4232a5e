"""`phases`: load, index, search by one and by many, and what each phase asks of CPU and disk."""

from __future__ import annotations

from typing import ClassVar

from pagehop_lab.suites.engines import EnginesSuite
from pagehop_lab.suites.phases import tables
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Section


class Phases(EnginesSuite):
    """The suite."""

    name: ClassVar = "phases"

    def sections(self, results: Results) -> list[Section]:
        return tables.sections(results)
