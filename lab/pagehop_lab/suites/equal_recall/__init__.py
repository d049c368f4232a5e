"""`equal-recall`: which index, with which settings, gives the most queries at a recall, and what it costs."""

from pagehop_lab.suites.engines import EnginesSuite
from pagehop_lab.suites.equal_recall.tables import sections

SUITE = EnginesSuite("equal-recall", sections)
