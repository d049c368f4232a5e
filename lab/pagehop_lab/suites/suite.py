"""A suite: the schema of its plans, their runner, and the tables and charts of the results.

Each suite is a folder here, whose `__init__.py` has an object of this type. `catalog.py` lists
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pagehop_lab.plan import Plan
from pagehop_lab.plan.servers import ServersPlan
from pagehop_lab.run.progress import Progress
from pagehop_lab.store import RunFolder
from pagehop_lab.suites.head import Head
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.server_results import AnyServers
from pagehop_lab.suites.table import Section, Table

ONE_REPEAT = "load.repeats = 1: one repeat does not show its spread, so every ratio will have a ?; set 3"
"""A warning of plans."""

AnyResults = Results | AnyServers
P = TypeVar("P", bound=Plan | ServersPlan)


@dataclass(frozen=True)
class Report:
    """Everything that a run says."""

    head: Head
    about: Mapping[str, object]
    sections: Sequence[Section]
    of_the_run: Sequence[Table]
    """Missing measurements, and all measurements."""
    results: AnyResults


@dataclass(frozen=True)
class Run(Generic[P]):
    """A run that is to be carried out."""

    plan: P
    folder: RunFolder
    progress: Progress
    machine: str
    """The kind of this machine."""
    retry: bool = False
    """Whether failed measurements are repeated; for servers, invalid ones, too."""
    engines: Sequence[Path] = ()
    """Folders of Python files with more engines."""


class Suite(Protocol[P]):
    """A suite. `P` is the type of its plans."""

    @property
    def name(self) -> str: ...

    @property
    def how(self) -> str:
        """How the suite measures, for pages."""

    def read(self, text: str, name: str) -> P:
        """Reads the text of a plan.

        `name` is the plan's name if it has none. PlanError if something is wrong.
        """

    def amount(self, plan: P) -> str:
        """The size of a plan, in a sentence."""

    def warnings(self, plan: P) -> Sequence[str]:
        """What a plan measures in vain."""

    def absent(self, plan: P) -> Sequence[str]:
        """Names in a plan that are not available here, found without fetching anything."""

    def run(self, run: Run[P]) -> None:
        """Measures everything that is not in the folder yet. RunError if it cannot begin."""

    def report(self, folder: RunFolder) -> Report:
        """The report of a run, from its raw files. StoreError if they cannot be read."""
