"""Makes the site: a copy of each run with a new report, and the pages that lead to them."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path

from pagehop_lab import report
from pagehop_lab.plan import PlanError
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

    Returns their number. The folder is replaced when the new one is complete. A run that cannot be
    read is reported, and listed with the reason. StoreError if there is no run that can be read, if
    two runs have one name, or if `into` is not a site.
    """
    found, into = _runs(folders), into.resolve()
    try:
        if into.exists() and not into.is_dir():
            raise StoreError(f"{into} is a file: give a folder that is new or empty")
        if into.exists() and any(into.iterdir()) and not (into / _MADE_HERE).exists():
            raise StoreError(f"{into} exists and is not a site of the lab: give a folder that is new or empty")
        into.parent.mkdir(parents=True, exist_ok=True)
        with _scratch(into) as scratch:
            (scratch / PAIRS).mkdir()
            (scratch / _MADE_HERE).touch()
            shown, unread = _copies(found, scratch / RUNS, say)
            _write(scratch, shown, unread)
            _replace(into, scratch)
    except OSError as error:
        raise StoreError(f"cannot write the site to {into}: {error.strerror or error}") from error
    return len(shown)


@contextlib.contextmanager
def _scratch(into: Path) -> Iterator[Path]:
    """A folder beside `into` for a site that is not complete. Those of killed processes go."""
    prefix = f"{_UNFINISHED}-{into.name}-"
    for left in into.parent.glob(f"{glob.escape(prefix)}*"):
        process = left.name.removeprefix(prefix).partition("-")[0]
        if process.isdigit() and not Path("/proc", process).exists():
            shutil.rmtree(left, ignore_errors=True)
    # Another lab may make the same site at this time.
    scratch = Path(tempfile.mkdtemp(dir=into.parent, prefix=f"{prefix}{os.getpid()}-"))
    try:
        scratch.chmod(0o755)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _replace(into: Path, scratch: Path) -> None:
    """Puts a complete site in its place. A folder that exists stays: a shell may be in it."""
    into.mkdir(exist_ok=True)
    for old in into.iterdir():
        if old.name != _MADE_HERE:
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    for new in scratch.iterdir():
        new.replace(into / new.name)


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


def _copies(found: Sequence[Path], into: Path, say: Callable[[str], None]) -> tuple[list[Shown], dict[str, str]]:
    """The runs that can be read, and why others cannot be."""
    shown: list[Shown] = []
    unread: dict[str, str] = {}
    for path in found:
        target = into / path.name
        try:
            shown.append(_copied(path, target, say))
        except (PlanError, StoreError) as error:
            shutil.rmtree(target, ignore_errors=True)
            unread[path.name] = str(error).replace(str(target), str(path))
            say(f"{path.name} cannot be read: {unread[path.name]}")
    if not shown:
        raise StoreError(f"no run can be read: {next(iter(unread.values()))}")
    return shown, unread


def _copied(source: Path, target: Path, say: Callable[[str], None]) -> Shown:
    """A run for the site: its raw files without the answers, and a new report."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("report", "*.npz", LOCK))
    report.write(target, quiet=True)
    made = report.read(target)
    text = page(made.head, made.sections, made.of_the_run, home="../../../index.html")
    (target / report.PAGE).write_text(text)
    say(f"{source.name}: {len(made.sections)} sections")
    return Shown(source.name, target, made)


def _write(site: Path, shown: Sequence[Shown], unread: Mapping[str, str]) -> None:
    """The pages that lead to the runs."""
    both = []
    for one, other in combinations(shown, 2):
        if found := pairs.shared(one.figures, other.figures):
            both.append((one.name, other.name))
            text = pages.pair((one.name, other.name), (one.report, other.report), found)
            (site / PAIRS / f"{one.name}--{other.name}.html").write_text(text)
    entries = [pages.Entry(run.name, run.report) for run in shown]
    every = [contest for run in shown for contest in contests(run.name, run.figures)]
    (site / "index.html").write_text(pages.index(entries, every, both, unread))
    (site / "method.html").write_text(pages.method())
    (site / "mistakes.html").write_text(mistakes.page())
