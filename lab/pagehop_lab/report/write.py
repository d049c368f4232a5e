"""Writes the report of a run beside its raw files, and prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pagehop_lab.report import files, terminal
from pagehop_lab.report.page import page
from pagehop_lab.store import RunFolder, StoreError
from pagehop_lab.suites import agreement, aims, catalog
from pagehop_lab.suites.agreement import Agreement
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.server_results import ServerResults
from pagehop_lab.suites.suite import AnyResults, Report

PAGE = Path("report") / "index.html"


def write(path: Path, *, quiet: bool, as_parquet: bool = False) -> AnyResults:
    """Writes the report of the run at `path` and prints its tables unless `quiet`.

    Parquet is optional.
    """
    report = read(path)
    _write(path, report, quiet=quiet, as_parquet=as_parquet)
    return report.results


def read(path: Path) -> Report:
    """The report of the run at `path`."""
    folder = RunFolder(path)
    return catalog.suite_of(folder.plan).report(folder)


def _write(path: Path, report: Report, *, quiet: bool, as_parquet: bool) -> None:
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


def together(paths: Sequence[Path]) -> str | None:
    """The aims of several runs in one table, for a terminal; None if they have none."""
    every = [results for path in paths if isinstance(results := read(path).results, Results)]
    table = aims.table(every)
    return None if table is None else f"{terminal.text(table)}\n  {table.note}"


def compare(first: Path, second: Path) -> Agreement:
    """Compares two runs. Prints the result and writes it beside the second run.

    StoreError if one has engines and the other servers, or servers of another suite.
    """
    one, other = (read(path).results for path in (first, second))
    found = _agreement(one, other)
    table = replace(found.table, name=f"agreement-with-{first.resolve().name}")
    target = second / PAGE.parent / f"{table.name}.csv"
    try:
        target.parent.mkdir(exist_ok=True)
        _replace(target, files.as_csv(table))
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror or error}") from error
    print(f"{terminal.text(table)}\n  {table.note}")
    for told in agreement.differences(one, other):
        print(f"  not alike: {told}")
    return found


def _agreement(one: AnyResults, other: AnyResults) -> Agreement:
    if isinstance(one, Results) and isinstance(other, Results):
        return agreement.agreement(one, other)
    if isinstance(one, ServerResults) and isinstance(other, ServerResults) and one.suite == other.suite:
        return agreement.agreement_of_servers(one, other)
    raise StoreError(f"a run of {one.suite} and one of {other.suite} have no figures in common")


def _replace(path: Path, text: str) -> None:
    """Replaces a file atomically."""
    unfinished = path.with_name(f".unfinished-{path.name}")
    unfinished.write_text(text)
    unfinished.replace(path)
