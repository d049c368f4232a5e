"""Two runs side by side, load by load: whether they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pagehop_lab.analysis.agreement import DISAGREE, TOLERANCE, Held, Pair, Verdict, pairs, verdict
from pagehop_lab.analysis.intervals import Interval, unpaired
from pagehop_lab.analysis.points import told
from pagehop_lab.analysis.settings import Setting
from pagehop_lab.suites.catalog import OF_SERVERS
from pagehop_lab.suites.compared import Found, figures
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.server_results import AnyServers
from pagehop_lab.suites.suite import AnyResults
from pagehop_lab.suites.table import Cell, Table


def differences(first: AnyResults, second: AnyResults) -> list[str]:
    """All differences between two runs, except the time, that may change their figures."""
    plans, versions, sets = zip(*map(_said, (first, second)), strict=True)
    return [
        f"{what} {name}: {one.get(name)} and {other.get(name)}"
        for what, one, other in [
            ("plan's", plans[0], plans[1]),
            ("machine's", first.machine, second.machine),
            ("load's", first.load, second.load),
            ("set", sets[0], sets[1]),
            ("version of", versions[0], versions[1]),
        ]
        for name in dict.fromkeys([*one, *other])
        if one.get(name) != other.get(name)
    ]


def _said(run: AnyResults) -> tuple[Mapping[str, object], Mapping[str, object], Mapping[str, object]]:
    """The plan of a run, the versions and the sets."""
    plan: dict[str, object] = {"suite": run.suite, "seed": run.seed}
    if isinstance(run, Results):
        plan |= {"k": run.k, "recall": run.recall_by, "targets": run.targets}
        return plan, {facts.title: facts.version for facts in run.engines}, run.datasets
    return plan, {facts.name: facts.version for facts in run.servers}, {}


@dataclass(frozen=True)
class Agreement:
    """Whether two runs say the same."""

    table: Table
    counts: Mapping[str, int]
    """How many pairs there are of each verdict."""
    held: Held


def agreement(first: Results, second: Results) -> Agreement:
    """Best QPS of each engine at each target."""
    targets = [target for target in first.targets if target in second.targets]
    rows, counts, ratios = [], Counter[str](), []
    for words, pair in _pairs(first, second, targets):
        counts[pair.verdict] += 1
        ratios += [pair.interval] if pair.interval is not None else []
        rows.append([
            Cell(words, words),
            Cell(first.title(pair.engine), pair.engine),
            Cell.of(pair.target, ".3f"),
            *_figures(pair.first),
            *_figures(pair.second),
            Cell.of(pair.ratio, ".3f"),
            Cell(pair.interval.shown(".3f") if pair.interval is not None else "-"),
            Cell(pair.verdict, pair.verdict, invalid=pair.verdict in DISAGREE),
            Cell(_settings(pair)),
        ])  # fmt: skip
    columns = (
        "set and load", "engine", "recall >=", "QPS of the first", "range", "of the second", "range", "second / first",
        "95% interval", "verdict", "setting",
    )  # fmt: skip
    held = Held.of(ratios)
    table = Table("agreement", _TITLE, columns, rows, f"Best QPS at or above each recall. {_NOTE} {held.shown()}")
    return Agreement(table, dict(counts), held)


def agreement_of_servers(first: AnyServers, second: AnyServers) -> Agreement:
    """Every figure by which servers of a suite may be compared, of runs of one suite."""
    suite = OF_SERVERS[first.suite]
    one, other = (
        {found.key: found for found in figures(run, suite.compared_loads, suite.compared)} for run in (first, second)
    )
    rows, counts, ratios = [], Counter[str](), []
    for key in dict.fromkeys([*one, *other]):
        group, server, unit = key
        pair = [run.get(key) for run in (one, other)]
        ratio, said = _of_servers(*pair)
        counts[said] += 1
        # A count without a clock has no spread that an interval could show.
        ratios += [ratio] if ratio is not None and not one[key].of.is_counted else []
        rows.append([
            Cell(group, group), Cell(server), Cell(unit), *(_repeats(found) for found in pair),
            Cell.of(ratio.middle if ratio else None, ".3f"), Cell(_interval(ratio, one.get(key))),
            Cell(said, said, invalid=said in DISAGREE),
        ])  # fmt: skip
    columns = ("what", "server", "unit", "of the first", "of the second", "second / first", "95% interval", "verdict")
    held = Held.of(ratios)
    return Agreement(Table("agreement", _TITLE, columns, rows, f"{_NOTE} {held.shown()}"), dict(counts), held)


def _of_servers(first: Found | None, second: Found | None) -> tuple[Interval | None, Verdict]:
    if first is None or second is None:
        return None, "only one has it"
    # A count without a clock needs no repeats.
    ratio = (
        Interval.of([second.middle / first.middle], is_counted=True)
        if first.of.is_counted
        else unpaired(list(second.repeats.values()), list(first.repeats.values()))
    )
    return ratio, verdict(first.middle, second.middle, ratio)


def _interval(ratio: Interval | None, found: Found | None) -> str:
    if ratio is None or found is None:
        return "-"
    return "counted" if found.of.is_counted else ratio.shown(".3f")


def _repeats(found: Found | None) -> Cell:
    if found is None:
        return Cell("not there, or not valid")
    form = ",.0f" if found.middle >= 100 else ",.3g"
    told = ", ".join(f"{figure:{form}}" for figure in found.repeats.values())
    return Cell.of(found.middle, form, title=told)


_TITLE = "Do the runs agree?"
_NOTE = (
    f"Figures within {TOLERANCE:.0%} agree. Beyond that they differ, or the comparison is inconclusive if the 95% "
    "interval of their ratio (Welch's t over the repeats) contains 1. Counts have no interval."
)


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
    """The setting of both, or that of each."""
    labels = [setting.label for setting in (pair.first, pair.second) if setting is not None]
    return " / ".join(dict.fromkeys(labels)) or "-"
