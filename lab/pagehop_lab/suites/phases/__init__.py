"""`phases`: load, index, search by one and by many, and what each phase asks of CPU and disk."""

from pagehop_lab.suites.engines import EnginesSuite
from pagehop_lab.suites.phases.tables import sections

SUITE = EnginesSuite("phases", sections)
