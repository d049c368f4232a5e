"""Tables of every suite of servers: missing and invalid measurements, servers, figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pagehop_lab.analysis.server_records import CaseRecord
from pagehop_lab.suites import every_suite
from pagehop_lab.suites.server_results import AnyServers, Measured, R, ServerFacts, ServerResults
from pagehop_lab.suites.table import Cell, Table, brief


def missing(results: AnyServers) -> Table:
    """Measurements of the plan that are missing."""
    return every_suite.not_there(results.coverage, results.damaged, str, {})


def invalid(results: AnyServers) -> Table:
    """Invalid measurements, with the reasons."""
    rows = [
        [Cell(one.server), Cell(one.case), Cell(reason, reason, one.file, "", True)]
        for one in results.measured
        for reason in one.wrong
    ]
    return Table("invalid", "Invalid", ("server", "test", "why"), rows, "None of these are compared.")


def servers(
    results: AnyServers, note: str = "", more: Mapping[str, Callable[[ServerFacts], Cell]] | None = None
) -> Table:
    """Versions and settings, and between them further facts of a suite about each server."""
    between = more or {}
    rows = []
    for facts in results.servers:
        version = Cell(facts.version or "-", facts.version)
        if facts.failed is not None:
            before = f"{facts.version}, and later: " if facts.version and facts.loads else ""
            version = Cell(before + brief(facts.failed), facts.failed, invalid=True)
        settings = " ".join(f"{name}={value}" for name, value in facts.settings.items()) or "-"
        rows.append([Cell(facts.name), version, *(of(facts) for of in between.values()), Cell(settings)])
    return Table("servers", "Servers", ("server", "version", *between, "settings"), rows, note)


def points(
    results: ServerResults[R],
    name: str,
    more: Mapping[str, Callable[[Measured[R]], Cell]],
    note: str,
    heads: tuple[str, str] = ("test", "QPS"),
) -> Table:
    """Every measurement with its verdict."""
    test, rate = heads
    rows = [
        [
            Cell(one.server), Cell(one.case), Cell.of(one.repeat + 1, "d"),
            Cell.of(one.qps, ",.1f", file=one.file, invalid=not one.valid, title=one.verdict),
            *(of(one) for of in more.values()),
            Cell(one.verdict, one.verdict, invalid=not one.valid),
        ]
        for one in results.measured
    ]  # fmt: skip
    return Table(name, "All measurements", ("server", test, "repeat", rate, *more, "verdict"), rows, note)


def valid_repeats(results: AnyServers, found: Sequence[Measured[CaseRecord]]) -> Cell:
    """Number of repeats of a figure; fewer than planned are marked."""
    planned = 1 if found and found[0].case in results.once else int(results.load["repeats"])
    return Cell(f"{len(found)} of {planned}", len(found), invalid=len(found) < planned)


PlainField = Literal[
    "count", "client_cpu_us_per_query", "client_share_of_machine", "client_share_of_core", "busy_cores", "cpu_us",
    "server_cpu_us_per_query", "server_switches_per_query", "bytes_written_per_query", "other_busy_cores",
]  # fmt: skip
"""Fields of a measurement that tables show as they are."""


def raw(name: PlainField, form: str) -> Callable[[Measured[CaseRecord]], Cell]:
    """A figure of the raw measurement."""
    return lambda one: Cell.of(one.raw[name], form)
