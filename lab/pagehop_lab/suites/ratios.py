"""A figure of one server over that of another, with how sure it is, as every suite of servers
compares them.

Servers that were asked in turns are compared round by round, others repeat by repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from pagehop_lab.analysis.intervals import Interval, compared
from pagehop_lab.analysis.paired import paired_ratio
from pagehop_lab.analysis.relative import half_up, tone
from pagehop_lab.suites.server_results import Measured, ServerResults
from pagehop_lab.suites.table import Cell

NOTE = (
    "The interval is Student's t over the repeats, 95%; pointing at a figure shows it. A figure with ? is not valid: "
    "its repeats disagree by more than it differs from 1."
)


def over(results: ServerResults, server: str, base: str, case: str, name: str = "qps") -> Interval | None:
    """The ratio of a figure of the raw files, by the valid repeats; None if one of the two has
    none.
    """
    ones, others = results.of(server, case), results.of(base, case)
    together = _by_rounds(ones, others, name)
    if together:
        return Interval.of(together)
    by_repeat = [{one.repeat: one.raw[name] for one in found if one.raw[name]} for found in (ones, others)]
    return compared(*by_repeat) if all(by_repeat) else None


def _by_rounds(ones: Sequence[Measured], others: Sequence[Measured], name: str) -> list[float]:
    """The ratio in each repeat in which both were asked in turns."""
    theirs = {one.raw["together"]: one for one in others if one.raw.get("together")}
    found = []
    for one in ones:
        other = theirs.get(one.raw.get("together"))
        rounds = [[turn.get(name) for turn in side.raw["rounds"]] for side in (one, other)] if other is not None else []
        if rounds and all(figure for side in rounds for figure in side):
            found.append(paired_ratio(*rounds))
    return found


def is_valid(found: Interval) -> bool:
    """Whether a ratio says anything. Of one repeat nothing is known, as of most that is published."""
    return found.said != "cannot be told"


def rounded(found: Interval) -> Decimal:
    """A ratio as published tables have it."""
    return half_up(Decimal(repr(found.middle)))


def ratio_cell(found: Interval | None, file: str = "", title: str = "") -> Cell:
    """A ratio in a table, in a color where it is surely beyond 5%."""
    if found is None:
        return Cell("-")
    figure = rounded(found)
    told = "; ".join(filter(None, [found.shown(), title]))
    if not is_valid(found):
        return Cell(f"{figure}?", None, file, told, invalid=True)
    return Cell(f"{figure}", float(figure), file, told, tone=tone(float(figure)) if found.is_apart else "")
