"""Tables of the files of lab/results/bench: rows of a ratio, or of one figure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kept_results import about, load, number, rounded, table

SETS = {"fashion-mnist": "Fashion-MNIST"}
RENAMED = [
    (r"^hot QPS over .*, ", "queries/s, "),
    (r"^build, CPU s over .*, ", "build, CPU seconds, "),
    (r"^cold QPS over diskannpy", "queries/s from storage"),
    (r"^cold pages a query, ", "pages read by a query, nothing cached, "),
    (r"^cold blocks a query, ", "blocks read by a query, table included, "),
    (r"^cold mean us of first queries, ", "mean microseconds of a query, "),
    (r"^the same, default storage, ", "queries/s, vectors in TOAST, "),
    (r"^(.*), bytes of log over pgvector, ", r"\1, bytes of log, "),
    (r"^(.*) over pgvector, ", r"\1, "),
    (r"^QPS over MariaDB, ", "queries/s, "),
    (r"^QPS ", "queries/s, "),
    ("^open after kill -9, as a ", "open after kill -9, "),
]


@dataclass(frozen=True)
class Line:
    """One row of a file of lab/results/bench; a ratio compares Pagehop with a peer."""

    what: str
    at: str
    ours: str
    others: str
    better: float | None
    """How many times better Pagehop is; below 1 it loses. None if the row is not a comparison."""
    spread: tuple[float, float] | None
    detail: str
    told: str = ""
    """What is said instead of `better` and `spread`."""


def lines(name: str, prefixes: Iterable[str]) -> Iterator[Line]:
    """The rows of a file whose names begin with one of `prefixes`, in the order of `prefixes`."""
    rows = load(name)["rows"]
    for prefix in prefixes:
        chosen = [row for row in rows if row["what"].startswith(prefix) and row["figure"] is not None]
        assert chosen, f"{name} has no row '{prefix}'"
        yield from (line(row) for row in chosen)


def line(row: dict[str, Any]) -> Line:
    """The line for a row. A ratio has the figures of both sides, from its detail."""
    what, detail, figure = row["what"], row["detail"], row["figure"]
    named = what
    for pattern, text in RENAMED:
        named = re.sub(pattern, text, named)
    for name, text in SETS.items():
        named = named.replace(name, text)
    if row["unit"].strip() != "x" or "file bytes" in what:
        return Line(named, row["at"], f"{number(figure)} {row['unit'].strip()}".strip(), "", None, None, detail)
    better = figure if row["more_is_better"] else 1 / figure
    spread = re.search(r"ratio ([\d.]+)-([\d.]+)", detail)
    ends = sorted(float(end) if row["more_is_better"] else 1 / float(end) for end in spread.groups()) if spread else []
    ours, others = sides(what, detail)
    return Line(named, row["at"], ours, others, better, (ends[0], ends[1]) if ends else None, detail)


def sides(what: str, detail: str) -> tuple[str, str]:
    """The figures of Pagehop and of its peers, from a detail: `OURS against THEIRS` or names with
    figures.
    """
    against = re.match(r"([\d,.]+)[^;]*? against ([\d,.]+)(?:[^;]* of ([^;]+))?", detail)
    if against:
        peer = against[3] or (re.search(r" over ([^,]+)", what) or ["", ""])[1]
        return rounded(against[1]), f"{peer} {rounded(against[2])}"
    named = re.findall(r"([a-z][a-z ]*?) ([\d,.]*\d)", re.sub(r"^over [^:]*: ", "", detail))
    ours = [rounded(figure) for name, figure in named if name.startswith("pagehop")]
    others = [f"{name} {rounded(figure)}" for name, figure in named if not name.startswith("pagehop")]
    if not ours:
        return "-", what.rpartition(" over ")[2]
    return ", ".join(ours), ", ".join(others)


def rows(name: str, *prefixes: str) -> list[str]:
    """A table of comparisons, and below it a table of single figures."""
    found = list(lines(name, prefixes))
    compared = [one for one in found if one.better is not None]
    alone = [one for one in found if one.better is None]
    tables = []
    if compared:
        cells = [[one.what, one.at, one.ours, one.others, verdict(one)] for one in compared]
        tables.append(table(["", "at", "Pagehop", "other", "Pagehop better by"], cells))
    if alone:
        cells = [[one.what, one.at, one.ours, one.detail] for one in alone]
        tables.append(table(["", "at", "measured", "detail"], cells))
    return [*about(name), "", *("\n\n".join(tables)).splitlines()]


def verdict(one: Line) -> str:
    """How many times better Pagehop is, the range of the repeats, and `loses` if it is worse."""
    if one.told:
        return one.told
    assert one.better is not None
    spread = f" ({one.spread[0]:.2f} to {one.spread[1]:.2f})" if one.spread and one.spread[0] != one.spread[1] else ""
    return f"{one.better:.2f}x{spread}" + (", loses" if one.better < 1 else "")


def recall(name: str, *states: str) -> list[str]:
    """The recall that searches reached: one row for each set and requested recall, one column for
    each state.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in load(name)["rows"]:
        named = re.fullmatch(r"recall (\S+) (.*)", row["what"])
        if named and named[2] in states:
            missed = "" if row["figure"] == 0 else ", missed"
            cell = row["detail"].split(",")[0].removeprefix("found ") + missed
            found.setdefault((SETS.get(named[1], named[1]), row["at"]), {})[named[2]] = cell
    cells = [[*key, *(of.get(state, "-") for state in states)] for key, of in found.items()]
    return [*about(name), "", *table(["set", "asked", *states], cells).splitlines()]
