"""Runs of plans with fake engines, for tests."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import fakes
from pagehop_lab import report
from pagehop_lab.analysis.coverage import coverage
from pagehop_lab.analysis.points import Point
from pagehop_lab.data import sets
from pagehop_lab.engines.catalog import CATALOG
from pagehop_lab.plan import Plan, read_text
from pagehop_lab.plan.servers import ServersPlan
from pagehop_lab.run.progress import Progress
from pagehop_lab.run.runner import Runner
from pagehop_lab.store import RunFolder
from pagehop_lab.suites.catalog import OF_SERVERS, suite_of
from pagehop_lab.suites.results import Build, EngineFacts, Results
from pagehop_lab.suites.server_results import ServerResults
from pagehop_lab.suites.servers import ServersSuite

MACHINE = {
    "cpu": "a test", "cores": 2, "memory_gib": 1.0, "kernel": "6", "python": "3", "simd": [], "kind": "test",
}  # fmt: skip

SMALL = """
[[dataset]]
name = "generated-16"
rows = 2000
queries = 60
"""
QUICK = "seconds = 0.02\nwarmup_s = 0.01\nsearch_timeout_s = 20\n"


@contextmanager
def fake_engines(data: Path) -> Iterator[None]:
    """Plans in the block may name the fake engines. Sets are kept in `data`."""
    with patch.dict(CATALOG, fakes.BY_NAME), patch.dict("os.environ", {sets.VARIABLE: str(data)}):
        yield


def plan_of(*engines: str, load: str = QUICK + "repeats = 1\n", more: str = "", dataset: str = SMALL) -> str:
    """The text of a plan."""
    named = "".join(f'[[engine]]\nname = "{name}"\n' for name in engines)
    return f"{more}\n[load]\n{load}\n{dataset}\n{named}"


def run(text: str, folder: Path, **more: Any) -> tuple[Results, str]:
    """Runs a plan. Returns its results, and the text that the run printed."""
    plan, said = read_text(text, "test"), io.StringIO()
    with RunFolder.writing(folder, plan.text, MACHINE) as into:
        Runner(plan, into, Progress(said), "test", CATALOG, [Path(__file__).parent], **more).run()
    return of_engines(folder), said.getvalue()


def of_engines(folder: Path) -> Results:
    """The results of a run of engines. This also writes its report."""
    results = report.write(folder, quiet=True)
    assert isinstance(results, Results)
    return results


def server_results(folder: Path) -> ServerResults[Any]:
    """The results of a run of servers. This also writes its report."""
    results = report.write(folder, quiet=True)
    assert isinstance(results, ServerResults)
    return results


def raw(of: Point | Build) -> Any:
    """What was measured, without its types: a test knows which fields are there."""
    return of.raw


def read_servers(text: str, name: str) -> ServersPlan:
    suite = suite_of(text)
    assert isinstance(suite, ServersSuite)
    return suite.read(text, name)


def needed_bytes(plan: ServersPlan) -> int:
    """Bytes on disk that a plan reports to need."""
    return OF_SERVERS[plan.suite].needed_bytes(plan)


def results_of(
    plan: Plan,
    points: Sequence[Point],
    builds: Sequence[Build] = (),
    sets: Mapping[str, Any] | None = None,
    engines: Sequence[EngineFacts] = (),
) -> Results:
    """Made-up points as the results of a plan."""
    facts = {one.name: {"rows": 1000} for one in plan.datasets} if sets is None else sets
    return Results(
        plan.name, plan.suite, plan.load.k, 1, plan.recall, plan.targets, "", {}, asdict(plan.load), facts, {}, engines,
        points, (), builds, (), coverage([], [], {}), plan.aims, (), "", 0,
    )  # fmt: skip
