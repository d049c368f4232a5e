"""Two runs side by side, load by load: whether they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pagehop_lab.analysis.agreement import TOLERANCE, Pair, pairs
from pagehop_lab.analysis.points import told
from pagehop_lab.analysis.settings import Setting
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Cell, Table


def differences(first: Results, second: Results) -> list[str]:
    """Whatever else than the time differs between two runs, so that their figures may."""
    plans = [
        {"suite": run.suite, "k": run.k, "seed": run.seed, "recall": run.recall_by, "targets": run.targets}
        for run in (first, second)
    ]
    versions = [{facts.title: facts.version for facts in run.engines} for run in (first, second)]
    return [
        f"{what} {name}: {one.get(name)} and {other.get(name)}"
        for what, one, other in [
            ("plan's", plans[0], plans[1]),
            ("machine's", first.machine, second.machine),
            ("load's", first.load, second.load),
            ("set", first.datasets, second.datasets),
            ("version of", versions[0], versions[1]),
        ]
        for name in dict.fromkeys([*one, *other])
        if one.get(name) != other.get(name)
    ]


def agreement(first: Results, second: Results) -> tuple[Table, dict[str, int]]:
    """The table, and how many pairs there are of each verdict."""
    targets = [target for target in first.targets if target in second.targets]
    rows, counts = [], Counter[str]()
    for words, pair in _pairs(first, second, targets):
        counts[pair.verdict] += 1
        rows.append([
            Cell(words, words),
            Cell(first.title(pair.engine), pair.engine),
            Cell.of(pair.target, ".3f"),
            *_figures(pair.first),
            *_figures(pair.second),
            Cell.of(pair.ratio, ".3f"),
            Cell(pair.verdict, pair.verdict, invalid=pair.verdict in ("differ", "only one reaches it")),
            Cell(_settings(pair)),
        ])  # fmt: skip
    columns = (
        "set and load", "engine", "recall >=", "QPS of the first", "range", "of the second", "range", "second / first",
        "verdict", "setting",
    )  # fmt: skip
    note = (
        f"Best QPS at or above each recall. Within {TOLERANCE:.0%} they agree; beyond that they differ, or it cannot "
    )
    note += "be told where the 95% interval of their ratio (Welch's t over the repeats) has 1 in it."
    return Table("agreement", "Do the runs agree?", columns, rows, note), dict(counts)


def _pairs(first: Results, second: Results, targets: list[float]) -> Iterator[tuple[str, Pair]]:
    for dataset in dict.fromkeys([*first.datasets, *second.datasets]):
        loads = [run.by_load(dataset) for run in (first, second)]
        for load in dict.fromkeys([*loads[0], *loads[1]]):
            sessions, asked = load
            words = ", ".join(filter(None, [dataset, f"{sessions} sessions" if sessions > 1 else "", told(asked)]))
            for pair in pairs(loads[0].get(load, []), loads[1].get(load, []), targets):
                yield words, pair


def _figures(setting: Setting | None) -> list[Cell]:
    if setting is None:
        return [Cell("not reached"), Cell("-")]
    qps = setting.qps
    return [Cell.of(qps.median, ",.0f"), Cell(f"{qps.low:,.0f}-{qps.high:,.0f}")]


def _settings(pair: Pair) -> str:
    """The setting of both, or each one's."""
    labels = [setting.label for setting in (pair.first, pair.second) if setting is not None]
    return " / ".join(dict.fromkeys(labels)) or "-"
