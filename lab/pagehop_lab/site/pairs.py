"""Any two runs side by side: every figure that both have, by an interval of its ratio."""

from __future__ import annotations

from collections.abc import Sequence

from pagehop_lab.analysis.intervals import Interval, unpaired
from pagehop_lab.site.figures import Figure
from pagehop_lab.suites.table import Cell, Table

_SAID = {
    "higher": "the second is higher", "lower": "the second is lower", "same": "the same",
    "inconclusive": "inconclusive", "one repeat": "inconclusive: one repeat",
}  # fmt: skip
NOTE = """Repeats of two runs have nothing in common, so the interval is Welch's t over their logarithms, with 95% \
confidence. Figures within 5% are the same. Machines, versions and loads may differ: they are named above."""


def shared(first: Sequence[Figure], second: Sequence[Figure]) -> list[tuple[Figure, Figure]]:
    """The figures that both runs have, in the order of the first."""
    others = {_key(figure): figure for figure in second}
    return [(figure, others[_key(figure)]) for figure in first if _key(figure) in others]


def ratio(one: Figure, other: Figure) -> Interval:
    """The second over the first."""
    if one.is_counted:
        return Interval.of([other.middle / one.middle], is_counted=True)
    return unpaired(list(other.repeats.values()), list(one.repeats.values()))


def table(names: tuple[str, str], found: Sequence[tuple[Figure, Figure]]) -> Table:
    """Every shared figure; those that are apart first, the greatest differences at the top."""
    rated = [(one, other, ratio(one, other)) for one, other in found]
    rated.sort(key=lambda row: (not row[2].is_apart, -max(row[2].middle, 1 / max(row[2].middle, 1e-12))))
    rows = [
        [
            Cell(one.group, one.group), Cell(one.title), _figure(names[0], one), _figure(names[1], other),
            Cell.of(over.middle, ".3f", tone=_tone(one, over)),
            Cell("counted" if one.is_counted else over.shown(".3f")),
            Cell(_SAID[over.said]),
        ]
        for one, other, over in rated
    ]  # fmt: skip
    columns = ("what", "engine or server", "first", "second", "second / first", "95% interval", "verdict")
    return Table("pairs", f"{len(rows)} figures that both runs have", columns, rows, NOTE)


def _tone(figure: Figure, over: Interval) -> str:
    if not over.is_apart:
        return ""
    return "better" if (over.said == "higher") == figure.more_is_better else "worse"


def _figure(run: str, figure: Figure) -> Cell:
    form = ",.0f" if figure.middle >= 100 else ",.3g"
    return Cell(f"{figure.middle:{form}} {figure.unit}", figure.middle, f"{run}/{figure.file}")


def _key(figure: Figure) -> tuple[str, str, str]:
    return (figure.group, figure.name, figure.unit)
