"""`oltp`: microbenchmarks across versions: relative throughput, its causes, its changes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pagehop_lab.analysis.changes import LEVEL, Repeats, changes_of_tests
from pagehop_lab.analysis.paired import PARTS, ROUNDS_MIN, in_parts, without_weather
from pagehop_lab.analysis.relative import by_group
from pagehop_lab.analysis.server_records import LoadedRecord, OltpRecord
from pagehop_lab.suites import beside, of_servers
from pagehop_lab.suites.of_servers import raw
from pagehop_lab.suites.oltp.cases import GROUPS
from pagehop_lab.suites.paired_servers import RatedField, over
from pagehop_lab.suites.ratios import NOTE, is_valid, ratio_cell, rounded
from pagehop_lab.suites.server_results import Measured, ServerFacts, ServerResults
from pagehop_lab.suites.table import Cell, Section, Table

# QPS and CPU are searched for changes, in a table each.
_FAMILIES = 2

_CostField = Literal["server_cpu_us_per_query", "server_switches_per_query", "bytes_read_per_query"]
"""The costs of a query that have a table."""
_TimedField = Literal["qps", "server_cpu_us_per_query"]
"""The figures that are searched for changes, which each turn has."""

Medians = Mapping[str, Mapping[str, float]]
"""By server, then by test."""


def sections(results: ServerResults[OltpRecord]) -> list[Section]:
    """Groups first, single tests after them."""
    tables = [
        groups(results),
        found_changes(results, "qps", "changes", "Changes of QPS from one server to the next"),
        found_changes(results, "server_cpu_us_per_query", "changes-cpu", "Changes of the server's CPU for a query"),
        *beside.tables(results),
        relative(results),
        absolute(results),
        costs(results, "server_cpu_us_per_query", "cpu", "Server CPU of a query, microseconds", ",.2f"),
        costs(results, "server_switches_per_query", "switches", "Context switches of the server for a query", ",.3f"),
        *([_reads(results)] if results.load.get("memory_mib") else []),
        of_servers.invalid(results),
        points(results),
    ]
    return [Section(f"{len(results.groups)} tests, {len(results.names)} servers", (), tables)]


def of_the_run(results: ServerResults[OltpRecord]) -> list[Table]:
    """Missing measurements, and all measurements."""
    return [of_servers.missing(results), servers(results)]


def _medians(results: ServerResults[OltpRecord], of: Callable[[Measured[OltpRecord]], float | None]) -> Medians:
    """The middle of the valid repeats of each test."""
    found: dict[str, dict[str, float]] = {}
    for server in results.names:
        for case in results.groups:
            figures = [figure for one in results.of(server, case) if (figure := of(one)) is not None]
            if figures:
                found.setdefault(server, {})[case] = statistics.median(figures)
    return found


def groups(results: ServerResults[OltpRecord]) -> Table:
    """The five numbers of each group."""
    rows = []
    for server in results.names:
        if server == results.base:
            continue
        found = {case: over(results, server, results.base, case) for case in results.groups}
        known = {case: one for case, one in found.items() if one is not None}
        # All of them: those that are surely not 1, or surely 1, are not a sample of a group.
        five = by_group({case: rounded(one) for case, one in known.items()}, results.groups)
        for group in GROUPS:
            of_group = [case for case in known if results.groups[case] == group]
            if not of_group:
                continue
            uncertain = sum(not is_valid(known[case]) for case in of_group)
            rows.append([
                Cell(server), Cell(group), *(Cell(text, float(text)) for text in five[group].shown()),
                Cell(f"{uncertain} of {len(of_group)}", uncertain, invalid=uncertain > 0),
            ])  # fmt: skip
    note = f"QPS over that of {results.base}, rounded to two decimals for each test before it is summed up; stdev is a "
    note += (
        "sample's. All tests count. Uncertain: tests with a ? below, whose repeats disagree by more than they differ, "
        "or that have one repeat."
    )
    columns = ("server", "group", "min", "max", "avg", "median", "stdev", "uncertain")
    return Table("groups", "Relative QPS by group", columns, rows, note)


def relative(results: ServerResults[OltpRecord]) -> Table:
    """QPS of each test over the base's."""

    def one(server: str, case: str) -> Cell:
        file, title = _middle(results, server, case), _spread(results, server, case)
        return ratio_cell(over(results, server, results.base, case), file, title, is_base=server == results.base)

    note = f"QPS over that of {results.base}: round by round where servers were asked in turns, else repeat by repeat. "
    note += f"Surely not 1, it has a color, the stronger the further away. {NOTE} "
    note += "It leads to the raw file nearest to the middle."
    return replace(_by_case(results, "relative", "Relative QPS", one, note), is_heat=True)


def absolute(results: ServerResults[OltpRecord]) -> Table:
    """QPS of each test: the base's as measured, that of others by their ratio to it."""

    def one(server: str, case: str) -> Cell:
        repeats, base = results.of(server, case), results.of(results.base, case)
        found = over(results, server, results.base, case)
        if not repeats:
            return Cell("-")
        figure = statistics.median(measured.qps for measured in base or repeats) * (found.middle if found else 1)
        return Cell.of(figure, ",.1f", file=_middle(results, server, case), title=_spread(results, server, case))

    note = (
        f"The middle of the repeats of {results.base}, and of others as much as their relative QPS says; pointing at "
    )
    note += "a figure shows the range that was measured."
    return _by_case(results, "qps", "QPS", one, note)


def costs(results: ServerResults[OltpRecord], name: _CostField, table: str, title: str, form: str) -> Table:
    """The cost of a query, which explains changes of throughput."""
    figures = _medians(results, lambda one: one.raw[name])
    return _by_case(
        results,
        table,
        title,
        lambda server, case: Cell.of(figures.get(server, {}).get(case), form),
        "The middle of the repeats.",
    )


def _reads(results: ServerResults[OltpRecord]) -> Table:
    """Reads from storage if data are larger than memory."""
    return costs(results, "bytes_read_per_query", "reads", "Bytes read from storage for a query", ",.0f")


def found_changes(results: ServerResults[OltpRecord], name: _TimedField, table: str, title: str) -> Table:
    """Tests with a figure that changed between neighboring servers, and the other changes."""
    figures: Mapping[str, RatedField] = {
        "QPS %": "qps",
        "CPU/query %": "server_cpu_us_per_query",
        "switches/query %": "server_switches_per_query",
    }
    names = {case: [server for server in results.names if results.of(server, case)] for case in results.groups}
    tests = {case: _repeats(results, names[case], case, name) for case in results.groups if len(names[case]) > 1}
    # The cost of a server that the lab did not start is not known.
    known = {case: tested for case, tested in tests.items() if tested is not None}
    rows = []
    for case, found in changes_of_tests(known, _FAMILIES).items():
        for change in found:
            before, after = names[case][change.at - 1], names[case][change.at]
            rows.append([
                Cell(case), Cell(before), Cell(after),
                Cell.of((change.ratio - 1) * 100, "+.1f", file=_middle(results, after, case)),
                *(Cell.of(_percent(results, before, after, case, each), "+.1f") for each in figures.values()),
                Cell.of(change.p, ".1e" if change.p < 0.001 else ".3f"),
            ])  # fmt: skip
    # The level is divided by those alone.
    tell = sum(tested.can_tell for tested in known.values())
    short = len(known) - tell
    in_turns = sum(tested.in_blocks for tested in known.values())
    note = (
        "Student's t over all repeats in the order of the servers. Change is from all servers before to all from there "
        "on, each side up to its next change; the three columns after it compare the two neighbors. p is how often "
        f"chance gives as large a t in one test. A change is listed if it passes Holm's step-down over {tell} "
        f"tests and both figures: where nothing changed, one run in {1 / LEVEL:.0f} has any line here or in the other "
        "table."
    )
    if in_turns:
        note += f" {in_turns} tests were asked in turns: what all servers of a round have in common is taken away."
    if in_turns and results.load["repeats"] == 1:
        note += f" Of one repeat with {ROUNDS_MIN} rounds or more, {PARTS} parts stand for repeats."
    if short:
        note += f" {short} tests have too few repeats to tell any change from chance."
    columns = ("test", "before", "after", "change %", *figures, "p")
    # A table without rows is not shown, so a line says that nothing changed.
    shown = rows or [[Cell("no test changed" if tell else "inconclusive"), *[Cell("-")] * (len(columns) - 1)]]
    return Table(table, title, columns, shown, note)


def _repeats(results: ServerResults[OltpRecord], names: Sequence[str], case: str, name: _TimedField) -> Repeats | None:
    """A figure of each server in each repeat; None if it is not known of all.

    If servers took turns, the figures are corrected for changes in the machine's speed. Parts of
    one repeat with many rounds stand for repeats.
    """
    repeats = [results.of(server, case) for server in names]
    figures = [[one.raw[name] for one in ones] for ones in repeats]
    known = [[figure for figure in ones if figure is not None] for ones in figures]
    if [len(ones) for ones in known] != [len(ones) for ones in figures]:
        return None
    together = [{one.raw.get("together"): one for one in ones} for ones in repeats]
    common = [token for token in together[0] if token and all(token in ones for ones in together)]
    if not common:
        return Repeats(known)
    rounds = [[_in_turns(ones[token], name) for token in common] for ones in together]
    if len(common) == 1 and all(parts := [in_parts(repeats[0]) for repeats in rounds]):
        rounds = parts
    return Repeats(without_weather(rounds), in_blocks=True)


def _in_turns(one: Measured[OltpRecord], name: _TimedField) -> list[float]:
    """A figure in each turn; not a number where it is not known."""
    figures = [turn[name] for turn in one.raw["rounds"]]
    return [math.nan if figure is None else figure for figure in figures]


def points(results: ServerResults[OltpRecord]) -> Table:
    """Every measurement, with the cost of a query."""
    more = {
        "server CPU us": raw("server_cpu_us_per_query", ",.2f"),
        "client CPU us": raw("client_cpu_us_per_query", ",.2f"),
        "client's share": raw("client_share_of_machine", ".1%"),
        "switches": raw("server_switches_per_query", ",.3f"),
        "bytes written": raw("bytes_written_per_query", ",.0f"),
    }
    note = "CPU, context switches and bytes are for each query; the client's share is of the whole machine's CPU."
    return of_servers.points(results, "points-servers", more, note)


def servers(results: ServerResults[OltpRecord]) -> Table:
    """Versions, and the cost of loading their table."""

    def figure(of: Callable[[Sequence[LoadedRecord]], float], form: str) -> Callable[[ServerFacts], Cell]:
        return lambda facts: Cell.of(of(facts.loads) if facts.loads else None, form)

    more = {
        "load s": figure(lambda loads: statistics.median(one["load_s"] for one in loads), ",.1f"),
        "MB": figure(lambda loads: loads[0]["data_bytes"] / 1e6, ",.1f"),
        "ceiling QPS": figure(lambda loads: max(one["ceiling"]["qps"] for one in loads), ",.0f"),
    }
    return of_servers.servers(results, "Ceiling: QPS of SELECT 1, by which the client is measured.", more)


def _by_case(
    results: ServerResults[OltpRecord], name: str, title: str, cell: Callable[[str, str], Cell], note: str
) -> Table:
    """A table with a row for each test and a column for each server."""
    rows = [
        [Cell(case), Cell(group), *(cell(server, case) for server in results.names)]
        for case, group in results.groups.items()
    ]
    return Table(name, title, ("test", "group", *results.names), rows, note)


def _middle(results: ServerResults[OltpRecord], server: str, case: str) -> str:
    """The raw file nearest to the middle of the repeats."""
    repeats = results.of(server, case)
    if not repeats:
        return ""
    middle = statistics.median(one.qps for one in repeats)
    return min(repeats, key=lambda one: abs(one.qps - middle)).file


def _spread(results: ServerResults[OltpRecord], server: str, case: str) -> str:
    figures: Sequence[float] = [one.qps for one in results.of(server, case)]
    return f"{min(figures):,.1f} to {max(figures):,.1f} QPS, {len(figures)} repeats" if figures else ""


def _percent(results: ServerResults[OltpRecord], before: str, after: str, case: str, name: RatedField) -> float | None:
    found = over(results, after, before, case, name)
    return None if found is None else (found.middle - 1) * 100
