"""`concurrency`: throughput by sessions, on one fixed index and setting of each engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pagehop_lab.analysis.intervals import compared
from pagehop_lab.analysis.points import Options, shown
from pagehop_lab.analysis.sessions import fit, per_session
from pagehop_lab.analysis.settings import Setting, Spread, settings_of
from pagehop_lab.suites import every_suite
from pagehop_lab.suites.latencies import of_setting, percentiles
from pagehop_lab.suites.ratios import NOTE, ratio_cell
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Cell, Chart, Mark, Section, Series, Table, with_marks

Fixed = tuple[str, Options, Options]
"""An engine, one index, one setting of its search, and the unusual options of the load."""


def sections(results: Results) -> list[Section]:
    """One section for each set."""
    found = []
    for dataset, facts in results.datasets.items():
        points = results.of(dataset)
        curves = _curves(settings_of(points))
        title = f"{dataset}: {facts['rows']:,} x {facts['dim']}, {facts['metric']}, {facts['queries']:,} queries"
        tables = [
            _absolute(results, curves, dataset),
            _relative(results, curves, dataset),
            _each(results, curves, dataset),
            _cost(results, curves, dataset),
            _laws(results, curves, dataset),
            *([profiles(results, curves, dataset)] if results.load.get("profile_sessions") else []),
            every_suite.indexes(results, dataset),
            every_suite.invalid(results, points, dataset),
            every_suite.all_points(results, points, dataset),
        ]
        settings = settings_of(points)
        charts = [
            chart(results, settings, dataset),
            chart_each(results, settings, dataset),
            latencies(results, settings, dataset),
        ]
        found.append(Section(title, with_marks(charts), tables))
    return found


def _curves(settings: Sequence[Setting]) -> dict[Fixed, dict[int, Setting]]:
    curves: dict[Fixed, dict[int, Setting]] = {}
    for one in settings:
        curves.setdefault((one.engine, one.build, one.search + one.asked), {})[one.sessions] = one
    return curves


def _numbers(curves: Mapping[Fixed, Mapping[int, Setting]]) -> list[int]:
    return sorted({sessions for curve in curves.values() for sessions in curve})


def _named(results: Results, fixed: Fixed, curve: Mapping[int, Setting]) -> list[Cell]:
    engine, build, search = fixed
    words = " ".join(filter(None, [shown(build), shown(search)]))
    recall = Spread.of([one.recall.median for one in curve.values()])
    title = f"{recall.low:.4f} to {recall.high:.4f} by all numbers of sessions"
    return [Cell(results.title(engine), engine), Cell(words or "-", words), Cell.of(recall.median, ".4f", title=title)]


def _by_sessions(
    results: Results,
    curves: Mapping[Fixed, Mapping[int, Setting]],
    cell: Callable[[Fixed, int, Setting], Cell],
    name: str,
    title: str,
    note: str,
) -> Table:
    """A table with a column for each number of sessions."""
    numbers = _numbers(curves)
    rows = [
        _named(results, fixed, curve) + [cell(fixed, n, curve[n]) if n in curve else Cell("-") for n in numbers]
        for fixed, curve in curves.items()
    ]
    return Table(name, title, ("engine", "setting", "recall", *map(str, numbers)), rows, note)


def _absolute(results: Results, curves: Mapping[Fixed, Mapping[int, Setting]], dataset: str) -> Table:
    def cell(_: Fixed, __: int, setting: Setting) -> Cell:
        qps, recall = setting.qps, setting.recall.median
        title = f"recall {recall:.4f}, {qps.low:,.0f} to {qps.high:,.0f}"
        return Cell.of(qps.median, ",.0f", file=setting.middle.file, title=title)

    note = "Recall is the middle over all numbers of sessions; that of each is in its raw file."
    return _by_sessions(results, curves, cell, f"qps-{dataset}", "QPS by sessions", note)


def _relative(results: Results, curves: Mapping[Fixed, Mapping[int, Setting]], dataset: str) -> Table:
    base = next((curve for (engine, _, _), curve in curves.items() if engine == results.base), {})

    def cell(_: Fixed, sessions: int, setting: Setting) -> Cell:
        if sessions not in base:
            return Cell("-")
        over = compared(setting.qps_by_run, base[sessions].qps_by_run)
        return ratio_cell(over, setting.middle.file, is_base=setting is base[sessions])

    title = f"QPS relative to {results.title(results.base)}"
    note = f"The first setting of that engine is the base; whether recall is equal is for the plan to see to. {NOTE}"
    return replace(_by_sessions(results, curves, cell, f"relative-{dataset}", title, note), is_heat=True)


def _each(results: Results, curves: Mapping[Fixed, Mapping[int, Setting]], dataset: str) -> Table:
    def cell(_: Fixed, sessions: int, setting: Setting) -> Cell:
        return Cell.of(per_session([setting])[sessions], ",.1f", file=setting.middle.file)

    note = "What one session gets of it. A flat row scales."
    return _by_sessions(results, curves, cell, f"per-session-{dataset}", "QPS of each session", note)


def _cost(results: Results, curves: Mapping[Fixed, Mapping[int, Setting]], dataset: str) -> Table:
    def cell(_: Fixed, __: int, setting: Setting) -> Cell:
        cpu = setting.figure(lambda point: point.raw.get("engine_cpu_us_per_query"))
        switches = setting.figure(lambda point: point.raw.get("switches_per_query"))
        if cpu is None:
            return Cell("-")
        text = f"{cpu.median:,.1f}" + (f" / {switches.median:.2f}" if switches else "")
        return Cell(text, cpu.median, setting.middle.file)

    note = "CPU microseconds / context switches of the engine for each query."
    return _by_sessions(results, curves, cell, f"cost-{dataset}", "Cost of a query by sessions", note)


def _laws(results: Results, curves: Mapping[Fixed, Mapping[int, Setting]], dataset: str) -> Table:
    rows = []
    for fixed, curve in curves.items():
        law = fit({sessions: setting.qps.median for sessions, setting in curve.items()})
        if law is None:
            rows.append([*_named(results, fixed, curve), *[Cell("-")] * 4])
            continue
        peak = law.peak_sessions
        rows.append([
            *_named(results, fixed, curve),
            Cell.of(law.scale, ",.0f"),
            Cell.of(law.contention, ".3f"),
            Cell.of(law.coherence, ".5f"),
            Cell("none") if math.isinf(peak) else Cell.of(peak, ".0f"),
        ])  # fmt: skip
    note = (
        "The universal scalability law, fitted to four numbers of sessions at least; extrapolates nothing but its peak."
    )
    columns = ("engine", "setting", "recall", "QPS of one", "contention", "coherence", "peak at sessions")
    return Table(f"scaling-{dataset}", "Scaling", columns, rows, note)


def profiles(results: Results, curves: Mapping[Fixed, Mapping[int, Setting]], dataset: str) -> Table:
    """The functions that the engine's time goes to, side by side for each number of sessions."""
    wanted = [int(sessions) for sessions in results.load["profile_sessions"]]
    rows, reasons = [], set[str]()
    for fixed, curve in curves.items():
        by_function: dict[tuple[str, str], dict[int, float]] = {}
        for sessions in wanted:
            measured = curve[sessions].points if sessions in curve else ()
            point = next((one for one in measured if "profile" in one.raw), None)
            if point is None:
                continue
            reasons |= {f"{results.title(fixed[0])}: {point.raw['no_profile']}"} if "no_profile" in point.raw else set()
            for percent, library, function in point.raw["profile"]:
                by_function.setdefault((library, function), {})[sessions] = percent
        ordered = sorted(by_function.items(), key=lambda one: -max(one[1].values()))
        rows += [
            [
                *_named(results, fixed, curve),
                Cell(library),
                Cell(function),
                *(Cell.of(of.get(n), ".1f") for n in wanted),
            ]
            for (library, function), of in ordered
        ]
    note = "Percent of samples of the engine's processes by the CPU's clock, while the queries of a valid measurement "
    note += "were asked once more. A dash is a function below the top twelve. For a library, the client is included."
    note += "".join(f" {reason}." for reason in sorted(reasons))
    columns = ("engine", "setting", "recall", "library", "function", *(f"% at {n}" for n in wanted))
    return Table(f"profile-{dataset}", "Where the time goes, by sessions", columns, rows, note)


def chart(results: Results, settings: Sequence[Setting], dataset: str) -> Chart:
    """QPS by sessions, a line for each index and setting."""
    note = "Closed loop: each session asks again when it has its answer. Each mark leads to its raw file."
    series = _curves_of(results, settings, lambda _: 1)
    return Chart(f"sessions-{dataset}", "Sessions and throughput", "sessions", "QPS", series, False, note)


def chart_each(results: Results, settings: Sequence[Setting], dataset: str) -> Chart:
    """QPS of each session, a line for each index and setting."""
    series = _curves_of(results, settings, lambda sessions: sessions)
    note = "QPS over the number of sessions: a flat line scales."
    return Chart(f"each-{dataset}", "What one session gets", "sessions", "QPS of each session", series, False, note)


def latencies(results: Results, settings: Sequence[Setting], dataset: str) -> Chart:
    """Latency with the fewest and with the most sessions of each index and setting."""
    curves = {}
    for fixed, curve in _curves(settings).items():
        for sessions in dict.fromkeys((min(curve), max(curve))):
            words = f"{sessions} sessions" if sessions > 1 else "one session"
            curves[f"{_words(results, fixed)}, {words}"] = of_setting(curve[sessions])
    return percentiles(f"latencies-{dataset}", "Latency with the fewest and the most sessions", curves)


def _words(results: Results, fixed: Fixed) -> str:
    return " ".join(filter(None, [results.title(fixed[0]), shown(fixed[1]), shown(fixed[2])]))


def _curves_of(results: Results, settings: Sequence[Setting], over: Callable[[int], int]) -> list[Series]:
    """QPS by sessions, over 1 or over a figure of their number."""
    series = []
    for fixed, curve in _curves(settings).items():
        marks = []
        for n, one in sorted(curve.items()):
            low, middle, high = (qps / over(n) for qps in (one.qps.low, one.qps.median, one.qps.high))
            told = f"{one.label}, {n} sessions: {middle:,.0f} QPS, recall {one.recall.median:.4f}"
            marks.append(Mark(n, middle, told, one.middle.file, False, low, high))
        series.append(Series(_words(results, fixed), marks, [(mark.x, mark.y) for mark in marks]))
    return series
