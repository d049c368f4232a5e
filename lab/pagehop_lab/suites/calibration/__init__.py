"""Whether a recall that is asked for is found by queries that the index has never seen, and at which price."""

from pagehop_lab.suites.calibration.tables import sections
from pagehop_lab.suites.engines import EnginesSuite

SUITE = EnginesSuite("calibration", sections)
