"""Builds and searches within a limit of memory, one line for each number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pagehop_lab.analysis.aims import FIGURES
from pagehop_lab.analysis.points import Options, Point, shown
from pagehop_lab.analysis.records import MemoryLimit
from pagehop_lab.analysis.settings import Setting, Spread
from pagehop_lab.analysis.targets import AtTarget, at_targets
from pagehop_lab.suites.latencies import has
from pagehop_lab.suites.results import Build, Results
from pagehop_lab.suites.table import Cell, Section, Table, brief

_MIB, _GB = 2.0**20, 1e9


def section(results: Results) -> Section:
    """The tables of all sets together."""
    title = f"Growth by rows, in {results.load['build_memory_mib']:,} MiB of memory"
    return Section(title, tables=[builds(results), searches(results)])


def builds(results: Results) -> Table:
    """What each build took, or why there is none."""
    grouped: dict[tuple[str, Options, str], list[Build]] = {}
    for build in results.builds:
        grouped.setdefault((build.engine, build.options, build.dataset), []).append(build)
    lines = [(key, _built(results, found)) for key, found in grouped.items()]
    lines += [
        ((one.engine, one.options, one.dataset), [Cell(brief(one.reason, 90), one.reason, one.file, one.reason, True)])
        for one in results.unbuilt
        if (one.engine, one.options, one.dataset) not in grouped
    ]
    rows = [
        [*_named(results, engine, options, dataset), *cells]
        for (engine, options, dataset), cells in sorted(lines, key=lambda line: _order(results, *line[0]))
    ]
    columns = (
        "engine", "index", "set", "rows", "seconds", "CPU s", "CPU us/row", "peak MiB", "anonymous MiB", "GB read",
        "GB written", "GB on disk", "index GB", "bytes/row",
    )  # fmt: skip
    note = "Middle of the rebuilds. The source is read from storage, and its bytes count. Peak MiB are what the kernel "
    note += "counted for the control group, with its cache of files, of which it drops some when the group is full: so "
    note += "a peak at the limit is usual. Anonymous MiB are without that cache, and GB on disk the largest space of "
    note += "the build's files, nameless ones included; both are sampled five times a second. GB read and written "
    note += "are those of storage. A dash is a figure that the kernel does not report here."
    return Table("growth-builds", "Builds by rows", columns, _filled(rows, columns), note)


def searches(results: Results) -> Table:
    """The fastest setting of each engine at each target, for every load and number of rows."""
    lines = []
    for dataset in results.datasets:
        for (sessions, asked), points in results.by_load(dataset).items():
            for found in at_targets(points, results.targets):
                options = dict(asked)
                state, batch = str(options.get("cache", "cold")), int(options.get("batch", 1))
                threads = max(sessions, int(options.get("threads", 1)))
                place = results.load["caches"].index(state), batch, threads
                lines.append((found, dataset, place, [Cell(state), Cell.of(batch, ",d"), Cell.of(threads, "d")]))

    def order(line: tuple[AtTarget, str, tuple[int, int, int], list[Cell]]) -> tuple[object, ...]:
        found, dataset, place, _ = line
        engine, _, rows = _order(results, found.engine, (), dataset)
        return found.target, engine, place, rows

    rows = []
    for found, dataset, _, load in sorted(lines, key=order):
        head = [Cell.of(found.target, ".3f"), *_named(results, found.engine, None, dataset), *load]
        rows.append([*head, *(_searched(found.best) if found.best else [Cell("not reached")])])
    columns = (
        "recall >=", "engine", "set", "rows", "caches", "queries a call", "threads", "recall", "QPS", "p50 ms",
        "p99 ms", "CPU us", "reads", "KiB read", "pages", "of fio", "first ms", "setting",
    )  # fmt: skip
    note = f"The fastest setting with recall@{results.k} at or above the target; QPS lead to a raw file. Searches have "
    note += "the limit of the build. Cold: after every cache was emptied. Warm: after the queries that are not "
    note += "measured. Fresh: caches are emptied before each query, and QPS leave that time out. Threads answer one "
    note += "call of several queries, or are sessions with one query each; diskannpy answers one such query at a time. "
    note += "CPU, reads of 4 KiB and KiB are for a query, from storage; pages are counted by the index itself. Of "
    note += (
        "fio: the disk's requests a second over those that fio gets just after, with requests of the same mean size "
    )
    note += "and as many in flight. First ms is from opening to the first answer, with nothing cached."
    return Table("growth-searches", "Searches by rows", columns, _filled(rows, columns), note)


def _filled(rows: Sequence[Sequence[Cell]], columns: Sequence[str]) -> list[list[Cell]]:
    """Lines with all columns. A line of something that failed ends with the reason."""
    return [[*row, *[Cell("-")] * (len(columns) - len(row))] for row in rows]


def _order(results: Results, engine: str, options: Options, dataset: str) -> tuple[int, str, int]:
    """Engines in the order of the plan, and sets by their rows."""
    names = [facts.name for facts in results.engines]
    return names.index(engine), shown(options), results.datasets[dataset]["rows"]


def _named(results: Results, engine: str, options: Options | None, dataset: str) -> list[Cell]:
    index = [] if options is None else [Cell(shown(options) or "-", shown(options))]
    rows = Cell.of(results.datasets[dataset]["rows"], ",d")
    return [Cell(results.title(engine), engine), *index, Cell(dataset, dataset), rows]


def _built(results: Results, found: Sequence[Build]) -> list[Cell]:
    rows = results.datasets[found[0].dataset]["rows"]

    def cell(of: Callable[[Build], float | None], form: str, scale: float = 1.0) -> Cell:
        known = [value for build in found if (value := of(build)) is not None]
        return Cell.of(Spread.of(known).median / scale if known else None, form, file=found[0].file)

    def limit(build: Build) -> MemoryLimit:
        return build.raw.get("memory_limit") or {}

    return [
        cell(lambda build: build.raw.get("build_s"), ",.1f"),
        cell(lambda build: build.cpu_s, ",.1f"),
        cell(results.cpu_us_a_row, ",.0f"),
        cell(lambda build: limit(build).get("peak_bytes"), ",.0f", _MIB),
        cell(lambda build: limit(build).get("anonymous_peak_bytes"), ",.0f", _MIB),
        cell(lambda build: build.raw.get("bytes_read"), ",.2f", _GB),
        cell(lambda build: build.raw.get("bytes_written"), ",.2f", _GB),
        cell(lambda build: build.raw.get("disk_peak_bytes"), ",.2f", _GB),
        cell(lambda build: build.raw.get("index_bytes"), ",.2f", _GB),
        cell(lambda build: build.raw.get("index_bytes"), ",.0f", rows),
    ]


def _searched(setting: Setting) -> list[Cell]:
    def cell(of: Callable[[Point], float | None] | None, form: str) -> Cell:
        found = setting.figure(of) if of is not None else None
        return Cell.of(found.median if found else None, form)

    def latency_ms(name: str) -> Callable[[Point], float | None]:
        return lambda point: (
            point.raw["latency_us"][name] / 1e3 if point.raw["latency_us"] and has(point.raw, name) else None
        )

    def kib(point: Point) -> float | None:
        read = point.raw.get("bytes_read_per_query")
        return None if read is None else read / 1024

    words = " ".join(filter(None, [shown(setting.build), shown(setting.search)]))
    return [
        Cell.of(setting.recall.median, ".4f"),
        Cell.of(setting.qps.median, ",.0f", file=setting.middle.file),
        cell(latency_ms("p50"), ",.2f"),
        cell(latency_ms("p99"), ",.2f"),
        cell(lambda point: point.raw.get("engine_cpu_us_per_query"), ",.0f"),
        cell(lambda point: point.raw.get("storage_reads_per_query"), ",.1f"),
        cell(kib, ",.1f"),
        cell(FIGURES["pages"].of_point, ",.1f"),
        cell(FIGURES["fio_share"].of_point, ".2f"),
        cell(FIGURES["first_ms"].of_point, ",.1f"),
        Cell(words, words),
    ]
