"""The position of Pagehop in a run: its figures beside the best of the others, losses first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pagehop_lab.analysis.intervals import Interval, compared
from pagehop_lab.site.figures import Figure
from pagehop_lab.suites.table import Cell, Table

LOST, WON, SAME, UNKNOWN = "loses", "wins", "the same", "inconclusive"
LEAST = "by the least effort of its plan, which finds more"
_SAID = {"higher": WON, "lower": LOST, "same": SAME}


@dataclass(frozen=True)
class Contest:
    """One figure of Pagehop and the best of the others."""

    run: str
    ours: Figure | None
    """None if only the others have a figure, such as at a recall that Pagehop does not reach."""
    other: Figure
    ratio: Interval
    """How many times better Pagehop is; 0 if it has no figure."""

    @property
    def said(self) -> str:
        """Whether Pagehop is better, if that is certain."""
        if self.ours is None:
            return LOST
        if self.ours.is_counted:
            return WON if self.ratio.middle > 1 else LOST if self.ratio.middle < 1 else SAME
        return _SAID.get(self.ratio.said, UNKNOWN)


def contests(run: str, figures: Iterable[Figure]) -> list[Contest]:
    """Every contest of a run.

    None of a kind that Pagehop has no figure of, or that no other engine has.
    """
    every = list(figures)
    kinds = {figure.kind for figure in every if figure.is_ours}
    groups: dict[tuple[str, str, str], list[Figure]] = {}
    for figure in every:
        groups.setdefault((figure.group, figure.kind, figure.unit), []).append(figure)
    found = []
    for members in groups.values():
        ours = [figure for figure in members if figure.is_ours]
        others = [figure for figure in members if not figure.is_ours]
        if others and members[0].kind in kinds:
            best, mine = _best(others), _best(ours) if ours else None
            ratio = better(mine, best) if mine is not None else Interval(0.0, 0.0, 0.0, 0)
            found.append(Contest(run, mine, best, ratio))
    return found


def better(one: Figure, other: Figure) -> Interval:
    """How many times better the first is than the second, of one run."""
    first, second = (one, other) if one.more_is_better else (other, one)
    if one.is_counted:
        return Interval.of([first.middle / second.middle], is_counted=True)
    return compared(first.repeats, second.repeats)


def _best(figures: Sequence[Figure]) -> Figure:
    return (max if figures[0].more_is_better else min)(figures, key=lambda figure: figure.middle)


def table(found: Sequence[Contest], said: str, title: str) -> Table:
    """The contests with one outcome, the clearest first."""
    chosen = [one for one in found if one.said == said]
    chosen.sort(key=lambda one: one.ratio.middle, reverse=said != LOST)
    rows = [
        [
            Cell(one.other.group, one.other.group), Cell(one.run, file=f"{one.run}/report/index.html"),
            _figure(one, one.ours) if one.ours is not None else Cell("not reached, or not valid"),
            _figure(one, one.other),
            Cell.of(one.ratio.middle if one.ours else None, ".2f", tone="worse" if said == LOST else ""),
            Cell("-" if one.ours is None else "counted" if one.ours.is_counted else one.ratio.shown()),
        ]
        for one in chosen
    ]  # fmt: skip
    columns = ("what", "run", "Pagehop", "best of the others", "better by", "95% interval")
    return Table(said.replace(" ", "-"), title, columns, rows, "")


def _figure(contest: Contest, figure: Figure) -> Cell:
    form = ",.0f" if figure.middle >= 100 else ",.3g"
    text = f"{figure.title} {figure.middle:{form}} {figure.unit}" + (f", {LEAST}" if figure.is_least else "")
    return Cell(text, text, f"{contest.run}/{figure.file}")
