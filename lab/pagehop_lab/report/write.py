"""Everything that a run says, written beside its raw files and printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pagehop_lab.plan import read_text
from pagehop_lab.plan.servers import is_servers_plan, read_servers
from pagehop_lab.report import files, terminal
from pagehop_lab.report.gather import Descriptions, gather
from pagehop_lab.report.gather_servers import gather_servers, servers_head
from pagehop_lab.report.page import Head, head_of, page
from pagehop_lab.store import RunFolder, StoreError
from pagehop_lab.suites import (
    agreement,
    aims,
    attributes,
    calibration,
    cold,
    concurrency,
    equal_recall,
    every_suite,
    inserts,
    log_writes,
    oltp,
    phases,
    point_reads,
    vector_inserts,
)
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.server_results import ServerResults
from pagehop_lab.suites.table import Section, Table

PAGE = Path("report") / "index.html"

ServerSuite = tuple[Callable[[ServerResults], list[Section]], Callable[[ServerResults], list[Table]]]

SUITES: Mapping[str, Callable[[Results], list[Section]]] = {
    "equal-recall": equal_recall.sections,
    "concurrency": concurrency.sections,
    "cold": cold.sections,
    "phases": phases.sections,
    "calibration": calibration.sections,
}
SERVER_SUITES: Mapping[str, ServerSuite] = {
    "oltp": (oltp.sections, oltp.of_the_run),
    "attributes": (attributes.sections, attributes.of_the_run),
    "inserts": (inserts.sections, inserts.of_the_run),
    "log-writes": (log_writes.sections, log_writes.of_the_run),
    "point-reads": (point_reads.sections, point_reads.of_the_run),
    "vector-inserts": (vector_inserts.sections, vector_inserts.of_the_run),
}


@dataclass(frozen=True)
class _Report:
    """Everything that is to be written."""

    head: Head
    about: Mapping[str, Any]
    sections: list[Section]
    of_the_run: list[Table]


def write(path: Path, *, quiet: bool, as_parquet: bool = False, descriptions: Descriptions | None = None) -> Results:
    """Writes the report of the run at `path`, tables as Parquet, too, if wanted, and prints them unless `quiet`."""
    results = _read(path, descriptions)
    of_the_run = [every_suite.coverage(results), every_suite.engines(results)]
    aimed = aims.table([results])
    sections = [Section("What was to be reached", tables=[aimed])] if aimed is not None else []
    sections += SUITES[results.suite](results)
    report = _Report(head_of(results), files.about(results), sections, of_the_run)
    _write(path, report, quiet=quiet, as_parquet=as_parquet)
    return results


def write_servers(path: Path, *, quiet: bool, as_parquet: bool = False) -> ServerResults:
    """The same for a run of servers."""
    folder = RunFolder(path)
    plan = read_servers(folder.plan, path.name)
    results = gather_servers(folder, plan, folder.machine["kind"])
    sections, of_the_run = SERVER_SUITES[plan.suite]
    report = _Report(servers_head(results), results.about, sections(results), of_the_run(results))
    _write(path, report, quiet=quiet, as_parquet=as_parquet)
    return results


def is_of_servers(path: Path) -> bool:
    """Whether the run at `path` is one of servers."""
    return is_servers_plan(RunFolder(path).plan)


def suite_of(path: Path) -> str:
    """The suite of the run at `path`."""
    plan = RunFolder(path).plan
    return read_servers(plan, path.name).suite if is_servers_plan(plan) else read_text(plan, path.name).suite


def _write(path: Path, report: _Report, *, quiet: bool, as_parquet: bool) -> None:
    target = path / PAGE.parent
    tables = [*(table for section in report.sections for table in section.tables), *report.of_the_run]
    try:
        target.mkdir(exist_ok=True)
        for table in tables:
            _replace(target / f"{table.name}.csv", files.as_csv(table))
            if as_parquet:
                files.write_parquet(table, target / f"{table.name}.parquet")
        _replace(target / "tables.json", files.as_json(report.about, report.sections, report.of_the_run))
        _replace(path / PAGE, page(report.head, report.sections, report.of_the_run))
    except OSError as error:
        raise StoreError(f"cannot write the report to {target}: {error.strerror or error}") from error
    except ImportError as error:
        raise StoreError(f"Parquet is written by a package that is missing: pip install pyarrow ({error})") from None
    if not quiet:
        for section in report.sections:
            print(f"\n{terminal.lines(section)}")
        for table in report.of_the_run:
            print(f"\n{terminal.text(table)}\n  {table.note}")


def together(paths: Sequence[Path], descriptions: Descriptions | None = None) -> str | None:
    """The aims of several runs in one table, for a terminal; None if they have none."""
    table = aims.table([_read(path, descriptions) for path in paths if not is_of_servers(path)])
    return None if table is None else f"{terminal.text(table)}\n  {table.note}"


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
