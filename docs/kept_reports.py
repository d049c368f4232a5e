"""Tables of the folders of lab/results: those of their reports, and engines at equal recall.

A ratio at a recall and its interval are those of the lab, from the figures of the repeats.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kept_results import DESCRIPTORS, ENGINES, LAB, REPOSITORY, TEXTS, TEXTS_POSTGRES, about, number, table, tables_of

sys.path.append(str(REPOSITORY / "lab"))

from pagehop_lab.analysis.intervals import Interval, compared

LEAST_EFFORT = "\N{DOUBLE DAGGER}"
"""The mark of a figure whose recall is below what the least effort of the plan finds."""


def report(folder: str, name: str) -> tuple[list[str], list[list[dict[str, Any]]]]:
    """The columns and rows of a table of a report; KeyError if there is none of that name."""
    for section in tables_of(folder)["sections"]:
        for one in section["tables"]:
            if one["name"] == name:
                return one["columns"], one["rows"]
    raise KeyError(name)


def lab(folder: str, name: str, *wanted: str) -> list[str]:
    """A table of a report, or only the columns `wanted`."""
    columns, found = report(folder, name)
    kept = [columns.index(column) for column in wanted] if wanted else range(len(columns))
    cells = [[row[at]["text"] for at in kept] for row in found]
    return [*about(folder), "", *table([columns[at] for at in kept], cells).splitlines()]


def writers(*folders: str) -> list[str]:
    """Rows a second by clients. Each number of clients has a run of its own on the same machine."""
    heads = ["clients", "rows/s", "over 1 client", "halfvec's", "Pagehop over halfvec"]
    heads += ["CPU us/row", "halfvec's", "log bytes/row", "halfvec's"]
    cells: list[list[str]] = []
    rates: list[float] = []
    for clients, figures in sorted(by_clients(folder) for folder in folders):
        mine, other = (figures[name] for name in sorted(figures))
        rate, its = (float(one["rows/s"].replace(",", "")) for one in (mine, other))
        rates.append(rate)
        ratios = f"{rate / rates[0]:.2f}x", f"{rate / its:.2f}x"
        both = [one[column] for column in ("CPU us/row", "log bytes/row") for one in (mine, other)]
        cells.append([str(clients), mine["rows/s"], ratios[0], other["rows/s"], ratios[1], *both])
    return [*about(folders[0]), "", *table(heads, cells).splitlines()]


def by_clients(folder: str) -> tuple[int, dict[str, dict[str, str]]]:
    """The clients of a run of writers, and both servers' figures in the step that both have."""
    columns, found = report(folder, "writes")
    steps: dict[str, dict[str, dict[str, str]]] = {}
    for row in found:
        cells = {column: cell["text"] for column, cell in zip(columns, row, strict=True)}
        steps.setdefault(cells["step"], {})[cells["server"]] = cells
    [(step, figures)] = [(step, servers) for step, servers in steps.items() if len(servers) == 2]
    plan = tomllib.loads((LAB / folder / "plan-001.toml").read_text())
    return (1 if step == "write-one" else plan["load"]["clients"]), figures


@dataclass(frozen=True)
class Engine:
    """An engine of a run: queries a second by recall, cheapest build and smallest index."""

    name: str
    library: bool
    qps: dict[float, float]
    least: set[float]
    """Recalls below what the least effort of the plan finds. They have that effort's figure."""
    repeats: dict[float, dict[str, float]]
    """By recall, queries a second in each repeat."""
    build_cpu_s: float | None
    index_mb: float


def engines(ways: int = 1, run: str = ENGINES, data: str = "") -> list[Engine]:
    """The engines of a run for one way of sending queries, the fastest at recall 0.99 first.

    In runs of ENGINES the way is one query a call (1) or 100 (2). Other runs have one way, without
    a number; they are of texts if no other set is given.
    """
    of = f"fashion-mnist-{ways}" if run == ENGINES else data or "texts-384"
    _, built = report(run, f"indexes-{of}")
    _, interpolated = report(run, f"interpolated-{of}")
    qps: dict[str, dict[float, float]] = {}
    least: dict[str, set[float]] = {}
    repeats: dict[str, dict[float, dict[str, float]]] = {}
    for row in interpolated:
        target, name = float(row[0]["text"]), row[1]["text"]
        # An engine that reaches none of the recalls is an engine of the run, too.
        qps.setdefault(name, {})
        repeats.setdefault(name, {})
        least.setdefault(name, set())
        if row[2]["value"] is not None:
            qps[name][target] = row[2]["value"]
            least[name].update({target} if row[2]["text"].endswith(LEAST_EFFORT) else ())
            each = [repeat.split(": ") for repeat in row[5]["text"].split("; ")]
            repeats[name][target] = {which: float(text.replace(",", "")) for which, text in each}
    found = []
    for name, measured in qps.items():
        indexes = [row for row in built if row[0]["text"] == name]
        cpu = [float(row[4]["text"].replace(",", "")) for row in indexes if row[4]["text"] != "-"]
        size = min(float(row[5]["text"].replace(",", "")) for row in indexes)
        is_library = indexes[0][6]["text"] == "-"
        cheapest = min(cpu) if cpu else None
        found.append(Engine(name, is_library, measured, least[name], repeats[name], cheapest, size))
    return sorted(found, key=lambda one: -one.qps.get(0.99, 0.0))


def speed(one: Engine, recall: float) -> str:
    """Queries a second at a recall, marked if the plan has no effort that finds so little."""
    return number(one.qps[recall]) + LEAST_EFFORT * (recall in one.least) if recall in one.qps else "-"


def over(one: Engine, other: Engine, recall: float) -> Interval | None:
    """Queries a second of one engine over those of another, at a recall that both reach."""
    if recall not in one.repeats or recall not in other.repeats:
        return None
    return compared(one.repeats[recall], other.repeats[recall])


def ratio(found: Interval | None) -> str:
    """A ratio with its interval; a ? where 1 lies within that."""
    if found is None:
        return "-"
    if found.count < 2:
        return f"{found.middle:.2f}x? (one repeat)"
    return f"{found.middle:.2f}x{'' if found.is_apart else '?'} ({bound(found.low)} to {bound(found.high)})"


def bound(value: float) -> str:
    """An end of the interval of a ratio. It has three digits where two would hide its side of 1."""
    two = f"{value:.2f}"
    return f"{value:.3f}" if two == "1.00" else two


def equal(ways: str, kind: str, run: str = ENGINES, data: str = "") -> list[str]:
    """Queries a second at exactly a recall, and how many times those of the others Pagehop has.

    A row for each engine, `libraries` or `servers`.
    """
    chosen = [one for one in engines(int(ways), run, data) if one.library == (kind == "libraries")]
    targets = sorted({target for one in chosen for target in one.qps})
    heads = [f"{target:g}" for target in targets]
    cells = [
        [
            one.name,
            *(number(one.qps[at]) + LEAST_EFFORT * (at in one.least) if at in one.qps else "-" for at in targets),
        ]
        for one in chosen
    ]
    [ours] = [one for one in chosen if one.name.startswith("Pagehop")]
    times = [[other.name, *(ratio(over(ours, other, at)) for at in targets)] for other in chosen if other is not ours]
    tables = table(["recall@10", *heads], cells), table([f"{ours.name} over", *heads], times)
    return "\n\n".join(tables).splitlines()


def lead() -> list[str]:
    """The README's table: Pagehop beside the best of the others. Lost rows come last."""
    cells = sorted(contests(), key=lambda row: "loses" in row[-1])
    return table(["", "Pagehop", "best of the others", "Pagehop better by"], cells).splitlines()


def contests() -> list[list[str]]:
    """The rows of the README's table."""
    texts, in_postgres = engines(run=TEXTS), engines(run=TEXTS_POSTGRES)
    descriptors = engines(run=DESCRIPTORS, data="sift-128")
    return [
        at_recall("texts, library", texts, 0.95),
        at_recall("texts, library", texts, 0.99),
        contest("texts, library, CPU seconds to build", texts, lambda one: one.build_cpu_s, "? (one build)"),
        contest("texts, library, MB of index", texts, lambda one: one.index_mb),
        at_recall("texts, PostgreSQL", in_postgres, 0.99),
        contest("texts, PostgreSQL, MB of index", in_postgres, lambda one: one.index_mb),
        at_recall("descriptors of images, library", descriptors, 0.99),
    ]


def ours_and_best(chosen: list[Engine], figure: Callable[[Engine], float | None], *, least: bool) -> list[Engine]:
    """Pagehop, and the best of the others that have a figure."""
    known = [one for one in chosen if figure(one) is not None]
    [ours] = [one for one in known if one.name.startswith("Pagehop")]
    best = (min if least else max)([one for one in known if one is not ours], key=lambda one: figure(one) or 0.0)
    return [ours, best]


def at_recall(what: str, chosen: list[Engine], recall: float) -> list[str]:
    """A row of the README's table: queries a second at a recall, with the interval of the ratio."""
    ours, best = ours_and_best(chosen, lambda one: one.qps.get(recall), least=False)
    found = over(ours, best, recall)
    assert found is not None
    told = ratio(found) + (", loses" if found.high < 1 else "")
    words = f"{what}, queries/s at recall@10 {recall:g}"
    return [words, number(ours.qps[recall]), f"{best.name} {number(best.qps[recall])}", told]


def contest(what: str, chosen: list[Engine], figure: Callable[[Engine], float | None], mark: str = "") -> list[str]:
    """A row of the README's table of which less is better.

    `mark` says how sure a figure is that is not a count.
    """
    ours, best = ours_and_best(chosen, figure, least=True)
    mine, other = figure(ours) or 0.0, figure(best) or 0.0
    told = f"{other / mine:.2f}x{mark}" + (", loses" if other < mine else "")
    return [what, number(mine), f"{best.name} {number(other)}", told]
