"""`concurrency`: throughput by sessions, on one fixed index and setting of each engine."""

from pagehop_lab.suites.concurrency.tables import sections
from pagehop_lab.suites.engines import EnginesSuite

SUITE = EnginesSuite("concurrency", sections, ratios=True)
