"""Suite c: the first queries after every cache was emptied, and what reading ahead makes of them."""

from __future__ import annotations

from collections.abc import Sequence

from pagehop_lab.analysis.points import OptionValue, Point, shown
from pagehop_lab.analysis.settings import Setting, settings_of
from pagehop_lab.suites import equal_recall, every_suite
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Cell, Section, Table

# The option by which a server reads ahead; settings that differ only in it are compared.
DEPTH = "effective_io_concurrency"


def sections(results: Results) -> list[Section]:
    """One section for each set."""
    found = []
    for dataset, facts in results.datasets.items():
        points = results.of(dataset)
        title = f"{dataset}: {facts['rows']:,} x {facts['dim']}, {facts['metric']}, cold"
        tables = [
            latencies(results, settings_of(points), dataset),
            every_suite.indexes(results, dataset),
            every_suite.invalid(results, points, dataset),
            every_suite.all_points(results, points, dataset),
        ]
        found.append(Section(title, [equal_recall.chart(results, points, dataset)], tables))
    return found


def latencies(results: Results, settings: Sequence[Setting], dataset: str) -> Table:
    """Milliseconds of a query, how they scatter, and what was read for them."""
    rows = []
    for setting in settings:
        base, mean = _base(setting, settings), _middle(setting, "mean")
        theirs = _middle(base, "mean") if base is not None and base is not setting else None
        rows.append([
            Cell(results.title(setting.engine), setting.engine),
            Cell(setting.label, setting.label),
            Cell.of(setting.recall.median, ".4f"),
            Cell.of(mean, ",.2f", file=setting.middle.file),
            Cell.of(theirs / mean if theirs and mean else None, ".2f"),
            Cell.of(_middle(setting, "stdev"), ",.2f"),
            Cell.of(_middle(setting, "p50"), ",.2f"),
            Cell.of(_middle(setting, "p99"), ",.2f"),
            Cell.of(_figure(setting, "storage_reads_per_query"), ",.1f"),
            Cell.of(_figure(setting, "bytes_read_per_query", 1 / 1024), ",.1f"),
            Cell.of(_disk(setting, "bytes_per_read", 1 / 1024), ",.1f"),
            Cell.of(_disk(setting, "ms_per_read"), ",.3f"),
            Cell.of(_disk(setting, "queue_depth"), ",.2f"),
        ])  # fmt: skip
    columns = (
        "engine", "setting", "recall", "mean ms", "speedup", "stdev ms", "p50 ms", "p99 ms", "reads", "KiB read",
        "KiB/request", "ms/request", "in flight",
    )  # fmt: skip
    count = results.load["cold_queries"]
    note = f"The first {count} queries, each asked once, after every cache was emptied: later ones find some of what "
    note += f"earlier ones read. Speedup is over the same with the least {DEPTH}. Reads are pages of 4 KiB for each "
    note += "query, with what a server read to connect; the last three columns are the disk's own, whoever used it."
    return Table(f"cold-{dataset}", "Cold queries", columns, rows, note)


def _base(setting: Setting, settings: Sequence[Setting]) -> Setting | None:
    """The setting that differs only in how far it reads ahead, with the least of that."""
    if DEPTH not in dict(setting.search):
        return None
    alike = [one for one in settings if _rest(one) == _rest(setting)]
    return min(alike, key=lambda one: float(dict(one.search)[DEPTH]))


def _rest(setting: Setting) -> tuple[str, str, tuple[tuple[str, OptionValue], ...]]:
    rest = tuple(option for option in setting.search if option[0] != DEPTH)
    return setting.engine, shown(setting.build), rest


def _middle(setting: Setting, name: str) -> float | None:
    """A figure of latency in milliseconds, over repeats."""

    def of(point: Point) -> float | None:
        latency = point.raw["latency_us"]
        return latency[name] / 1e3 if latency else None

    found = setting.figure(of)
    return found.median if found else None


def _figure(setting: Setting, name: str, scale: float = 1.0) -> float | None:
    found = setting.figure(lambda point: point.raw.get(name))
    return found.median * scale if found else None


def _disk(setting: Setting, name: str, scale: float = 1.0) -> float | None:
    """What the disk did while the queries were asked."""

    def of(point: Point) -> float | None:
        phases = point.raw.get("phases") or [{}]
        return (phases[-1].get("disk") or {}).get(name)

    found = setting.figure(of)
    return found.median * scale if found else None
