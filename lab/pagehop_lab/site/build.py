"""Makes the site: a copy of each run with a new report, and the pages that lead to them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path

from pagehop_lab import report
from pagehop_lab.report.page import page
from pagehop_lab.site import mistakes, pages, pairs
from pagehop_lab.site.figures import Figure, figures_of
from pagehop_lab.site.summary import contests
from pagehop_lab.store import LOCK, StoreError
from pagehop_lab.suites.suite import Report

_MADE_HERE = ".pagehop-lab-site"
_UNFINISHED = ".unfinished"
RUNS, PAIRS = "runs", "pairs"


@dataclass(frozen=True)
class Shown:
    """A run of the site."""

    name: str
    path: Path
    report: Report

    @cached_property
    def figures(self) -> list[Figure]:
        """All figures of the run that may be compared."""
        return figures_of(self.report.results)


def build(folders: Sequence[Path], into: Path, say: Callable[[str], None]) -> int:
    """Makes the site of all runs in `folders` (runs, or folders of runs) at `into`.

    Returns their number. The folder is replaced when the new one is complete. StoreError if there
    is no run, if two runs have one name, or if `into` is not a site.
    """
    found = _runs(folders)
    if into.exists() and any(into.iterdir()) and not (into / _MADE_HERE).exists():
        raise StoreError(f"{into} exists and is not a site of the lab: give a folder that is new or empty")
    scratch = into.with_name(f"{_UNFINISHED}-{into.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        (scratch / PAIRS).mkdir(parents=True)
        (scratch / _MADE_HERE).touch()
        shown = [_copied(path, scratch / RUNS / path.name, say) for path in found]
        _write(scratch, shown)
        shutil.rmtree(into, ignore_errors=True)
        scratch.rename(into)
    except OSError as error:
        raise StoreError(f"cannot write the site to {into}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return len(shown)


def _runs(folders: Sequence[Path]) -> list[Path]:
    found = []
    for folder in folders:
        inside = [folder] if _is_run(folder) else sorted(path for path in _children(folder) if _is_run(path))
        if not inside:
            raise StoreError(f"there is no run in {folder}")
        found += inside
    names = [path.resolve().name for path in found]
    for name in names:
        if names.count(name) > 1:
            raise StoreError(f"two runs are called {name}: rename the folder of one")
    return [path.resolve() for path in found]


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise StoreError(f"cannot read {folder}: {error.strerror or error}") from None


def _is_run(path: Path) -> bool:
    return (path / "machine.json").is_file()


def _copied(source: Path, target: Path, say: Callable[[str], None]) -> Shown:
    """A run for the site: its raw files without the answers, and a new report."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("report", "*.npz", LOCK))
    report.write(target, quiet=True)
    made = report.read(target)
    text = page(made.head, made.sections, made.of_the_run, home="../../../index.html")
    (target / report.PAGE).write_text(text)
    say(f"{source.name}: {len(made.sections)} sections")
    return Shown(source.name, target, made)


def _write(site: Path, shown: Sequence[Shown]) -> None:
    """The pages that lead to the runs."""
    both = []
    for one, other in combinations(shown, 2):
        if found := pairs.shared(one.figures, other.figures):
            both.append((one.name, other.name))
            text = pages.pair((one.name, other.name), (one.report, other.report), found)
            (site / PAIRS / f"{one.name}--{other.name}.html").write_text(text)
    entries = [pages.Entry(run.name, run.report) for run in shown]
    every = [contest for run in shown for contest in contests(run.name, run.figures)]
    (site / "index.html").write_text(pages.index(entries, every, both))
    (site / "method.html").write_text(pages.method())
    (site / "mistakes.html").write_text(mistakes.page())
