"""`inserts`: the steps of the Insert Benchmark, absolute and relative, and what each second did."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pagehop_lab.analysis.intervals import Interval, compared, unpaired
from pagehop_lab.analysis.load_verdicts import WRITE_SHARE_MIN
from pagehop_lab.analysis.server_records import StepRecord
from pagehop_lab.analysis.turns import Run, load_run
from pagehop_lab.suites import beside, of_servers
from pagehop_lab.suites.latencies import of_measured, percentiles
from pagehop_lab.suites.paired_servers import over
from pagehop_lab.suites.ratios import NOTE, ratio_cell
from pagehop_lab.suites.server_results import AnyServers, Measured, R, ServerFacts, ServerResults
from pagehop_lab.suites.table import Cell, Chart, Mark, Section, Series, Table, brief, through_medians, with_marks

Figure = Callable[[Measured[R]], float | None]
_LoadRate = Literal["load_rows_per_s", "index_rows_per_s"]
_LoadField = Literal["load_rows_per_s", "load_client_share", "index_s"]
_LOAD_STEPS: Mapping[str, _LoadRate] = {"l.i0": "load_rows_per_s", "l.x": "index_rows_per_s"}


def sections(results: ServerResults[StepRecord]) -> list[Section]:
    """Loading, writing, asking beside writing."""
    tables = [
        relative(results),
        *beside.tables(results),
        absolute(results),
        sustained(results),
        loads(results),
        writes(results),
        queries(results),
        seconds(results),
        of_servers.invalid(results),
        points(results),
    ]
    return [
        Section(f"A window of {results.load['rows']:,} rows", with_marks([chart(results), latencies(results)]), tables)
    ]


def of_the_run(results: AnyServers) -> list[Table]:
    """Missing measurements, and all measurements."""
    note = "The servers themselves clean up dead rows during the measurement."
    return [of_servers.missing(results), of_servers.servers(results, note)]


def chart(results: ServerResults[StepRecord]) -> Chart:
    """Queries beside writes."""
    series = []
    for server in results.names:
        for kind in dict.fromkeys(one.case.rstrip("0123456789") for one in _asked(results, server)):
            steps: dict[str, list[Mark]] = {}
            for one in _asked(results, server):
                if one.case.startswith(kind):
                    mark = Mark(one.raw["rows_per_s"], one.qps, _told(one), one.file, not one.valid)
                    steps.setdefault(one.case, []).append(mark)
            marks = [mark for repeats in steps.values() for mark in repeats]
            series.append(Series(f"{server} {kind}", marks, through_medians(steps.values())))
    note = "Every repeat of every step, lines through their middles; hollow marks are invalid."
    return Chart("beside", "Queries beside writes", "rows inserted, and deleted, a second", "QPS", series, False, note)


def latencies(results: ServerResults[StepRecord]) -> Chart:
    """Latency of queries beside the most writes of the plan."""
    every = [one for server in results.names for one in _asked(results, server)]
    most = max((one.raw["write_target"] for one in every), default=0)
    curves = {
        f"{server} {step}": of_measured(results.of(server, step), lambda raw: raw.get("latency_ms"))
        for server in results.names
        for step in dict.fromkeys(one.case for one in every if one.raw["write_target"] == most)
    }
    title = f"Latency of queries beside {most:,} rows inserted, and deleted, a second"
    return percentiles("latencies", title, curves)


def relative(results: ServerResults[StepRecord]) -> Table:
    """Each step's rate over that of the base."""
    rows = []
    for step, of in _LOAD_STEPS.items():
        rates = {facts.name: _load_rates(facts, of, results.load["rows"]) for facts in results.servers}
        base = rates.get(results.base)
        found = {name: _over(rates[name], base) for name in results.names if base and rates.get(name)}
        cells = [Cell("1.00", 1.0) if name == results.base else ratio_cell(found.get(name)) for name in results.names]
        rows.append([Cell(step), *cells])
    for step in results.groups:
        cells = [_over_base(results, server, step) for server in results.names]
        rows.append([Cell(step), *cells])
    note = (
        f"Rows, or queries, a second over those of {results.base}, repeat by repeat. What is surely not 1 has a color, "
        f"the stronger the further away. {NOTE} A dash is a step that failed: its writes fell under 95% of their rate, "
        "or it is invalid otherwise. Steps are not asked in turns, so other work on the machine is in these rates."
    )
    return Table("relative", "Relative rates", ("step", *results.names), rows, note, is_heat=True)


def absolute(results: ServerResults[StepRecord]) -> Table:
    """Each step's rate, of every server."""
    rows = []
    for step, of in _LOAD_STEPS.items():
        rates = {facts.name: _load_rates(facts, of, results.load["rows"]) for facts in results.servers}
        found = [rates[name] for name in results.names]
        rows.append([Cell(step), *(Cell.of(statistics.median(one.values()) if one else None, ",.0f") for one in found)])
    for step in results.groups:
        rows.append([Cell(step), *(_rate(results.of(server, step)) for server in results.names)])  # noqa: PERF401
    note = "Rows a second of l.i0 to l.i2, queries a second of the others: the middle of the valid repeats."
    return Table("absolute", "Rates", ("step", *results.names), rows, note)


def sustained(results: ServerResults[StepRecord]) -> Table:
    """Share of the rate of writes beside queries that was reached."""
    steps = list(dict.fromkeys(one.case for one in results.measured if one.raw.get("write_target")))
    rows = [
        [Cell(step), *(_kept(results, server, step) for server in results.names)]
        for step in results.groups
        if step in steps
    ]
    note = f"Rows a second over the scheduled rate. A step below {WRITE_SHARE_MIN:.0%} failed, and its queries are not "
    note += "valid. Invalid repeats count here, too."
    return Table("sustained", "Writes beside queries, of the scheduled rate", ("step", *results.names), rows, note)


def _rate(found: Sequence[Measured[StepRecord]]) -> Cell:
    return Cell.of(statistics.median(one.qps for one in found), ",.1f", file=found[0].file) if found else Cell("-")


def _kept(results: ServerResults[StepRecord], server: str, step: str) -> Cell:
    found = [one for one in results.measured if (one.server, one.case) == (server, step)]
    if not found:
        return Cell("-")
    share = statistics.median(one.raw["rows_per_s"] / one.raw["write_target"] for one in found)
    return Cell.of(share, ".2f", file=found[0].file, invalid=share < WRITE_SHARE_MIN)


def _over(figures: Mapping[Run, float], base: Mapping[Run, float]) -> Interval:
    """Repeat by repeat, unless a repeat of one of them failed, or was at another time."""
    if len(figures) == len(base):
        return compared(figures, base)
    return unpaired([*figures.values()], [*base.values()])


def _over_base(results: ServerResults[StepRecord], server: str, step: str) -> Cell:
    figures = [one.qps for one in results.of(server, step)]
    title = f"{statistics.median(figures):,.1f} a second" if figures else ""
    return ratio_cell(over(results, server, results.base, step), "", title, is_base=server == results.base)


def _load_rates(facts: ServerFacts, name: _LoadRate, rows: int) -> dict[Run, float]:
    return {
        load_run(one, number): rows / one["index_s"] if name == "index_rows_per_s" else float(one[name])
        for number, one in enumerate(facts.loads)
    }


def loads(results: ServerResults[StepRecord]) -> Table:
    """Rows without an index, and the indexes."""
    rows = [
        [
            Cell(facts.name),
            _middle(facts, "load_rows_per_s", ",.0f"),
            _middle(facts, "load_client_share", ".1%"),
            _middle(facts, "index_s", ",.2f"),
            Cell.of(statistics.median(one["index_bytes"] for one in facts.loads) / 1e6, ",.1f"),
        ]
        for facts in results.servers
        if facts.loads
    ]
    columns = ("server", "l.i0 rows/s", "clients' share", "l.x s", "index MB")
    note = "l.i0: one client, 100 rows in a commit, no index. l.x: CREATE INDEX alone."
    return Table("loads", "Loading", columns, rows, note)


def writes(results: ServerResults[StepRecord]) -> Table:
    """Inserts and deletes at the same rate, at full speed."""
    rows = []
    for server in results.names:
        for step in ("l.i1", "l.i2"):
            found = results.of(server, step)
            if found:
                rows.append([
                    Cell(server), Cell(step), of_servers.valid_repeats(results, found),
                    figure(found, lambda one: one.raw["rows_per_s"], ",.0f"),
                    figure(found, lambda one: one.raw["deleted_per_s"], ",.0f"),
                    *(figure(found, of_dict("commit_ms", name), ",.2f") for name in ("p50", "p99", "max")),
                    figure(found, lambda one: one.raw["server_cpu_us_per_query"], ",.1f"),
                    figure(found, lambda one: one.raw["bytes_written_per_query"], ",.0f"),
                    figure(found, lambda one: one.raw.get("deadlocks_count"), ",.0f"),
                    figure(found, lambda one: one.raw["client_share_of_machine"], ".1%"),
                ])  # fmt: skip
    columns = (
        "server", "step", "valid", "inserted rows/s", "deleted rows/s", "commit p50 ms", "p99 ms", "max ms",
        "CPU us/row", "bytes/row", "deadlocks", "clients' share",
    )  # fmt: skip
    note = (
        "l.i1: 50 rows in a commit, l.i2: 5. The oldest rows are deleted as new ones are inserted, so the table does "
    )
    note += "not grow. CPU and bytes written are the server's, for each inserted row and the row deleted in its place. "
    note += "A commit that the server rolled back because of a deadlock was tried again until it succeeded."
    return Table("writes", "Writing as fast as it goes", columns, rows, note)


def queries(results: ServerResults[StepRecord]) -> Table:
    """One client that queries at full speed, beside inserts and deletes at a fixed rate."""
    rows = []
    for server in results.names:
        for step in results.groups:
            found = [one for one in results.of(server, step) if one.raw.get("write_target") is not None]
            if found:
                rows.append([
                    Cell(server), Cell(step), of_servers.valid_repeats(results, found),
                    figure(found, lambda one: one.raw["rows_per_s"], ",.0f"),
                    Cell.of(statistics.median(one.qps for one in found), ",.1f", file=found[0].file),
                    *(figure(found, of_dict("latency_ms", name), ",.3f") for name in ("p50", "p95", "p99", "max")),
                    figure(found, lambda one: one.raw["server_cpu_us_per_query"], ",.1f"),
                    figure(found, lambda one: one.raw["rows_per_answer"], ",.2f"),
                    figure(found, lambda one: one.raw["client_share_of_machine"], ".1%"),
                ])  # fmt: skip
    columns = (
        "server", "step", "valid", "rows/s", "QPS", "p50 ms", "p95 ms", "p99 ms", "max ms", "CPU us", "rows an answer",
        "clients' share",
    )  # fmt: skip
    note = (
        f"N rows a second are inserted, and as many deleted, {results.load['commit_rows']} in a commit. qrN: the next "
        "ten rows of an index, which "
    )
    note += (
        "has all that is wanted. qpN: ten rows by their keys. A step that wrote less than 95% failed and is not here."
    )
    return Table("queries", "Asking beside writes", columns, rows, note)


def seconds(results: ServerResults[StepRecord]) -> Table:
    """Work in each second: stalls show here."""
    rows = []
    for one in results.measured:
        for what, series in one.raw["per_second"].items():
            whole = series[:-1] if len(series) > 1 else series
            if whole:
                told = " ".join(map(str, series))
                rows.append([
                    Cell(one.server), Cell(one.case), Cell.of(one.repeat + 1, "d"), Cell(what),
                    Cell.of(min(whole), ",d", file=one.file), Cell.of(statistics.median(whole), ",.0f"),
                    Cell.of(max(whole), ",d"), Cell(brief(told), told),
                ])  # fmt: skip
    columns = ("server", "step", "repeat", "what", "least", "median", "most", "in each second")
    note = "The last second may be a part of one."
    return Table("seconds", "In each second", columns, rows, note)


def points(results: AnyServers) -> Table:
    """Every measurement."""
    more = {
        "recall@10": lambda one: Cell.of(one.raw.get("recall"), ".4f"),
        "clients' share": of_servers.raw("client_share_of_machine", ".1%"),
    }
    note = "Queries a second, or rows where nothing is asked."
    return of_servers.points(results, "points-inserts", more, note, ("step", "a second"))


def figure(found: Sequence[Measured[R]], of: Figure[R], form: str) -> Cell:
    """The middle of the repeats."""
    figures = [one for one in map(of, found) if one is not None]
    return Cell.of(statistics.median(figures) if figures else None, form)


def of_dict(name: Literal["commit_ms", "latency_ms"], key: str) -> Figure[StepRecord]:
    """One of several figures of the same."""
    return lambda one: float(one.raw[name][key])


def _asked(results: ServerResults[StepRecord], server: str) -> list[Measured[StepRecord]]:
    """All steps with queries, valid or not."""
    return [one for one in results.measured if one.server == server and "write_target" in one.raw]


def _told(one: Measured[StepRecord]) -> str:
    recall = f" at recall {one.raw['recall']:.4f}" if "recall" in one.raw else ""
    return f"{one.raw['rows_per_s']:,.0f} rows/s: {one.qps:,.1f} QPS{recall}"


def _middle(facts: ServerFacts, name: _LoadField, form: str) -> Cell:
    figures = [one[name] for one in facts.loads if name in one]
    return Cell.of(statistics.median(figures) if figures else None, form)
