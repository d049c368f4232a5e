"""Suite i, for vectors: what an index costs the writes, and what writes cost the queries and their recall."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from pagehop_lab.suites import oltp
from pagehop_lab.suites.server_results import Measured, ServerFacts, ServerResults
from pagehop_lab.suites.table import Cell, Chart, Mark, Section, Series, Table, brief

Figure = Callable[[Measured], float | None]


def sections(results: ServerResults) -> list[Section]:
    """Loading, writing, asking beside writing."""
    tables = [
        loads(results),
        writes(results),
        queries(results),
        seconds(results),
        oltp.invalid(results),
        points(results),
    ]
    title = f"{results.load['dataset']}: a window of {results.load['rows']:,} rows"
    return [Section(title, [chart(results)], tables)]


def of_the_run(results: ServerResults) -> list[Table]:
    """What is missing, and what was measured."""
    return [oltp.missing(results), servers(results)]


def chart(results: ServerResults) -> Chart:
    """Queries beside writes."""
    series = []
    for server in results.names:
        marks = []
        for one in _of(results, server, "query"):
            told = f"{one.raw['rows_per_s']:,.0f} rows/s: {one.qps:,.1f} QPS at recall {one.raw['recall']:.4f}"
            marks.append(Mark(one.raw["rows_per_s"], one.qps, told, one.file, not one.valid))
        valid = sorted((mark.x, mark.y) for mark in marks if not mark.invalid)
        series.append(Series(server, marks, valid))
    note = "Every step; hollow marks are invalid. The recall of each is in the table."
    return Chart("beside", "Queries beside writes", "rows inserted, and deleted, a second", "QPS", series, False, note)


def loads(results: ServerResults) -> Table:
    """Rows without an index, and the index."""
    rows = [
        [
            Cell(facts.name),
            _middle(facts, "load_rows_per_s", ",.0f"),
            _middle(facts, "index_s", ",.2f"),
            Cell.of(statistics.median(one["index_bytes"] for one in facts.loads) / 1e6, ",.1f"),
        ]
        for facts in results.servers
        if facts.loads
    ]
    columns = ("server", "l.i0 rows/s", "l.x s", "index MB")
    note = "l.i0: one client, 100 rows in a commit, no index. l.x: CREATE INDEX alone."
    return Table("loads", "Loading", columns, rows, note)


def writes(results: ServerResults) -> Table:
    """Inserting and deleting at the same rate, as fast as it goes."""
    rows = []
    for server in results.names:
        for step in ("l.i1", "l.i2"):
            found = results.of(server, step)
            if found:
                rows.append([
                    Cell(server), Cell(step),
                    _figure(found, lambda one: one.raw["rows_per_s"], ",.0f"),
                    _figure(found, lambda one: one.raw["deleted_per_s"], ",.0f"),
                    *(_figure(found, _of_dict("commit_ms", name), ",.2f") for name in ("p50", "p99", "max")),
                    _figure(found, lambda one: one.raw["server_cpu_us_per_query"], ",.1f"),
                    _figure(found, lambda one: one.raw["bytes_written_per_query"], ",.0f"),
                ])  # fmt: skip
    columns = (
        "server", "step", "inserted rows/s", "deleted rows/s", "commit p50 ms", "p99 ms", "max ms", "CPU us/row",
        "bytes/row",
    )  # fmt: skip
    note = (
        "l.i1: 50 rows in a commit, l.i2: 5. The oldest rows go as new ones come, so the table stays as large. CPU and "
    )
    note += "bytes written are those of the server's processes, for each row that came and the one that went for it."
    return Table("writes", "Writing as fast as it goes", columns, rows, note)


def queries(results: ServerResults) -> Table:
    """One client that asks at full speed, beside rows that come and go at a rate."""
    rows = []
    for server in results.names:
        rest = [one.qps for one in results.of(server, "qv0")]
        for step in results.groups:
            found = [one for one in results.of(server, step) if one.raw.get("write_target") is not None]
            if not found:
                continue
            middle = statistics.median(one.qps for one in found)
            rows.append([
                Cell(server), Cell(step),
                _figure(found, lambda one: one.raw["rows_per_s"], ",.0f"),
                Cell.of(middle, ",.1f", file=found[0].file),
                Cell.of(round(middle / statistics.median(rest), 2) if rest else None, ".2f"),
                _figure(found, lambda one: one.raw["recall"], ".4f"),
                *(_figure(found, _of_dict("latency_ms", name), ",.2f") for name in ("p50", "p95", "p99", "max")),
                _figure(found, lambda one: one.raw["client_share_of_machine"], ".1%"),
            ])  # fmt: skip
    columns = (
        "server", "step", "rows/s", "QPS", "of qv0", "recall@10", "p50 ms", "p95 ms", "p99 ms", "max ms",
        "clients' share",
    )  # fmt: skip
    note = (
        "qvN: N rows a second are inserted, and as many deleted, 10 in a commit. Recall is that of the same requests: "
    )
    note += "of rows that were there from a request's start to its end. A step that wrote less than 95% is invalid."
    return Table("queries", "Asking beside writes", columns, rows, note)


def seconds(results: ServerResults) -> Table:
    """What was done in each second: stalls show here."""
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


def points(results: ServerResults) -> Table:
    """Every measurement."""
    rows = []
    for one in results.measured:
        verdict = "; ".join(one.wrong) or "; ".join(one.noted) or "valid"
        rows.append([
            Cell(one.server), Cell(one.case), Cell.of(one.repeat + 1, "d"),
            Cell.of(one.qps, ",.1f", file=one.file, invalid=not one.valid, title=verdict),
            Cell.of(one.raw.get("recall"), ".4f"),
            Cell.of(one.raw["client_share_of_machine"], ".1%"),
            Cell(verdict, verdict, invalid=not one.valid),
        ])  # fmt: skip
    columns = ("server", "step", "repeat", "a second", "recall@10", "clients' share", "verdict")
    return Table(
        "points-inserts", "All measurements", columns, rows, "Queries a second, or rows where nothing is asked."
    )


def servers(results: ServerResults) -> Table:
    """Versions and settings."""
    rows = []
    for facts in results.servers:
        version = Cell(facts.version or "-", facts.version)
        settings = " ".join(f"{name}={value}" for name, value in facts.settings.items())
        failed = facts.failed
        shown = version if failed is None else Cell(brief(failed), failed, invalid=True)
        rows.append([Cell(facts.name), shown, Cell(settings or "-")])
    return Table("servers", "Servers", ("server", "version", "settings"), rows, "Autovacuum cleans up meanwhile.")


def _of(results: ServerResults, server: str, script: str) -> list[Measured]:
    """All measurements of one kind, valid or not."""
    return [one for one in results.measured if one.server == server and ("recall" in one.raw) == (script == "query")]


def _figure(found: Sequence[Measured], of: Figure, form: str) -> Cell:
    """The middle of the repeats."""
    figures = [figure for one in found if (figure := of(one)) is not None]
    return Cell.of(statistics.median(figures) if figures else None, form)


def _of_dict(name: str, key: str) -> Figure:
    return lambda one: float(one.raw[name][key])


def _middle(facts: ServerFacts, name: str, form: str) -> Cell:
    return Cell.of(statistics.median(one[name] for one in facts.loads), form)
