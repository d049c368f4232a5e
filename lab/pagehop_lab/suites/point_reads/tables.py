"""`point-reads`: point reads of data larger than memory, by page size, access and clients."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

from pagehop_lab.suites import of_servers
from pagehop_lab.suites.inserts.tables import Figure, figure
from pagehop_lab.suites.point_reads.cases import variant
from pagehop_lab.suites.point_reads.records import ReadRecord
from pagehop_lab.suites.server_results import Measured, ServerResults
from pagehop_lab.suites.table import Cell, Chart, Mark, Section, Series, Table, through_medians, with_marks

_DiskField = Literal["reads_per_query", "bytes_per_read", "ms_per_read", "in_flight"]


def sections(results: ServerResults[ReadRecord]) -> list[Section]:
    """Tables of reads first, then of the load."""
    load = results.load
    title = f"{load['rows']:,} rows of {load['row_bytes']} bytes, {load['memory_mib']} MiB of memory"
    groups = dict.fromkeys(results.groups.values())
    charts = [best(results), *(chart(results, group) for group in groups), *storage_charts(results)]
    return [
        Section(
            title, with_marks(charts), [reads(results), loads(results), of_servers.invalid(results), points(results)]
        )
    ]


def chart(results: ServerResults[ReadRecord], group: str) -> Chart:
    """Throughput by clients, with one read-ahead."""
    series = []
    for server in results.names:
        marks = [
            Mark(
                one.raw["clients"], one.qps, f"{one.raw['clients']} clients: {one.qps:,.0f} QPS", one.file,
                not one.valid,
            )
            for one in results.measured
            if one.server == server and results.groups[one.case] == group
        ]  # fmt: skip
        if marks:
            series.append(Series(server, marks, through_medians(_by_x(marks))))
    ahead, *more = group.split()
    title = ", ".join([f"Reads a second, {ahead.replace('=', ' ')} KiB", *map(_variant_told, more)])
    note = "Hollow marks are invalid. ahead is how far the kernel reads ahead in files; direct I/O does not care."
    return Chart(f"reads-{group}", title, "clients", "QPS", series, False, note)


def best(results: ServerResults[ReadRecord]) -> Chart:
    """The most reads a second of each product and version, over all options and read-aheads."""
    found: dict[str, dict[int, list[tuple[float, str, str, list[float]]]]] = {}
    for server in results.names:
        for case in results.groups:
            repeats = results.of(server, case)
            if repeats:
                product = " ".join(word for word in server.split() if "=" not in word)
                name = ", ".join([product, *map(_variant_told, variant(case).split())])
                figures = [one.qps for one in repeats]
                told = f"{server}, {case}: {statistics.median(figures):,.0f} QPS"
                one = (statistics.median(figures), told, repeats[0].file, figures)
                found.setdefault(name, {}).setdefault(repeats[0].raw["clients"], []).append(one)
    series = []
    for name, by_clients in found.items():
        marks = []
        for clients, every in sorted(by_clients.items()):
            middle, told, file, figures = max(every)
            marks.append(Mark(clients, middle, told, file, False, min(figures), max(figures)))
        series.append(Series(name, marks, [(mark.x, mark.y) for mark in marks]))
    note = "Of each, the fastest page size, access path and read-ahead at that number of clients; a mark says which."
    return Chart("best", "The best of each server", "clients", "QPS", series, False, note)


def _variant_told(word: str) -> str:
    return f"{word.partition('=')[2]} MiB of memory" if word.startswith("memory=") else word.upper()


def storage_charts(results: ServerResults[ReadRecord]) -> list[Chart]:
    """Requests and KiB per query with the most clients, by read-ahead; by clients if read-ahead
    does not vary.
    """
    by_ahead = len({case.split()[1] for case in results.groups}) > 1
    most = max(results.load["sessions"])
    x_title = f"KiB that the kernel reads ahead, {most} clients" if by_ahead else "clients"
    found = []
    figures = (("requests", "Requests of a query", _disk("reads_per_query")), ("kib", "KiB of a query", _kib_per_query))
    for name, title, of in figures:
        series: dict[str, list[Mark]] = {}
        for one in results.measured:
            raw, y = one.raw, of(one)
            # Without a file system of its own, the kernel's read-ahead cannot be set.
            x = raw["read_ahead_kib"] if by_ahead else raw["clients"]
            if x is None or y is None or (by_ahead and raw["clients"] != most):
                continue
            words = ", ".join([one.server, *map(_variant_told, variant(one.case).split())])
            mark = Mark(x, y, f"{one.case}: {y:,.2f}", one.file, not one.valid)
            series.setdefault(words, []).append(mark)
        drawn = [Series(words, marks, through_medians(_by_x(marks))) for words, marks in series.items()]
        note = "By the disk's own counters; hollow marks are invalid."
        found.append(Chart(f"storage-{name}", title, x_title, name.replace("kib", "KiB"), drawn, False, note))
    return found


def _by_x(marks: Sequence[Mark]) -> list[list[Mark]]:
    return [[mark for mark in marks if mark.x == x] for x in dict.fromkeys(mark.x for mark in marks)]


def reads(results: ServerResults[ReadRecord]) -> Table:
    """Reads from storage for each read of a client, by counter."""
    rows = []
    for server in results.names:
        for case in results.groups:
            found = results.of(server, case)
            if not found:
                continue
            middle = statistics.median(one.qps for one in found)
            rows.append([
                Cell(server), Cell(case), of_servers.valid_repeats(results, found),
                Cell.of(middle, ",.0f", file=found[0].file),
                figure(found, _disk("reads_per_query"), ",.2f"),
                figure(found, _disk("bytes_per_read", 1 / 1024), ",.1f"),
                figure(found, _kib_per_query, ",.1f"),
                figure(found, _process_kib, ",.1f"),
                Cell(_own(found)),
                figure(found, _disk("ms_per_read"), ",.3f"),
                figure(found, _disk("in_flight"), ",.1f"),
                figure(found, lambda one: one.raw["server_cpu_us_per_query"], ",.1f"),
                figure(found, lambda one: one.raw["client_share_of_machine"], ".1%"),
                figure(found, lambda one: one.raw["settle_s"], ",.1f"),
            ])  # fmt: skip
    columns = (
        "server", "test", "valid", "QPS", "reads/query", "KiB/read", "KiB/query", "process KiB", "it says", "ms/read",
        "in flight", "CPU us", "clients' share", "settled s",
    )  # fmt: skip
    note = (
        "Reads and KiB are the disk's: requests that the kernel sent to it, after merging, and their sizes. Process "
        "KiB is storage that the server's processes read, by /proc, and 'it says' is the server's own count; all are "
        "for each query. In flight is the mean number of requests at the disk. Settled is the time until the rates of "
        "two stretches of 2.5 s were within 5% of each other."
    )
    return Table("reads", "Point reads", columns, rows, note)


def loads(results: ServerResults[ReadRecord]) -> Table:
    """How large the data are."""
    logical = results.load["rows"] * results.load["row_bytes"]
    memory = results.load["memory_mib"] << 20
    rows = []
    for facts in results.servers:
        for one in facts.loads[:1]:
            rows.append([  # noqa: PERF401
                Cell(facts.name), Cell.of(one["load_s"], ",.1f"), Cell.of(one["data_bytes"] / 1e6, ",.1f"),
                Cell.of(one["data_bytes"] / logical, ".2f"), Cell.of(one["data_bytes"] / memory, ".1f"),
                Cell(one["file_system"]),
            ])  # fmt: skip
    columns = ("server", "load s", "MB", "of the texts", "of memory", "file system")
    note = f"The texts are {logical / 1e6:,.1f} MB; half of each repeats the other half."
    return Table("loads", "Data", columns, rows, note)


def points(results: ServerResults[ReadRecord]) -> Table:
    """Every measurement."""
    more = {"MiB held": lambda one: Cell.of(_peak_mib(one), ",.0f"), "busy cores": of_servers.raw("busy_cores", ".2f")}
    return of_servers.points(results, "points-reads", more, "MiB held: the most within the limit of memory.")


def _peak_mib(one: Measured[ReadRecord]) -> float | None:
    peak = one.raw["memory"]["peak_bytes"]
    return None if peak is None else float(peak) / 2**20


def _disk(name: _DiskField, scale: float = 1.0) -> Figure[ReadRecord]:
    def of(one: Measured[ReadRecord]) -> float | None:
        disk = one.raw["disk"]
        value = None if disk is None else disk.get(name)
        return None if value is None else float(value) * scale

    return of


def _kib_per_query(one: Measured[ReadRecord]) -> float | None:
    disk = one.raw["disk"]
    return None if disk is None else disk["bytes"] / 1024 / (one.qps * one.raw["elapsed_s"])


def _process_kib(one: Measured[ReadRecord]) -> float | None:
    read = one.raw["bytes_read_per_query"]
    return None if read is None else read / 1024


def _own(found: Sequence[Measured[ReadRecord]]) -> str:
    """The server's own counters for each query, of one repeat."""
    told = found[0].raw["own_counters"]
    return ", ".join(f"{name} {value:,.2f}" for name, value in told.items()) or "-"
