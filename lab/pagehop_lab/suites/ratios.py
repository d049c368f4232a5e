"""A ratio in a table: how sure it is decides how it is shown, in every suite alike."""

from __future__ import annotations

from decimal import Decimal

from pagehop_lab.analysis.intervals import Interval
from pagehop_lab.analysis.relative import half_up, tone
from pagehop_lab.suites.table import Cell

NOTE = (
    "The interval is Student's t over the repeats, 95%; pointing at a figure shows it. A figure with ? is not valid: "
    "its repeats disagree by more than it differs from 1."
)


def is_valid(found: Interval) -> bool:
    """Whether a ratio is certain.

    One repeat says nothing about that, and most published figures are one.
    """
    return found.said != "cannot be told"


def rounded(found: Interval) -> Decimal:
    """A ratio as published tables have it."""
    return half_up(Decimal(repr(found.middle)))


def ratio_cell(found: Interval | None, file: str = "", title: str = "", *, is_base: bool = False) -> Cell:
    """A ratio in a table, in a color where it is surely beyond 5%.

    That of the base to itself says nothing, and does not count among the ratios of a run.
    """
    if found is None:
        return Cell("-")
    figure = rounded(found)
    said = "" if is_base else found.said
    told = "; ".join(filter(None, [found.shown(), title]))
    if not is_valid(found):
        return Cell(f"{figure}?", None, file, told, invalid=True, said=said)
    shown = tone(float(figure)) if found.is_apart else ""
    return Cell(f"{figure}", float(figure), file, told, tone=shown, said=said, is_apart=found.is_apart)
