"""Whether queries that the index has never seen find the requested recall, and at which cost."""

from __future__ import annotations

from pagehop_lab.analysis.calibration import ABOVE, BELOW, DEARER, LOST, Asked, Changed, asked_of, changed_of
from pagehop_lab.analysis.points import shown
from pagehop_lab.analysis.recalls import RECALL_NAMES
from pagehop_lab.suites import every_suite
from pagehop_lab.suites.equal_recall import tables as equal_recall
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Cell, Section, Table


def sections(results: Results) -> list[Section]:
    """One section for each set and each k."""
    found = []
    for dataset, facts in results.datasets.items():
        for number, ((_, asked), points) in enumerate(results.by_load(dataset).items(), start=1):
            k = int(dict(asked).get("k", results.k))
            title = f"{dataset}: {facts['rows']:,} x {facts['dim']}, {facts['queries']:,} unseen queries, k = {k}"
            name = f"{dataset}-{number}"
            recall_name = RECALL_NAMES[results.recall_by]
            rows = [_row(results, one) for one in asked_of(points, recall_name)]
            changed = [_changed_row(results, one) for one in changed_of(points, recall_name)]
            tables = [
                Table(f"calibration-{name}", "Recall that was asked for", _COLUMNS, rows, _NOTE),
                *([Table(f"changed-{name}", "After changes", _CHANGED, changed, _CHANGED_NOTE)] if changed else []),
                every_suite.indexes(results, dataset, name),
                every_suite.invalid(results, points, name),
                every_suite.all_points(results, points, name),
            ]
            found.append(Section(title, [equal_recall.chart(results, points, name)], tables))
    return found


_COLUMNS = (
    "engine", "index", "asked", "found", "95% interval", "found - asked", "accuracy", "hops", "cheapest", "its setting",
    "ratio", "cheapest for what was found", "its setting",
)  # fmt: skip
_NOTE = f"""The found recall may be {BELOW} below and {ABOVE} above the requested one. Hops are compared with the hops \
of the cheapest setting of the grid that finds the requested recall ({DEARER} is the most), or, if less was found, \
the found recall. The interval is for other queries of the same kind (bootstrap)."""


_CHANGED = ("engine", "rounds", "setting", "recall as built", "after", "95% interval", "difference")
_CHANGED_NOTE = """In each round a tenth of the rows is deleted, added again and vacuumed; nothing is calibrated \
again. The interval is for other queries of the same kind (bootstrap)."""


def _changed_row(results: Results, one: Changed) -> list[Cell]:
    return [
        Cell(results.title(one.engine), one.engine),
        Cell.of(one.rounds, "d"),
        Cell(one.label, one.label),
        Cell.of(one.before, ".4f"),
        Cell.of(one.after, ".4f", file=one.file),
        Cell(f"{one.low:.4f}-{one.high:.4f}"),
        Cell.of(one.after - one.before, "+.4f"),
    ]


def _worst(changed: list[Changed], dataset: str) -> list[Cell]:
    """The setting that lost the most recall by changes."""
    worst = max(changed, key=lambda one: one.lost)
    said = "aim reached" if worst.lost <= 0 else "floor reached" if worst.lost <= LOST else "MISSED"
    told = f"{worst.after:.4f} after {worst.before:.4f} ({worst.label}), the worst of {len(changed)} settings"
    return [
        Cell(f"recall after {worst.rounds} rounds of changes, any setting"),
        Cell(dataset, dataset),
        Cell("-"),
        Cell.of(-worst.lost, "+.4f", file=worst.file),
        Cell(f"{worst.low - worst.before:+.4f} to {worst.high - worst.before:+.4f}"),
        Cell(f"-{LOST}"),
        Cell("0"),
        Cell(said, said, "", "", said == "MISSED"),
        Cell(told, told),
    ]


def _row(results: Results, one: Asked) -> list[Cell]:
    (cheapest, words), (at_found, words_found) = one.cheapest or (None, "-"), one.at_found or (None, "-")
    return [
        Cell(results.title(one.engine), one.engine),
        Cell(shown(one.build) or "-", shown(one.build)),
        Cell.of(one.recall, "g"),
        Cell.of(one.found, ".4f", file=one.file),
        Cell(f"{one.low:.4f}-{one.high:.4f}"),
        Cell.of(one.found - one.recall, "+.4f"),
        Cell(one.accuracy, one.accuracy, "", "", one.accuracy == "MISSED"),
        Cell.of(one.hops, ",.1f"),
        Cell.of(cheapest, ",.1f"),
        Cell(words),
        Cell.of(one.dearer, ".2f"),
        Cell.of(at_found, ",.1f"),
        Cell(words_found),
    ]


def aim_rows(results: Results) -> list[list[Cell]]:
    """The same in the words of the table of aims: accuracy and price of each recall."""
    rows = []
    for dataset in results.datasets:
        for (_, asked), points in results.by_load(dataset).items():
            more = "".join(f", {name} = {value}" for name, value in asked if name == "k")
            for one in asked_of(points, RECALL_NAMES[results.recall_by]):
                if dict(one.build).get("rounds"):
                    # The loss by changes has a row of its own.
                    continue
                index = f" ({shown(one.build)}{more})" if one.build or more else ""
                rows += [_accuracy(one, dataset, index), _price(one, dataset, index)]
            changed = changed_of(points, RECALL_NAMES[results.recall_by])
            rows += [_worst(changed, dataset)] if changed else []
    return rows


def _accuracy(one: Asked, dataset: str, index: str) -> list[Cell]:
    said = one.accuracy
    told = f"found {one.found:.4f}"
    return [
        Cell(f"found - asked{index}"),
        Cell(dataset, dataset),
        Cell.of(one.recall, "g"),
        Cell.of(one.found - one.recall, "+.4f", file=one.file),
        Cell(f"{one.low - one.recall:+.4f} to {one.high - one.recall:+.4f}"),
        Cell(f"-{BELOW} to +{ABOVE}"),
        Cell("-"),
        Cell(said, said, "", "", said == "MISSED"),
        Cell(told, told),
    ]


def _price(one: Asked, dataset: str, index: str) -> list[Cell]:
    ratio = one.dearer
    said = "not there" if ratio is None else "floor reached" if ratio <= DEARER else "MISSED"
    told = f"{one.hops:,.1f} hops"
    if one.compared is not None:
        less = f", which finds {one.found:.4f}, too" if one.compared != one.cheapest else ""
        told += f" against {one.compared[0]:,.1f} ({one.compared[1]}{less})"
    return [
        Cell(f"hops over the cheapest setting's{index}"),
        Cell(dataset, dataset),
        Cell.of(one.recall, "g"),
        Cell.of(ratio, ".2f", file=one.file),
        Cell("-"),
        Cell.of(DEARER, "g"),
        Cell("-"),
        Cell(said, said, "", "", said != "floor reached"),
        Cell(told, told),
    ]
