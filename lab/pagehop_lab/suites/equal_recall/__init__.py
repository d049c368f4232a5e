"""`equal-recall`: the index and settings with the most queries a second at a recall."""

from pagehop_lab.suites.engines import EnginesSuite
from pagehop_lab.suites.equal_recall.tables import sections

SUITE = EnginesSuite("equal-recall", sections, ratios=True)
