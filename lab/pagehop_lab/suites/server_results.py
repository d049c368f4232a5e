"""A run of servers in the form for suites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from pagehop_lab.analysis.coverage import Coverage
from pagehop_lab.analysis.server_records import CaseRecord, LoadedRecord
from pagehop_lab.analysis.turns import Run, run_of
from pagehop_lab.plan.servers import ServerAim

R = TypeVar("R", bound=CaseRecord)
R_co = TypeVar("R_co", bound=CaseRecord, covariant=True)


@dataclass(frozen=True)
class Measured(Generic[R_co]):
    """One test of one server, once."""

    server: str
    case: str
    repeat: int
    qps: float
    wrong: tuple[str, ...]
    noted: tuple[str, ...]
    file: str
    raw: R_co

    @property
    def valid(self) -> bool:
        """Whether the figure may be compared."""
        return not self.wrong

    @property
    def run(self) -> Run:
        """What it was measured with; tests of one run make pairs."""
        return run_of(self.raw, repeat=self.repeat)

    @property
    def verdict(self) -> str:
        """The reasons why the figure is invalid, or the notes on it."""
        return "; ".join(self.wrong or self.noted) or "valid"


@dataclass(frozen=True)
class ServerFacts:
    """The facts about a server in this run."""

    name: str
    version: str | None
    settings: Mapping[str, str]
    failed: str | None
    """Why it does not run here."""
    loads: Sequence[LoadedRecord]
    """Measurements of the preparations before the tests, in each repeat."""


@dataclass(frozen=True)
class Published:
    """Figures of another study for a version, by test."""

    product: str
    version: str
    source: str
    """The name of the file with the figures."""
    qps: Mapping[str, float]
    file: str
    """The lab's raw file with the figures."""


@dataclass(frozen=True)
class ServerResults(Generic[R_co]):
    """Everything that a run measured; a suite has records of its own."""

    name: str
    suite: str
    seed: int
    base: str
    machine: Mapping[str, Any]
    load: Mapping[str, Any]
    groups: Mapping[str, str]
    """The group of each test, in the order of the tests."""
    servers: Sequence[ServerFacts]
    measured: Sequence[Measured[R_co]]
    coverage: Coverage
    damaged: Sequence[str]
    made_by: str
    """The commits of the lab that measured the run, if they are known."""
    again: int
    """Measurements that were made more than once; the last one with a figure counts."""
    aims: Sequence[ServerAim] = ()
    once: Sequence[str] = ()
    """Cases that were measured in the first repeat only."""
    published: Sequence[Published] = ()
    """Published figures that were imported, to be shown beside the run's."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing failed or is missing, and something is valid."""
        whole = self.coverage.complete and not self.coverage.failed and not self.damaged
        return whole and any(one.valid for one in self.measured)

    @property
    def sound(self) -> bool:
        """Whether everything was measured and all of it is valid."""
        return self.is_whole and all(one.valid for one in self.measured)

    @property
    def about(self) -> dict[str, object]:
        """What the run is about."""
        names = ("name", "suite", "machine", "load", "seed", "base")
        return {name: getattr(self, name) for name in names}

    def of(self, server: str, case: str) -> list[Measured[R_co]]:
        """Valid repeats of one test of one server."""
        return list(self._valid.get((server, case), ()))

    @cached_property
    def _valid(self) -> Mapping[tuple[str, str], Sequence[Measured[R_co]]]:
        """The valid repeats by server and test: the tables of a report ask for them often."""
        found: dict[tuple[str, str], list[Measured[R_co]]] = {}
        for one in self.measured:
            if one.valid:
                found.setdefault((one.server, one.case), []).append(one)
        return found

    @property
    def names(self) -> list[str]:
        """Servers with any measurement, in the order of the plan."""
        seen = {one.server for one in self.measured}
        return [facts.name for facts in self.servers if facts.name in seen]


AnyServers = ServerResults[CaseRecord]
"""A run of any suite of servers."""
