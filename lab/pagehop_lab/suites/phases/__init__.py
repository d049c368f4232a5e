"""`phases`: load, index, serial and concurrent search, and the CPU and disk use of each phase."""

from pagehop_lab.suites.engines import EnginesSuite
from pagehop_lab.suites.phases.tables import sections

SUITE = EnginesSuite("phases", sections)
