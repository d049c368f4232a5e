"""Everything that a run says, written beside its raw files and printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pagehop_lab.plan import read_text
from pagehop_lab.report import files, terminal
from pagehop_lab.report.gather import Descriptions, gather
from pagehop_lab.report.page import page
from pagehop_lab.store import RunFolder, StoreError
from pagehop_lab.suites import agreement, cold, concurrency, equal_recall, every_suite, phases
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Section

PAGE = Path("report") / "index.html"

SUITES: Mapping[str, Callable[[Results], list[Section]]] = {
    "equal-recall": equal_recall.sections,
    "concurrency": concurrency.sections,
    "cold": cold.sections,
    "phases": phases.sections,
}


def write(path: Path, *, quiet: bool, descriptions: Descriptions | None = None) -> Results:
    """Writes the report of the run at `path`, and prints its tables unless `quiet`."""
    results = _read(path, descriptions)
    sections = SUITES[results.suite](results)
    of_the_run = [every_suite.coverage(results), every_suite.engines(results)]
    target = path / PAGE.parent
    try:
        target.mkdir(exist_ok=True)
        for table in [*(table for section in sections for table in section.tables), *of_the_run]:
            _replace(target / f"{table.name}.csv", files.as_csv(table))
        _replace(target / "tables.json", files.as_json(results, sections, of_the_run))
        _replace(path / PAGE, page(results, sections, of_the_run))
    except OSError as error:
        raise StoreError(f"cannot write the report to {target}: {error.strerror or error}") from error
    if not quiet:
        for section in sections:
            print(f"\n{terminal.lines(section)}")
        for table in of_the_run:
            print(f"\n{terminal.text(table)}\n  {table.note}")
    return results


def compare(first: Path, second: Path, descriptions: Descriptions | None = None) -> dict[str, int]:
    """Prints and writes beside the second run whether it agrees with the first; how many figures do and do not."""
    one, other = (_read(path, descriptions) for path in (first, second))
    table, counts = agreement.agreement(one, other)
    table = replace(table, name=f"agreement-with-{first.resolve().name}")
    target = second / PAGE.parent / f"{table.name}.csv"
    try:
        target.parent.mkdir(exist_ok=True)
        _replace(target, files.as_csv(table))
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror or error}") from error
    print(f"{terminal.text(table)}\n  {table.note}")
    for told in agreement.differences(one, other):
        print(f"  not alike: {told}")
    return counts


def _read(path: Path, descriptions: Descriptions | None) -> Results:
    folder = RunFolder(path)
    return gather(folder, read_text(folder.plan, path.name), folder.machine["kind"], descriptions)


def _replace(path: Path, text: str) -> None:
    """A file that is always whole."""
    unfinished = path.with_name(f".unfinished-{path.name}")
    unfinished.write_text(text)
    unfinished.replace(path)
