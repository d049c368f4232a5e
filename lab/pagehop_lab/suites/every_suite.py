"""Tables of every suite: builds, points, invalid and missing measurements, counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pagehop_lab.analysis.coverage import Coverage
from pagehop_lab.analysis.points import Options, Point, shown, told
from pagehop_lab.analysis.recalls import RECALL_NAMES
from pagehop_lab.analysis.records import BuildRecord
from pagehop_lab.analysis.settings import Spread
from pagehop_lab.suites.latencies import has
from pagehop_lab.suites.results import Build, Results
from pagehop_lab.suites.table import Cell, Table, brief


def indexes(results: Results, dataset: str, name: str = "") -> Table:
    """Build seconds and sizes of every index, the median of its rebuilds.

    `name` tells sections apart.
    """
    grouped: dict[tuple[str, Options], list[Build]] = {}
    for build in results.builds:
        if build.dataset == dataset:
            grouped.setdefault((build.engine, build.options), []).append(build)
    rows = []
    for (engine, options), builds in grouped.items():
        seconds = _figures(builds, lambda raw: raw.get("build_s"))
        rows.append([
            Cell(results.title(engine), engine),
            Cell(shown(options) or "-", shown(options)),
            _cell(builds, lambda raw: raw.get("load_s"), ",.1f"),
            Cell.of(Spread.of(seconds).median, ",.2f", file=builds[0].file, title=_spread(seconds, " s")),
            _cpu(builds),
            _cell(builds, lambda raw: raw.get("index_bytes"), ",.1f", 1e-6),
            _cell(builds, lambda raw: raw.get("table_bytes"), ",.1f", 1e-6),
            _cell(builds, lambda raw: raw.get("memory_peak_bytes"), ",.0f", 1e-6),
            Cell(", ".join(f"{number}" for number in sorted({build.group for build in builds}))),
            Cell.of(len(builds), "d"),
        ])  # fmt: skip
    columns = ("engine", "index", "load s", "index s", "CPU s", "index MB", "table MB", "peak MB", "group", "builds")
    threads = results.load["build_threads"]
    note = f"Built by {threads} {'threads' if threads > 1 else 'thread'}. Index seconds are for the index alone, and "
    note += "CPU seconds for all processes during that time; the load of a table has its own column. Index MB include "
    note += (
        "the rows if the engine keeps them in its index, as all libraries do; peak MB are the peak resident set. "
        "Indexes of one group were open at once and measured in turns. Ratios across groups have no pairs of repeats."
    )
    return Table(f"indexes-{name or dataset}", "Indexes", columns, rows, note)


def all_points(results: Results, points: Sequence[Point], dataset: str) -> Table:
    """Every point that was measured, valid or not."""
    rows = [_point_row(results, point) for point in points]
    columns = (
        "engine", "index", "search", "sessions", "load", "run", "recall by id", "by threshold", "with ties",
        "95% interval", "QPS", "p50 us", "p95 us", "p99 us", "engine CPU us", "client CPU us", "switches", "reads",
        "MB", "verdict",
    )  # fmt: skip
    note = "Every measurement; QPS leads to its raw file. CPU, context switches and reads from storage are for each "
    note += "query. A library's CPU has the client's in it; MB is the memory of the engine's processes during it."
    return Table(f"points-{dataset}", "All measurements", columns, rows, note)


def _point_row(results: Results, point: Point) -> list[Cell]:
    raw, recall, latency = point.raw, point.raw["recall"] or {}, point.raw["latency_us"] or {}
    interval = (raw["recall_interval"] or {}).get(RECALL_NAMES[results.recall_by])
    verdict = "; ".join(point.wrong) or "; ".join(point.noted) or "valid"
    return [
        Cell(results.title(point.engine), point.engine),
        Cell(shown(point.build) or "-", shown(point.build)),
        Cell(shown(point.search) or "-", shown(point.search)),
        Cell.of(point.sessions, "d"),
        Cell(told(point.asked) or "plain", told(point.asked)),
        Cell(f"{point.rebuild + 1}.{point.repeat + 1}"),
        *(Cell.of(recall.get(name), ".4f") for name in ("by_id", "by_threshold", "with_ties")),
        Cell(f"{interval[0]:.4f}-{interval[1]:.4f}" if interval else "-"),
        Cell.of(point.qps, ",.0f", file=point.file, invalid=not point.valid, title=verdict),
        *(Cell.of(latency.get(name) if has(raw, name) else None, ",.1f") for name in ("p50", "p95", "p99")),
        Cell.of(raw.get("engine_cpu_us_per_query"), ",.1f"),
        Cell.of(raw.get("client_cpu_us_per_query"), ",.1f"),
        Cell.of(raw.get("switches_per_query"), ",.2f"),
        Cell.of(raw.get("storage_reads_per_query"), ",.2f"),
        Cell.of(_scaled(raw.get("memory_bytes"), 1e-6), ",.0f"),
        Cell(verdict, verdict, invalid=not point.valid),
    ]


def invalid(results: Results, points: Sequence[Point], dataset: str) -> Table:
    """Invalid measurements, with the reasons."""
    rows = [
        [Cell(results.title(point.engine), point.engine), Cell(point.label), Cell(reason, reason, point.file, "", True)]
        for point in points
        for reason in point.wrong
    ]
    return Table(f"invalid-{dataset}", "Invalid", ("engine", "setting", "why"), rows, "None of these are compared.")


def coverage(results: Results) -> Table:
    """Measurements of the plan that are missing."""
    return not_there(results.coverage, results.damaged, results.title, results.missing_datasets)


def not_there(
    found: Coverage, damaged: Sequence[str], title: Callable[[str], str], missing_datasets: Mapping[str, str]
) -> Table:
    """Failed, missing and unreadable measurements.

    `title` is the heading of an engine or a server.
    """
    rows = [
        [Cell("failed"), Cell(name), Cell(brief(reason), reason, "", "", True)] for name, reason in found.told.items()
    ]
    rows += [[Cell("set"), Cell(name), Cell(brief(why), why, "", "", True)] for name, why in missing_datasets.items()]
    for engine, options in found.lost.items():
        for option, values in options.items():
            told = f"no point has {option} = {', '.join(map(str, values))}"
            rows.append([Cell("lost values"), Cell(title(engine)), Cell(told, told, "", "", True)])
    rows += [[Cell("missing"), Cell(cell.name), Cell("not measured", "", "", "", True)] for cell in found.missing[:200]]
    rows += [[Cell("damaged"), Cell(name), Cell("cannot be read", "", "", "", True)] for name in damaged]
    note = f"{found.configured_count:,} points were planned: {found.present_count:,} measured, {len(found.failed):,} "
    note += f"failed, {len(found.missing):,} not measured."
    if len(found.missing) > 200:
        note += " The first 200 of those are listed."
    return Table("coverage", "Grid coverage", ("what", "which", "why"), rows, note)


def engines(results: Results) -> Table:
    """Versions, sources of settings and the ceiling of the client."""
    rows = []
    for facts in results.engines:
        ceilings = [float(one["qps"]) for one in results.ceilings if one["engine"] == facts.name]
        version = Cell(facts.version or "-", facts.version)
        if facts.failed is not None:
            before = f"{facts.version}, and later: " if facts.version else ""
            version = Cell(before + brief(facts.failed), "", invalid=True)
        rows.append([
            Cell(facts.title, facts.name),
            version,
            Cell.of(max(ceilings) if ceilings else None, ",.0f"),
            Cell(facts.source),
        ])  # fmt: skip
    note = "Ceiling: QPS of the same client when the engine does nothing (libraries) or returns as many rows of the "
    note += "table in the order of their ids (servers)."
    return Table("engines", "Engines", ("engine", "version", "ceiling QPS", "settings after"), rows, note)


OfBuild = Callable[[BuildRecord], float | None]


def _figures(builds: Sequence[Build], of: OfBuild) -> list[float]:
    return [figure for build in builds if (figure := of(build.raw)) is not None]


def _cpu(builds: Sequence[Build]) -> Cell:
    figures = [build.cpu_s for build in builds if build.cpu_s is not None]
    return Cell.of(Spread.of(figures).median if figures else None, ",.1f")


def _cell(builds: Sequence[Build], of: OfBuild, form: str, scale: float = 1.0) -> Cell:
    figures = _figures(builds, of)
    return Cell.of(Spread.of(figures).median * scale if figures else None, form)


def _spread(figures: Sequence[float], unit: str) -> str:
    return f"{min(figures):,.2f} to {max(figures):,.2f}{unit}" if len(figures) > 1 else "one build"


def _scaled(value: Any, scale: float) -> float | None:
    return None if value is None else float(value) * scale
