"""`cold`: queries with empty, scarce and hot caches, and the effect of reading ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pagehop_lab.analysis.intervals import Interval, compared
from pagehop_lab.analysis.points import Options, Point, shown, told
from pagehop_lab.analysis.records import Disk, last_disk
from pagehop_lab.analysis.settings import Setting, settings_of
from pagehop_lab.suites import every_suite
from pagehop_lab.suites.cold import growth
from pagehop_lab.suites.equal_recall import tables as equal_recall
from pagehop_lab.suites.latencies import has
from pagehop_lab.suites.ratios import NOTE, ratio_cell
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Cell, Chart, Mark, Section, Series, Table, with_marks

# The option by which a server reads ahead; settings that differ only in it are compared.
DEPTH = "effective_io_concurrency"


def sections(results: Results) -> list[Section]:
    """One section for each set, after one for all of them if builds had a limit of memory."""
    found = [growth.section(results)] if results.load["build_memory_mib"] else []
    for dataset, facts in results.datasets.items():
        points = results.of(dataset)
        title = f"{dataset}: {facts['rows']:,} x {facts['dim']}, {facts['metric']}, caches {_states(results)}"
        # A curve has settings of one state only.
        drawn = results.by_load(dataset)[min(results.by_load(dataset))]
        tables = [
            latencies(results, settings_of(points), dataset),
            every_suite.indexes(results, dataset),
            every_suite.invalid(results, points, dataset),
            every_suite.all_points(results, points, dataset),
        ]
        state = told(drawn[0].asked) or "caches cold" if drawn else ""
        chart = equal_recall.chart(results, drawn, dataset)
        charts = [replace(chart, title=f"{chart.title}, {state}"), *reads(results, settings_of(points), dataset)]
        found.append(Section(title, with_marks(charts), tables))
    return found


def _states(results: Results) -> str:
    return ", ".join(results.load["caches"])


def latencies(results: Results, settings: Sequence[Setting], dataset: str) -> Table:
    """Milliseconds per query, their spread, and the reads."""
    rows = []
    for setting in settings:
        base, mean = _base(setting, settings), _middle(setting, "mean")
        label = " ".join(filter(None, [shown(setting.build), shown(setting.search)]))
        rows.append([
            Cell(results.title(setting.engine), setting.engine),
            Cell(label, label),
            Cell(_state(setting)),
            Cell.of(setting.recall.median, ".4f"),
            Cell.of(setting.qps.median, ",.0f", file=setting.middle.file),
            Cell.of(mean, ",.2f", file=setting.middle.file),
            ratio_cell(_speedup(setting, base)),
            Cell.of(_middle(setting, "stdev"), ",.2f"),
            Cell.of(_middle(setting, "p50"), ",.2f"),
            *(Cell.of(_middle(setting, name), ",.2f") for name in ("p99", "max")),
            Cell.of(_pages(setting), ",.1f"),
            Cell.of(_kib(setting), ",.1f"),
            Cell.of(_requests(setting), ",.1f"),
            Cell.of(_of_disk(setting, lambda disk: disk.get("bytes_per_read"), 1 / 1024), ",.1f"),
            Cell.of(_of_disk(setting, lambda disk: disk.get("ms_per_read")), ",.3f"),
            Cell.of(_of_disk(setting, lambda disk: disk.get("queue_depth_busy")), ",.2f"),
            Cell.of(_of_disk(setting, lambda disk: disk.get("queue_depth")), ",.2f"),
        ])  # fmt: skip
    columns = (
        "engine", "setting", "caches", "recall", "QPS", "mean ms", "speedup", "stdev ms", "p50 ms", "p99 ms", "max ms",
        "pages", "KiB read", "reads", "KiB/read", "ms/read", "in flight", "of all time",
    )  # fmt: skip
    count = results.load["cold_queries"]
    note = f"Cold: the first {count} queries, each asked once, after every cache was emptied; later ones find pages "
    note += f"that earlier ones read. Limited: the same after other queries, in {results.load['memory_mib']} MiB for "
    note += "server, caches and kernel's cache. Hot: one of the queries, repeated. Speedup is over the same with "
    note += f"the least {DEPTH}. {NOTE} Fewer than 100 queries have no p99. Fresh: every query begins with empty "
    note += "caches, and pages are counted by the index itself. KiB are read by the engine's processes for each query, "
    note += "those of a server's connection included; reads are the disk's requests during the query, from any "
    note += "process. In flight is their mean number at once, over the time with any request, or over all the time."
    return Table(f"cold-{dataset}", "Searches by the state of caches", columns, rows, note)


def reads(results: Results, settings: Sequence[Setting], dataset: str) -> list[Chart]:
    """Requests and KiB per query, by read-ahead if it varies, otherwise by recall."""
    depths = {float(dict(one.search)[DEPTH]) for one in settings if DEPTH in dict(one.search)}
    by_depth = len(depths) > 1
    x_title = DEPTH if by_depth else f"recall@{results.k}"
    figures: Sequence[tuple[str, str, str, Callable[[Setting], float | None]]] = (
        ("requests", "Requests that the disk got for a query", "requests", _requests),
        ("kib", "KiB read for a query", "KiB", _kib),
    )
    found = []
    for name, title, y_title, of in figures:
        series: dict[str, list[Mark]] = {}
        for one in settings:
            y = of(one)
            if y is None or (by_depth and DEPTH not in dict(one.search)):
                continue
            options = shown(tuple(option for option in one.search if option[0] != DEPTH)) if by_depth else ""
            words = " ".join(filter(None, [results.title(one.engine), shown(one.build), options]))
            x = float(dict(one.search)[DEPTH]) if by_depth else one.recall.median
            mark = Mark(x, y, f"{one.label}: {y:,.1f} {y_title}", one.middle.file)
            series.setdefault(f"{words}, {_state(one)}", []).append(mark)
        drawn = [Series(key, marks, sorted((mark.x, mark.y) for mark in marks)) for key, marks in series.items()]
        found.append(Chart(f"{name}-{dataset}", title, x_title, y_title, drawn, not by_depth, "Middle of the repeats."))
    return found


def _state(setting: Setting) -> str:
    """The state of caches, and what else of the load is unusual."""
    sessions = f"{setting.sessions} sessions" if setting.sessions > 1 else ""
    return ", ".join(filter(None, [told(setting.asked).removeprefix("caches ") or "cold", sessions]))


def _base(setting: Setting, settings: Sequence[Setting]) -> Setting | None:
    """The setting that differs only in how far it reads ahead, with the least of that."""
    if DEPTH not in dict(setting.search):
        return None
    alike = [one for one in settings if _rest(one) == _rest(setting)]
    return min(alike, key=lambda one: float(dict(one.search)[DEPTH]))


def _speedup(setting: Setting, base: Setting | None) -> Interval | None:
    """The base's mean latency over that of a setting, repeat by repeat."""
    if base is None or base is setting:
        return None
    ours, theirs = (
        {one.run: one.raw["latency_us"]["mean"] for one in of.points if one.raw["latency_us"]} for of in (setting, base)
    )
    return compared(theirs, ours) if ours and theirs else None


def _rest(setting: Setting) -> tuple[str, Options, Options, Options]:
    rest = tuple(option for option in setting.search if option[0] != DEPTH)
    return setting.engine, setting.build, rest, setting.asked


def _middle(setting: Setting, name: str) -> float | None:
    """A figure of latency in milliseconds, over repeats."""

    def of(point: Point) -> float | None:
        latency = point.raw["latency_us"]
        return latency[name] / 1e3 if latency and has(point.raw, name) else None

    found = setting.figure(of)
    return found.median if found else None


def _pages(setting: Setting) -> float | None:
    found = setting.figure(lambda point: (point.raw.get("work") or {}).get("pages_missed"))
    return found.median if found else None


def _kib(setting: Setting) -> float | None:
    """KiB that were read for a query."""
    found = setting.figure(lambda point: point.raw.get("bytes_read_per_query"))
    return found.median / 1024 if found else None


def _requests(setting: Setting) -> float | None:
    """Requests to the disk per query."""

    def of(point: Point) -> float | None:
        reads = _disk(point).get("reads")
        return None if reads is None else reads / max(point.raw["count"], 1)

    found = setting.figure(of)
    return found.median if found else None


def _of_disk(setting: Setting, of: Callable[[Disk], float | None], scale: float = 1.0) -> float | None:
    """A figure of the disk during the queries."""
    found = setting.figure(lambda point: of(_disk(point)))
    return found.median * scale if found else None


def _disk(point: Point) -> Disk:
    """The work of the disk during the queries; empty if it is not known."""
    return last_disk(point.raw.get("phases")) or {}
