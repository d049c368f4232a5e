"""Whether queries that the index has never seen find the requested recall, and at which cost."""

from pagehop_lab.suites.calibration.tables import sections
from pagehop_lab.suites.engines import EnginesSuite

SUITE = EnginesSuite("calibration", sections)
