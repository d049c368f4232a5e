"""Every suite, by its name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from pagehop_lab.plan.tables import PlanError, choose
from pagehop_lab.suites import calibration, cold, concurrency, equal_recall, phases
from pagehop_lab.suites.attributes import Attributes
from pagehop_lab.suites.inserts import Inserts
from pagehop_lab.suites.log_writes import LogWrites
from pagehop_lab.suites.oltp import Oltp
from pagehop_lab.suites.point_reads import PointReads
from pagehop_lab.suites.servers import ServersSuite
from pagehop_lab.suites.suite import Suite
from pagehop_lab.suites.vector_inserts import VectorInserts
from pagehop_lab.suites.vector_writers import VectorWriters

_OF_ENGINES = tuple(one.SUITE for one in (equal_recall, concurrency, cold, phases, calibration))
OF_SERVERS: Mapping[str, ServersSuite[Any]] = {
    one.name: one
    for one in (Oltp(), Inserts(), VectorInserts(), VectorWriters(), Attributes(), PointReads(), LogWrites())
}
SUITES: Mapping[str, Suite[Any]] = {one.name: one for one in _OF_ENGINES} | dict(OF_SERVERS)


def suite_of(text: str) -> Suite[Any]:
    """The suite that a plan names, `equal-recall` by default. PlanError if there is none."""
    try:
        named = tomllib.loads(text).get("suite", equal_recall.SUITE.name)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"this is not TOML: {error}") from None
    return SUITES[choose("suite", str(named), SUITES)]
