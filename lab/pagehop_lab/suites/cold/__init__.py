"""`cold`: queries with empty, scarce and hot caches, and what reading ahead makes of them."""

from __future__ import annotations

from typing import ClassVar

from pagehop_lab.suites.cold import tables
from pagehop_lab.suites.engines import EnginesSuite
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Section


class Cold(EnginesSuite):
    """The suite."""

    name: ClassVar = "cold"

    def sections(self, results: Results) -> list[Section]:
        return tables.sections(results)
