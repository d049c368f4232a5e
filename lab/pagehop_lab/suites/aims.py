"""The aims of runs, with verdicts; several plans share one table."""

from __future__ import annotations

from collections.abc import Sequence

from pagehop_lab.analysis.aims import FIGURES, Aim, Series, at_recall, ratio, verdict
from pagehop_lab.analysis.intervals import Interval
from pagehop_lab.analysis.points import Point
from pagehop_lab.analysis.turns import Run
from pagehop_lab.suites.calibration import tables as calibration
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Cell, Table

_COLUMNS = ("what", "set", "recall", "figure", "95% interval", "floor", "aim", "verdict", "from")
_NOTE = """Ratios are taken repeat by repeat, between settings of equal recall; the interval is Student's t over the \
logarithms of the repeats. What was not measured in turns is compared by Welch's t. A limit within the interval is \
neither reached nor missed: it is inconclusive. If the plan's least effort already finds more than the recall, the \
figure is that of the least effort, as the last column says."""


def table(runs: Sequence[Results]) -> Table | None:
    """The aims of all runs, in the order of their plans; None if there are none."""
    rows = [
        _row(results, aim, dataset)
        for results in runs
        for aim in results.aims
        for dataset in results.datasets
        if aim.is_of(dataset)
    ]
    rows += [row for results in runs if results.suite == "calibration" for row in calibration.aim_rows(results)]
    return Table("aims", "What was to be reached", _COLUMNS, rows, _NOTE) if rows else None


def _row(results: Results, aim: Aim, dataset: str) -> list[Cell]:
    figure = FIGURES[aim.figure]
    one, other, beside = _series(results, aim, aim.engine, dataset), None, ""
    head = [Cell(aim.what, aim.what), Cell(dataset, dataset), Cell.of(aim.recall, "g")]
    limits = [Cell.of(aim.floor, ",g"), Cell.of(aim.aim, ",g")]
    is_ratio = bool(aim.over) or aim.over_dataset is not None
    missing = [aim.engine] if one is None else []
    if is_ratio:
        beside, other = _divisor(results, aim, dataset)
        missing += [beside] if other is None else []
    if missing or one is None:
        told = f"{' and '.join(dict.fromkeys(missing))}: recall not reached or not measured"
        return [*head, Cell("-"), Cell("-"), *limits, Cell("not there", told, "", "", True), Cell(told, told)]
    if other is None:
        found = Interval.of(list(one.figures.values()), is_counted=figure.is_counted)
    else:
        is_of_one_set = aim.over_dataset in (None, dataset)
        found = ratio(one, other, is_counted=figure.is_counted, is_of_one_set=is_of_one_set)
    said = verdict(found, aim)
    form = ",.2f" if is_ratio or found.middle < 100 else ",.0f"
    interval = f"{found.low:{form}}-{found.high:{form}}" if found.count > 1 or figure.is_counted else "one repeat"
    told = _told(one, figure.unit)
    if other is not None:
        # Of one divisor the name of the aim says which it is.
        told += f" against {_told(other, figure.unit)}" + (f" of {beside}" if len(aim.over) > 1 else "")
    return [
        *head,
        Cell.of(found.middle, form, file=one.file),
        Cell(interval),
        *limits,
        Cell(said, said, "", "", said == "MISSED"),
        Cell(told, told),
    ]


def _divisor(results: Results, aim: Aim, dataset: str) -> tuple[str, Series | None]:
    """The first engine of an aim's divisors that has the figure; the names of all if none has."""
    engines, of = aim.over or (aim.engine,), aim.over_dataset or dataset
    for engine in engines:
        if (series := _series(results, aim, engine, of)) is not None:
            return engine, series
    return " and ".join(engines) + (f" on {of}" if of != dataset else ""), None


def _told(series: Series, unit: str) -> str:
    middle = series.middle
    return f"{middle:,.{0 if middle >= 100 else 1}f} {unit}" + (f" ({series.told})" if series.told else "")


def _series(results: Results, aim: Aim, engine: str, dataset: str) -> Series | None:
    figure = FIGURES[aim.figure]
    if figure.of_point is None or aim.recall is None:
        return _of_builds(results, aim.figure, engine, dataset)
    points = [point for point in results.of(dataset) if point.engine == engine and _is_asked(results, aim, point)]
    return at_recall(points, aim.recall, figure)


def _of_builds(results: Results, name: str, engine: str, dataset: str) -> Series | None:
    """A figure of each rebuild. If an engine is built in several ways, the one with the least
    median counts.
    """
    by_options: dict[object, dict[Run, float]] = {}
    # A set that is not there has no builds.
    for build in [build for build in results.builds if (build.engine, build.dataset) == (engine, dataset)]:
        raw = build.raw
        size, rows = raw.get("index_bytes"), results.datasets[dataset]["rows"]
        value = {
            "bytes_per_row": (size + (raw.get("table_bytes") or 0)) / rows if size else None,
            "build_s": raw.get("build_s"),
            "build_cpu_s": build.cpu_s,
            "build_cpu_us": results.cpu_us_a_row(build),
        }[name]
        if value is not None:
            by_options.setdefault(build.options, {})[build.run] = value
    series = [Series(figures, "") for figures in by_options.values()]
    return min(series, key=lambda one: one.middle, default=None)


def _is_asked(results: Results, aim: Aim, point: Point) -> bool:
    """Whether a point has the load of an aim.

    An option that the aim leaves out has the first value of the plan.
    """
    load, wanted, asked = results.load, dict(aim.load), dict(point.asked)
    usual = {
        "k": load["ks"][0], "threads": load["call_threads"][0], "cache": load["caches"][0], "batch": load["batch"][0],
        "matching": load["matching"][0], "insert_rate": load["insert_rate"][0],
    }  # fmt: skip
    plain = {"k": load["ks"][0], "threads": 1, "cache": "cold", "batch": 1, "matching": 1.0, "insert_rate": 0.0}
    if wanted.get("cache") == "fresh":
        usual |= {"threads": 1, "batch": 1}
    if point.sessions != wanted.get("sessions", load["sessions"][0]):
        return False
    return all(asked.get(name, plain[name]) == wanted.get(name, first) for name, first in usual.items())
