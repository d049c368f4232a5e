"""`equal-recall`: the index and settings with the most queries a second at a recall."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pagehop_lab.analysis.curve import interpolate
from pagehop_lab.analysis.intervals import compared
from pagehop_lab.analysis.points import Options, Point, engines_of, told
from pagehop_lab.analysis.recalls import RECALL_NAMES
from pagehop_lab.analysis.settings import Setting, settings_of
from pagehop_lab.analysis.targets import AtTarget, Between, at_targets, frontier
from pagehop_lab.suites import every_suite, foreign
from pagehop_lab.suites.latencies import of_setting, percentiles
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Cell, Chart, Mark, Section, Series, Table, with_marks


def sections(results: Results) -> list[Section]:
    """One section for each set and each load."""
    found = []
    for dataset, facts in results.datasets.items():
        loads = results.by_load(dataset)
        for number, ((sessions, asked), points) in enumerate(loads.items()):
            title = f"{dataset}: {facts['rows']:,} x {facts['dim']}, {facts['metric']}, {facts['queries']:,} queries"
            words = [title]
            if len({count for count, _ in loads}) > 1:
                words.append(f"{sessions} sessions" if sessions > 1 else "one session")
            if any(more for _, more in loads):
                words.append(told(asked) or _PLAIN)
            name = f"{dataset}-{number + 1}" if len(loads) > 1 else dataset
            targets = at_targets(points, results.targets)
            tables = [
                best(results, targets, name),
                details(results, targets, name),
                interpolated(results, targets, name),
                every_suite.indexes(results, dataset, name),
                every_suite.invalid(results, points, name),
                every_suite.all_points(results, points, name),
            ]
            elsewhere = foreign.of(results, dataset)
            if elsewhere and number == 0:
                tables.insert(1, foreign.table(elsewhere, dataset))
            drawn = chart(results, points, name)
            more = foreign.series(elsewhere, sessions, asked, results.k)
            charts = [replace(drawn, series=[*drawn.series, *more]), latencies(results, targets, name)]
            found.append(Section(", ".join(words), with_marks(charts), tables))
    others = dict.fromkeys(point.dataset for point in results.foreign if point.dataset not in results.datasets)
    return found + [_foreign_only(results, dataset) for dataset in others]


def _foreign_only(results: Results, dataset: str) -> Section:
    """A set with foreign measurements only."""
    points = foreign.of(results, dataset)
    plain = chart(results, [], dataset)
    drawn = [
        replace(plain, name=f"{plain.name}-{number}", title=f"Foreign results, {_words(*load)}", series=found)
        for number, load in enumerate(sorted({(point.sessions, point.asked) for point in points}))
        if (found := foreign.series(points, *load, foreign.USUAL_K))
    ]
    return Section(f"{dataset}: foreign results only", drawn, [foreign.table(points, dataset)])


def _words(sessions: int, asked: Options) -> str:
    return ", ".join(filter(None, [f"{sessions} clients" if sessions > 1 else "one client", told(asked)]))


_PLAIN = "one query at a time"
NEAR, LEAST = "\N{DAGGER}", "\N{DOUBLE DAGGER}"
_MARKS = {
    NEAR: "the 95% interval of the recall holds the target, so other queries of the same kind may find less",
    LEAST: "the least effort of the plan already finds more than the target",
}
# The form of a ratio to the base, by its certainty.
_RATIOS = {"same": "~{:.2f}x", "inconclusive": "?", "one repeat": "? {:.2f}x"} | dict.fromkeys(
    ("higher", "lower"), "{:.2f}x"
)


def best(results: Results, targets: Sequence[AtTarget], name: str) -> Table:
    """QPS of the fastest setting at or above each target, and its ratio to the base engine."""
    wanted = list(dict.fromkeys(found.target for found in targets))
    engines = list(dict.fromkeys(found.engine for found in targets))
    # If only libraries are compared, a server cannot be the base.
    base = results.base if results.base in engines else next(iter(engines), results.base)
    rows, used = [], list[str]()
    for engine in engines:
        mine = {found.target: found for found in targets if found.engine == engine}
        cells = [Cell(results.title(engine), engine)]
        for target in wanted:
            setting = mine[target].best
            other = next((one.best for one in targets if (one.engine, one.target) == (base, target)), None)
            if setting is None:
                cells.append(Cell("not reached"))
                continue
            marks = _marks(results, mine[target])
            text, told, said = f"{setting.qps.median:,.0f}{''.join(marks)}", _told(setting), ""
            told += "".join(f"; {_MARKS[mark]}" for mark in marks)
            used += [mark for mark in marks if mark not in used]
            if other is not None and engine != base:
                over = compared(setting.qps_by_run, other.qps_by_run)
                text += f" ({_RATIOS[over.said].format(over.middle)})"
                told, said = f"{told}; {over.middle:.2f} times the base, {over.shown()}", over.said
            cells.append(Cell(text, setting.qps.median, setting.middle.file, told, said=said))
        rows.append(cells)
    note = f"QPS of the fastest setting with recall@{results.k} at or above the target, and its ratio to "
    note += (
        f"{results.title(base)}. By 95% intervals over the repeats (Student's t), ~ is the same within 5%, and ? is "
    )
    note += "an inconclusive ratio: its repeats differ by more than it differs from 1, or there is only one repeat. "
    note += "QPS are medians, and a ratio is the geometric mean of the repeats' ratios, not the ratio of the medians."
    note += "".join(f" {mark}: {words}." for mark, words in _MARKS.items() if mark in used)
    return Table(f"best-{name}", "Best QPS at a recall", ("engine", *(f">= {one:.3f}" for one in wanted)), rows, note)


def details(results: Results, targets: Sequence[AtTarget], name: str) -> Table:
    """The settings behind the best QPS, and what their index takes."""
    rows, planned = [], results.load["repeats"] * results.load["rebuilds"]
    for found in targets:
        setting = found.best
        if setting is None:
            row = [Cell.of(found.target, ".3f"), Cell(results.title(found.engine), found.engine), Cell("not reached")]
            rows.append(row + [Cell("-")] * 8)
            continue
        build, qps = results.build_of(setting.middle), setting.qps
        cpu = setting.figure(lambda point: point.raw.get("engine_cpu_us_per_query"))
        rows.append([
            Cell.of(found.target, ".3f"),
            Cell(results.title(found.engine), found.engine),
            Cell.of(qps.median, ",.0f", file=setting.middle.file),
            Cell(f"{qps.low:,.0f}-{qps.high:,.0f}"),
            Cell(f"{len(setting.points)} of {planned}", len(setting.points), invalid=len(setting.points) < planned),
            Cell.of(setting.recall.median, ".4f", title=_recall_told(setting)),
            Cell(_interval(results, setting)),
            Cell(setting.label, setting.label),
            Cell.of(cpu.median if cpu else None, ",.1f"),
            Cell.of(build.raw["build_s"] if build else None, ",.2f", file=build.file if build else ""),
            Cell.of(build.raw["index_bytes"] / 1e6 if build and build.raw["index_bytes"] else None, ",.1f"),
        ])  # fmt: skip
    columns = (
        "recall >=", "engine", "QPS", "range", "valid", "recall", "95% interval", "setting", "CPU us", "index s", "MB",
    )  # fmt: skip
    note = "The range is over repeats and rebuilds, of which the valid ones are counted. "
    note += "The interval is for other queries of the same kind (bootstrap)."
    return Table(f"details-{name}", "Which settings these are", columns, rows, note)


def interpolated(results: Results, targets: Sequence[AtTarget], name: str) -> Table:
    """QPS at exactly each target, with both settings that it lies between."""
    rows = []
    for found in targets:
        row = [Cell.of(found.target, ".3f"), Cell(results.title(found.engine), found.engine)]
        between = found.between
        if between is None:
            rows.append([*row, Cell("not reached"), *[Cell("-")] * 3])
            continue
        row.append(Cell(f"{between.qps:,.0f}{LEAST * between.is_least}", between.qps))
        for setting in (between.low, between.high):
            text = f"{setting.label}: {setting.recall.median:.4f}, {setting.qps.median:,.0f}"
            row.append(Cell(text, text, setting.middle.file))
        repeats = "; ".join(f"{run}: {qps:,.1f}" for run, qps in by_run(between, found.target).items())
        rows.append([*row, Cell(repeats, repeats)])
    note = "Interpolated on one index, along the logarithm of QPS; never beyond what was measured. "
    note += f"{LEAST}: {_MARKS[LEAST]}, and its own figure stands, twice. The last column has the same of each "
    note += "repeat, by group, rebuild and repeat. Ratios and their intervals come from these."
    columns = (
        "recall =", "engine", "QPS", "from: setting, recall, QPS", "to: setting, recall, QPS", "QPS of the repeats",
    )  # fmt: skip
    return Table(f"interpolated-{name}", "QPS at exactly a recall", columns, rows, note)


def by_run(between: Between, target: float) -> dict[str, float]:
    """QPS at a target in each repeat that both settings have, by group, rebuild and repeat."""
    low, high = between.low, between.high
    found = {}
    for point in low.points:
        other = high.by_repeat.get((point.rebuild, point.repeat))
        if other is None:
            continue
        pair = (low.recall.median, point.qps), (high.recall.median, other.qps)
        qps = other.qps if low is high else interpolate(target, *pair)
        found[f"{point.group}.{point.rebuild + 1}.{point.repeat + 1}"] = qps
    return found


def latencies(results: Results, targets: Sequence[AtTarget], name: str) -> Chart:
    """Latency of the fastest settings at one target: the highest one that most engines reach."""
    reached = [found for found in targets if found.best is not None]
    counts = Counter(found.target for found in reached)
    target = max(counts, key=lambda one: (counts[one], one), default=0.0)
    curves = {
        f"{results.title(found.engine)}, {found.best.label}": of_setting(found.best)
        for found in reached
        if found.best is not None and found.target == target
    }
    title = f"Latency of the fastest settings with a recall of at least {target:g}"
    return percentiles(f"latencies-{name}", title, curves)


def chart(results: Results, points: Sequence[Point], name: str) -> Chart:
    """Recall and QPS of every setting; a line through those that no other one of the engine
    dominates.
    """
    settings = settings_of(points)
    series = []
    for engine in engines_of(points):
        mine = [setting for setting in settings if setting.engine == engine]
        marks = [
            Mark(one.recall.median, one.qps.median, _told(one), one.middle.file, False, one.qps.low, one.qps.high)
            for one in mine
        ]
        marks += [
            Mark(point.recall, point.qps, f"{point.label}: {'; '.join(point.wrong)}", point.file, True)
            for point in points
            if point.engine == engine and not point.valid
        ]
        line = [(one.recall.median, one.qps.median) for one in frontier(mine)]
        series.append(Series(results.title(engine), marks, line))
    note = "Up and to the right is better. Lines go through the settings that no other of the same engine beats; bars "
    note += "show the range of repeats; hollow marks are invalid, or foreign. Each mark leads to its raw file."
    x_title = f"recall@{results.k} {_COUNTED[results.recall_by]}"
    return Chart(f"recall-{name}", "Recall and throughput", x_title, "QPS", series, x_nears_one=True, note=note)


_COUNTED = {"threshold": "by distance threshold", "ties": "with ties", "id": "by id"}


def _told(setting: Setting) -> str:
    qps = setting.qps
    spread = f"{qps.low:,.0f} to {qps.high:,.0f} in {len(setting.points)}"
    return f"{setting.label}: recall {setting.recall.median:.4f}, {qps.median:,.0f} QPS ({spread})"


def _recall_told(setting: Setting) -> str:
    recall = setting.recall
    return f"{recall.low:.4f} to {recall.high:.4f} over {len({point.rebuild for point in setting.points})} builds"


def _interval(results: Results, setting: Setting) -> str:
    interval = setting.recall_interval(RECALL_NAMES[results.recall_by])
    return f"{interval[0]:.4f}-{interval[1]:.4f}" if interval else "-"


def _marks(results: Results, found: AtTarget) -> list[str]:
    """The marks behind the best QPS of an engine at a target."""
    assert found.best is not None
    interval = found.best.recall_interval(RECALL_NAMES[results.recall_by])
    near = interval is not None and interval[0] < found.target <= interval[1]
    return [NEAR] * near + [LEAST] * found.is_least
