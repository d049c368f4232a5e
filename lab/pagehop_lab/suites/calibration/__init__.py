"""Whether a recall that is asked for is found by queries that the index has never seen, and at which price."""

from __future__ import annotations

from typing import ClassVar

from pagehop_lab.suites.calibration import tables
from pagehop_lab.suites.engines import EnginesSuite
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Section


class Calibration(EnginesSuite):
    """The suite."""

    name: ClassVar = "calibration"

    def sections(self, results: Results) -> list[Section]:
        return tables.sections(results)
