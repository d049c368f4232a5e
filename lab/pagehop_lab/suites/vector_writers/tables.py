"""`vector-writers`: the cost of many writers for a table with a vector index, and for its users."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pagehop_lab.suites import of_servers, server_aims
from pagehop_lab.suites.inserts.tables import Figure, figure
from pagehop_lab.suites.latencies import of_measured, percentiles
from pagehop_lab.suites.paired_servers import RatedField, over
from pagehop_lab.suites.ratios import NOTE, ratio_cell
from pagehop_lab.suites.server_results import Measured, ServerFacts, ServerResults
from pagehop_lab.suites.table import Cell, Chart, Mark, Section, Series, Table, through_medians, with_marks
from pagehop_lab.suites.vector_writers.plan import FIGURES, vacuum_s, vacuum_share
from pagehop_lab.suites.vector_writers.records import WritersRecord

_WRITES = ("write-one", "write-many", "copy", "log-rows", "log-interval")
# Figures that may be below 0.
_DIFFERENCES = ("recall_gain",)

_RowField = Literal[
    "rows_per_s", "rows_before_per_s", "rows_beside_per_s", "rows_after_per_s", "rows_full_per_s", "cpu_us",
    "log_bytes", "log_record_bytes", "log_image_bytes", "log_rows", "client_cpu_us_per_query",
    "client_share_of_machine", "elapsed_s", "p50_over_idle", "p99_over_idle", "index_s",
]  # fmt: skip
"""Fields of a measurement that tables show the middle of."""
_LOGGED: tuple[_RowField, ...] = ("log_bytes", "log_record_bytes", "log_image_bytes")
_RATES: tuple[_RowField, ...] = ("rows_before_per_s", "rows_beside_per_s", "rows_after_per_s")
_RELATIVE: Mapping[RatedField, str] = {
    "rows_per_s": "rows/s", "cpu_us": "CPU us/row", "log_bytes": "log bytes/row",
}  # fmt: skip
_SEARCHED: Mapping[str, Callable[[WritersRecord], Mapping[str, float] | None]] = {
    "alone": lambda raw: raw.get("idle_ms"), "beside writers": lambda raw: raw.get("latency_ms"),
}  # fmt: skip
_LoadField = Literal["rows", "rows_different", "index_s", "index_bytes"]
_LOADED: Mapping[_LoadField, str] = {"rows": ",.0f", "rows_different": ",.0f"}


def sections(results: ServerResults[WritersRecord]) -> list[Section]:
    """Tables of aims, of writes, of searches beside them, and of recall."""
    aims = server_aims.table(results, FIGURES, _DIFFERENCES)
    tables = [
        *([aims] if aims is not None else []),
        relative(results),
        writes(results),
        log(results),
        vacuum(results),
        searches(results),
        recall(results),
        loads(results),
        of_servers.invalid(results),
        points(results),
    ]
    title = f"{results.load['dataset']}: writers of a table of {results.load['rows']:,} rows"
    charts = with_marks([chart(results), latencies(results)])
    return [Section(title, charts, [one for one in tables if one.rows or one.name in ("points-writers",)])]


def of_the_run(results: ServerResults[WritersRecord]) -> list[Table]:
    """Missing measurements, and all measurements."""
    note = "With synchronous_commit = off a commit is safe a moment later; the plan's durability decides it for all."
    return [of_servers.missing(results), of_servers.servers(results, note)]


def chart(results: ServerResults[WritersRecord]) -> Chart:
    """Rows a second by the number of writers, of the servers for which a plan counts them."""
    series = []
    for server in results.names:
        groups = [
            [
                Mark(one.raw["writers"], one.qps, f"{one.case}: {one.qps:,.0f} rows/s", one.file, not one.valid)
                for one in results.measured
                if (one.server, one.case) == (server, case)
            ]
            for case in ("write-one", "write-many")
        ]
        if any(groups):
            series.append(Series(server, [mark for group in groups for mark in group], through_medians(groups)))
    note = "Each row committed. Every repeat, lines through their middles; hollow marks are invalid."
    return Chart("writers", "Rows a second by the number of writers", "writers", "rows/s", series, False, note)


def latencies(results: ServerResults[WritersRecord]) -> Chart:
    """Latency of searches, alone and beside writers."""
    curves = {
        f"{server}, {words}": of_measured(results.of(server, "search"), of)
        for server in results.names
        for words, of in _SEARCHED.items()
    }
    note = f"{results.load['search_rate']:g} searches a second by a schedule; latency counts from when one was due."
    return percentiles("latencies", "Latency of searches, alone and beside writers", curves, note)


def relative(results: ServerResults[WritersRecord]) -> Table:
    """Rates, and bytes of log, over those of the base."""
    rows = []
    for case in _WRITES:
        for name, what in _RELATIVE.items():
            cells = [
                Cell("1.00", 1.0) if server == results.base
                # Colors are for rates: for costs, less is better.
                else _plain(ratio_cell(over(results, server, results.base, case, name)), name != "rows_per_s")
                for server in results.names
            ]  # fmt: skip
            if any(results.of(server, case) for server in results.names):
                rows.append([Cell(case), Cell(what), *cells])
    note = f"Figures over those of {results.base}, repeat by repeat. {NOTE}"
    return Table("relative", "Relative rates and costs", ("step", "what", *results.names), rows, note)


def _plain(cell: Cell, wanted: bool) -> Cell:
    return replace(cell, tone="") if wanted else cell


def writes(results: ServerResults[WritersRecord]) -> Table:
    """Every step that writes at full speed."""
    rows = _rows(results, _WRITES, lambda found: [
        figure(found, _of("rows_per_s"), ",.0f"),
        figure(found, _of("cpu_us"), ",.0f"),
        figure(found, _of("log_bytes"), ",.0f"),
        *(figure(found, _in("commit_ms", name), ",.2f") for name in ("p50", "p99", "max")),
        figure(found, _of("client_cpu_us_per_query"), ",.0f"),
        figure(found, _of("client_share_of_machine"), ".1%"),
    ])  # fmt: skip
    columns = (
        "server", "step", "valid", "rows/s", "CPU us/row", "log bytes/row", "commit p50 ms", "p99 ms", "max ms",
        "client's us/row", "clients' share",
    )  # fmt: skip
    many, copied = results.load["clients"], results.load["copy_rows"]
    note = (
        f"write-one, write-many: 1 and {many} clients, each row committed. copy: one COPY of {copied:,} rows. CPU is "
        "that of all of the server's processes, without the clients'. Log bytes count from a checkpoint on, so a "
        "short step has more page images a row. Figures are medians of the valid repeats, whose number is shown."
    )
    return Table("writes", "Writing as fast as it goes", columns, rows, note)


def log(results: ServerResults[WritersRecord]) -> Table:
    """Bytes of log, by kind."""
    rows = _rows(results, ("log-rows", "log-interval"), lambda found: [
        figure(found, _of("log_rows"), ",.0f"),
        figure(found, _of("elapsed_s"), ",.1f"),
        *(figure(found, _of(name), ",.0f") for name in _LOGGED),
    ])  # fmt: skip
    columns = ("server", "step", "valid", "rows", "s", "log bytes/row", "records", "page images")
    note = (
        f"From a checkpoint on, {results.load['clients']} clients: log-rows for {results.load['log_rows']:,} rows, and "
        f"log-interval at full speed for {results.load['log_seconds']:g} s without another checkpoint. Records and "
        "page images are from pg_waldump --stats; the rest are bytes of the log's pages between records."
    )
    return Table("log", "Bytes of log a row", columns, rows, note)


def vacuum(results: ServerResults[WritersRecord]) -> Table:
    """Writers beside autovacuum."""
    rows = _rows(results, ("vacuum",), lambda found: [
        *(figure(found, _of(name), ",.0f") for name in _RATES),
        figure(found, lambda one: vacuum_share(one.raw), ".2f"),
        _vacuum_s(found),
    ])  # fmt: skip
    columns = ("server", "step", "valid", "before rows/s", "beside rows/s", "after rows/s", "share", "autovacuum s")
    note = (
        f"{results.load['clients']} clients, each row committed, while autovacuum with the server's own cost settings "
        f"cleans up {results.load['dead_share']:.0%} of the first {results.load['rows']:,} rows. Share: the rate "
        "during autovacuum, over the rate before it. After a > is the time for which it was watched without ending: "
        "then there is no rate after it."
    )
    return Table("vacuum", "Writing beside autovacuum", columns, rows, note)


def searches(results: ServerResults[WritersRecord]) -> Table:
    """Searches on a schedule, alone and beside writers."""
    rows = _rows(results, ("search",), lambda found: [
        *(figure(found, _in("idle_ms", name), ",.2f") for name in ("p50", "p99")),
        *(figure(found, _in("latency_ms", name), ",.2f") for name in ("p50", "p99", "max")),
        figure(found, _of("p50_over_idle"), ".2f"),
        figure(found, _of("p99_over_idle"), ".2f"),
        *(figure(found, _in("sent_ms", name), ",.2f") for name in ("p50", "p99")),
        figure(found, _of("rows_per_s"), ",.0f"),
        figure(found, _of("rows_full_per_s"), ",.0f"),
    ])  # fmt: skip
    columns = (
        "server", "step", "valid", "idle p50 ms", "idle p99 ms", "p50 ms", "p99 ms", "max ms", "p50 over idle",
        "p99 over idle", "sent p50 ms", "sent p99 ms", "rows/s", "full rows/s",
    )  # fmt: skip
    note = (
        f"{results.load['search_rate']:g} searches a second by a schedule, alone and beside {results.load['clients']} "
        f"writers that insert {results.load['write_share']:.0%} of their full rate by a schedule. Latency counts from "
        "when a search was due; sent: from when it was sent, so without how late the client was."
    )
    return Table("searches", "Searching beside writers", columns, rows, note)


def recall(results: ServerResults[WritersRecord]) -> Table:
    """Recall after many writers, and of one build."""
    rows = []
    for server in results.names:
        found = results.of(server, "recall")
        for at, candidates in enumerate(results.load["recall_lists"] if found else ()):
            after, built = _at("recall_after", at), _at("recall_built", at)
            rows.append([
                Cell(server), Cell.of(candidates, "d"), of_servers.valid_repeats(results, found),
                figure(found, after, ".4f"), figure(found, built, ".4f"),
                figure(found, _gain(at), "+.4f"),
                figure(found, _of("rows_per_s"), ",.0f"), figure(found, _of("index_s"), ",.1f"),
            ])  # fmt: skip
    load = results.load
    note = (
        f"{load['clients']} clients add {load['recall_rows']:,} rows to {load['rows']:,}; then the index is created "
        f"over the same rows. Recall@{load['k']} of {load['queries']:,} queries, ties counted, at candidate lists of "
        "these lengths. The aim is about the greatest loss of all lists."
    )
    columns = ("server", "list", "valid", "after writers", "one build", "difference", "rows/s", "CREATE INDEX s")
    return Table("recall", "Recall after concurrent inserts", columns, rows, note)


def loads(results: ServerResults[WritersRecord]) -> Table:
    """What every step begins with."""
    rows = [
        [
            Cell(facts.name),
            *(_middle(facts, name, form) for name, form in _LOADED.items()),
            _middle(facts, "index_s", ",.2f"),
            _middle(facts, "index_bytes", ",.1f", 1e6),
        ]
        for facts in results.servers
        if facts.loads
    ]
    columns = ("server", "rows", "rows of the set", "CREATE INDEX s", "index MB")
    note = "Rows of the set are those that are different. The index is created after the first rows came."
    return Table("loads", "Before each step", columns, rows, note)


def points(results: ServerResults[WritersRecord]) -> Table:
    """Every measurement."""
    more = {
        "CPU us": of_servers.raw("cpu_us", ",.0f"),
        "busiest client": of_servers.raw("client_share_of_core", ".1%"),
        "other cores": of_servers.raw("other_busy_cores", ".2f"),
    }
    note = "Rows a second; searches a second in the step search. Other cores: what else ran on the machine."
    return of_servers.points(results, "points-writers", more, note, ("step", "a second"))


def _rows(
    results: ServerResults[WritersRecord],
    cases: Sequence[str],
    of: Callable[[list[Measured[WritersRecord]]], list[Cell]],
) -> list[list[Cell]]:
    """A line for each step of each server."""
    return [
        [Cell(server), Cell(case), of_servers.valid_repeats(results, found), *of(found)]
        for server in results.names
        for case in cases
        if (found := results.of(server, case))
    ]


def _vacuum_s(found: Sequence[Measured[WritersRecord]]) -> Cell:
    """The middle of the repeats, or the longest watched where autovacuum did not end in that."""
    cell = figure(found, lambda one: vacuum_s(one.raw), ",.1f")
    if cell.value != math.inf:
        return cell
    longest = max(one.raw["vacuum_s"] for one in found)
    return Cell(f">{longest:,.0f} (not ended)", invalid=True)


def _of(name: _RowField) -> Figure[WritersRecord]:
    """A figure of the raw files, if it exists."""

    def of(one: Measured[WritersRecord]) -> float | None:
        found = one.raw.get(name)
        return None if found is None else float(found)

    return of


def _in(name: Literal["commit_ms", "idle_ms", "latency_ms", "sent_ms"], key: str) -> Figure[WritersRecord]:
    """One of several figures of a raw field, if it exists."""

    def of(one: Measured[WritersRecord]) -> float | None:
        found = one.raw.get(name)
        return None if found is None else float(found[key])

    return of


def _at(name: Literal["recall_after", "recall_built"], at: int) -> Figure[WritersRecord]:
    return lambda one: float(one.raw[name][at])


def _gain(at: int) -> Figure[WritersRecord]:
    """The gain of recall, at one of the lists."""
    return lambda one: float(one.raw["recall_after"][at] - one.raw["recall_built"][at])


def _middle(facts: ServerFacts, name: _LoadField, form: str, scale: float = 1.0) -> Cell:
    figures = sorted(one[name] for one in facts.loads if name in one)
    return Cell.of(figures[len(figures) // 2] / scale if figures else None, form)
