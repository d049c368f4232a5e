"""`cold`: queries with empty, scarce and hot caches, and the effect of reading ahead."""

from pagehop_lab.suites.cold.tables import sections
from pagehop_lab.suites.engines import EnginesSuite

SUITE = EnginesSuite("cold", sections)
