"""`phases`: load, index, serial and concurrent search, and the CPU and disk use of each phase."""

from __future__ import annotations

from typing import Literal

from pagehop_lab.analysis.points import Point, shown
from pagehop_lab.analysis.records import Disk, Phase
from pagehop_lab.analysis.settings import Setting, settings_of
from pagehop_lab.suites import every_suite
from pagehop_lab.suites.concurrency import tables as concurrency
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Cell, Section, Table, with_marks


def sections(results: Results) -> list[Section]:
    """One section for each set."""
    found = []
    for dataset, facts in results.datasets.items():
        points = results.of(dataset)
        settings = settings_of(points)
        title = f"{dataset}: {facts['rows']:,} x {facts['dim']}, {facts['metric']}, k = {results.k}"
        tables = [
            searches(results, settings, dataset),
            profiles(results, dataset),
            every_suite.indexes(results, dataset),
            every_suite.invalid(results, points, dataset),
            every_suite.all_points(results, points, dataset),
        ]
        charts = [concurrency.chart(results, settings, dataset), concurrency.latencies(results, settings, dataset)]
        found.append(Section(title, with_marks(charts), tables))
    return found


def searches(results: Results, settings: list[Setting], dataset: str) -> Table:
    """Throughput, latency and recall of serial and concurrent search."""
    rows = []
    for setting in settings:
        recall, qps = setting.recall.median, setting.qps
        rows.append([
            Cell(results.title(setting.engine), setting.engine),
            Cell(setting.label, setting.label),
            Cell.of(setting.sessions, "d"),
            Cell.of(recall, ".4f"),
            Cell.of(qps.median, ",.1f", file=setting.middle.file, title=f"{qps.low:,.1f} to {qps.high:,.1f}"),
            *(Cell.of(_latency_ms(setting, name), ",.2f") for name in ("p50", "p95", "p99")),
        ])  # fmt: skip
    columns = ("engine", "setting", "sessions", f"recall@{results.k}", "QPS", "p50 ms", "p95 ms", "p99 ms")
    return Table(f"searches-{dataset}", "Searches", columns, rows, "One session is serial search.")


def profiles(results: Results, dataset: str) -> Table:
    """The cost of each phase, and its use of the disk."""
    rows = []
    for build in results.builds:
        if build.dataset == dataset:
            named = [Cell(results.title(build.engine), build.engine), Cell(shown(build.options) or "-")]
            rows += [[*named, *_phase(phase, build.file)] for phase in build.raw.get("phases", [])]
    for point in results.of(dataset):
        if point.valid:
            named = [Cell(results.title(point.engine), point.engine), Cell(point.label)]
            rows += [[*named, *_phase(_named(phase, point), point.file)] for phase in point.raw.get("phases", [])]
    columns = (
        "engine", "setting", "phase", "seconds", "cores", "reads/s", "writes/s", "KiB/read", "KiB/write",
        "KiB of reads", "KiB of writes", "random reads", "reads of all", "queue", "disk busy",
    )  # fmt: skip
    note = "Cores are those that the engine kept busy. The disk is the one under the engine's files, with whatever "
    note += "else uses it. KiB of reads and of writes are the requests by size, brought down to powers of two, the "
    note += "most frequent first; a read is random if it does not begin where one of the last 32 ended. Both are from "
    note += "the kernel's trace, which needs root. The phase of a search has its warming up, and the start of a client."
    return Table(f"profiles-{dataset}", "Phases and what they ask of the disk", columns, rows, note)


def _named(phase: Phase, point: Point) -> Phase:
    return {**phase, "phase": f"search by {point.sessions}"}


def _phase(phase: Phase, file: str) -> list[Cell]:
    seconds, disk = phase["seconds"], phase["disk"] or Disk()
    return [
        Cell(phase["phase"], phase["phase"]),
        Cell.of(seconds, ",.2f", file=file),
        Cell.of(phase["cpu_s"] / seconds if seconds else None, ".2f"),
        Cell.of(disk.get("reads_per_s"), ",.1f"),
        Cell.of(disk.get("writes_per_s"), ",.1f"),
        Cell.of(_kib(disk, "bytes_per_read"), ",.1f"),
        Cell.of(_kib(disk, "bytes_per_write"), ",.1f"),
        _requests(disk, "reads"),
        _requests(disk, "writes"),
        Cell.of(_random_share(disk), ".0%"),
        Cell.of(disk.get("read_share"), ".0%"),
        Cell.of(disk.get("queue_depth"), ".2f"),
        Cell.of(disk.get("busy_share"), ".0%"),
    ]


def _requests(disk: Disk, kind: Literal["reads", "writes"]) -> Cell:
    """Requests by size; sizes with at least a hundredth of the requests."""
    traced = disk.get("requests")
    if traced is None:
        return Cell("-", None, "", str(disk.get("untraced") or ""))
    sizes = {int(size): count for size, count in traced[kind]["sizes"].items()}
    total = sum(sizes.values())
    shares = sorted(((count / total, size) for size, count in sizes.items()), reverse=True)
    text = ", ".join(f"{size / 1024:g}: {share:.0%}" for share, size in shares if share >= 0.01)
    lost = f"{traced['lost']} events did not fit into the trace" if traced["lost"] else ""
    return Cell(text or "-", text, "", lost)


def _random_share(disk: Disk) -> float | None:
    traced = disk.get("requests")
    return None if traced is None else traced["reads"]["random_share"]


def _kib(disk: Disk, name: Literal["bytes_per_read", "bytes_per_write"]) -> float | None:
    figure = disk.get(name)
    return None if figure is None else figure / 1024


def _latency_ms(setting: Setting, name: str) -> float | None:
    def of(point: Point) -> float | None:
        latency = point.raw["latency_us"]
        return latency[name] / 1e3 if latency else None

    found = setting.figure(of)
    return found.median if found else None
