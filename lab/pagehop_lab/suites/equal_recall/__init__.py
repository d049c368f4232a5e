"""`equal-recall`: which index, with which settings, gives the most queries at a recall, and what it costs."""

from __future__ import annotations

from typing import ClassVar

from pagehop_lab.suites.engines import EnginesSuite
from pagehop_lab.suites.equal_recall import tables
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Section


class EqualRecall(EnginesSuite):
    """The suite."""

    name: ClassVar = "equal-recall"

    def sections(self, results: Results) -> list[Section]:
        return tables.sections(results)
