"""A ratio in a table: its form depends on its certainty, in every suite."""

from __future__ import annotations

from decimal import Decimal

from pagehop_lab.analysis.intervals import Interval
from pagehop_lab.analysis.paired import PARTS, ROUNDS_MIN
from pagehop_lab.analysis.relative import half_up, tone
from pagehop_lab.suites.table import Cell

NOTE = (
    "The interval is Student's t over the repeats, 95%; pointing at a figure shows it. A figure with ? is not valid: "
    "its repeats disagree by more than it differs from 1, or there is only one repeat. Of one repeat with "
    f"{ROUNDS_MIN} rounds or more, {PARTS} parts stand for repeats: what new servers and data change is not in them."
)


def is_valid(found: Interval) -> bool:
    """Whether a ratio is certain; one repeat cannot show that."""
    return found.said not in ("inconclusive", "one repeat")


def rounded(found: Interval) -> Decimal:
    """A ratio as published tables have it."""
    return half_up(Decimal(repr(found.middle)))


def ratio_cell(found: Interval | None, file: str = "", title: str = "", *, is_base: bool = False) -> Cell:
    """A ratio in a table, with a class if it is certainly below 0.95 or above 1.05. A table with
    shades (`is_heat`) has the classes of `report/heat.py` instead. The ratio of the base to itself
    does not count among the ratios of a run.
    """
    if found is None:
        return Cell("-")
    figure = rounded(found)
    said = "" if is_base else found.said
    told = "; ".join(filter(None, [found.shown(), title]))
    if not is_base and not is_valid(found):
        return Cell(f"{figure}?", None, file, told, invalid=True, said=said)
    shown = tone(float(figure)) if found.is_apart else ""
    return Cell(f"{figure}", float(figure), file, told, tone=shown, said=said, is_apart=found.is_apart)
