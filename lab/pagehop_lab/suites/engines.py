"""Suites of engines with indexes: one schema of plans, and one runner.

Each folder has the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pagehop_lab.analysis.aims import FIGURES
from pagehop_lab.engines.catalog import CATALOG
from pagehop_lab.plan import Plan, grid, read_text
from pagehop_lab.run.runner import Runner
from pagehop_lab.store import RunFolder
from pagehop_lab.suites import aims, every_suite
from pagehop_lab.suites.gather import gather
from pagehop_lab.suites.head import head_of
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.suite import ONE_REPEAT, Report, Run
from pagehop_lab.suites.table import Section

_HOW = (
    "Recall and time come from the same requests. Every request is in a raw file, with its latency and the returned "
    "ids; each figure links to the file. A figure is invalid, and compared with nothing, if a request failed, rows "
    "were missing, the index was not used, the client was busy for more than half of the time, the offered rate was "
    "not reached, or the cache was not in the stated condition. A measurement that was invalid because of its client "
    "or its cache, which may be a passing condition, was repeated, three times at most. All attempts are kept, and "
    "the last one with a figure counts."
)


@dataclass(frozen=True)
class EnginesSuite:
    """A suite whose plans name sets and engines."""

    name: str
    sections: Callable[[Results], list[Section]]
    """Tables and charts of what was measured."""
    how: str = _HOW
    """How the suite measures, for the page."""
    ratios: bool = False
    """Whether the page has ratios of engines, which are inconclusive with one repeat."""

    def read(self, text: str, name: str) -> Plan:
        """The plan of a text."""
        return read_text(text, name)

    def amount(self, plan: Plan) -> str:
        """How much a plan is."""
        load = plan.load
        points = len(list(grid.everything(plan, partial(grid.most_picked, plan))))
        least = points * (load.seconds + load.warmup_s) / 60
        about, bound = ("at most ", "about") if load.around_targets else ("", "at least")
        return f"{about}{points:,} points, {bound} {least:,.0f} minutes of searches; builds come on top"

    def warnings(self, plan: Plan) -> Sequence[str]:
        """Whether all ratios will be uncertain."""
        if plan.load.repeats * plan.load.rebuilds > 1:
            return []
        beside = self.ratios and len(plan.engines) > 1
        timed = (one for one in plan.aims if not FIGURES[one.figure].is_counted)
        return [ONE_REPEAT] if beside or any(one.over or one.over_dataset for one in timed) else []

    def absent(self, plan: Plan) -> Sequence[str]:
        """Files of sets that are missing."""
        paths = [path for one in plan.datasets for path in (one.path, one.queries_path) if path is not None]
        return [f"dataset: there is no file {path}" for path in paths if not Path(path).is_file()]

    def run(self, run: Run[Plan]) -> None:
        """Measures everything that is not in the folder yet."""
        Runner(run.plan, run.folder, run.progress, run.machine, CATALOG, list(run.engines), retry=run.retry).run()

    def report(self, folder: RunFolder) -> Report:
        """What a run says."""
        results = self.results(folder)
        aimed = aims.table([results])
        sections = [Section("What was to be reached", tables=[aimed])] if aimed is not None else []
        sections += self.sections(results)
        of_the_run = [every_suite.coverage(results), every_suite.engines(results)]
        return Report(head_of(results, self.how, sections), results.about, sections, of_the_run, results)

    def results(self, folder: RunFolder) -> Results:
        """What was measured."""
        plan = self.read(folder.plan, folder.path.name)
        return gather(folder, plan, folder.machine["kind"])
