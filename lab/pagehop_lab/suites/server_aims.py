"""The aims of a run of servers, with verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pagehop_lab.analysis.aims import Figure, verdict_on
from pagehop_lab.analysis.intervals import Interval, compared
from pagehop_lab.analysis.server_records import CaseRecord, number
from pagehop_lab.analysis.turns import APART
from pagehop_lab.plan.servers import ServerAim
from pagehop_lab.suites.server_results import AnyServers, Measured
from pagehop_lab.suites.table import Cell, Table

_COLUMNS = ("what", "figure", "95% interval", "floor", "aim", "verdict", "from")
_NOTE = (
    "Ratios are taken repeat by repeat; the interval is Student's t over the logarithms of the repeats, and over the "
    "repeats themselves where a figure is a difference. A limit within the interval is neither reached nor missed: it "
    "is inconclusive. Bytes that are counted over a number of rows need no clock, so one repeat is enough."
)
_OTHER_TIMES = " What was measured at other times is compared by Welch's t."


def table(results: AnyServers, figures: Mapping[str, Figure], differences: Sequence[str]) -> Table | None:
    """The aims in the order of the plan, or None. `differences` are figures that may be below 0."""
    rows = [_row(results, aim, figures[aim.figure], aim.figure in differences) for aim in results.aims]
    note = _NOTE + (_OTHER_TIMES if any(APART in one.noted for one in results.measured) else "")
    return Table("aims", "What was to be reached", _COLUMNS, rows, note) if rows else None


def _row(results: AnyServers, aim: ServerAim, figure: Figure, is_difference: bool) -> list[Cell]:
    limits = [Cell.of(aim.floor, "g"), Cell.of(aim.aim, "g")]
    ones = results.of(aim.server, aim.case)
    others = results.of(aim.over or aim.server, aim.over_case or aim.case) if aim.is_ratio else []
    is_counted = figure.counted(aim.case) and figure.counted(aim.over_case or aim.case)
    found = _found(ones, others, aim, is_counted=is_counted, is_difference=is_difference)
    if found is None:
        told = "not measured, or not valid"
        return [
            Cell(aim.what, aim.what),
            Cell("-"),
            Cell("-"),
            *limits,
            Cell("not there", told, "", "", True),
            Cell("-"),
        ]
    said = verdict_on(found, aim.floor, aim.aim, figure.more_is_better)
    form = "+.4f" if is_difference else ",.2f" if aim.is_ratio or found.middle < 100 else ",.0f"
    is_known = found.count > 1 or is_counted
    told = _told(ones, aim.figure, figure.unit) + (
        f" against {_told(others, aim.figure, figure.unit)}" if others else ""
    )
    return [
        Cell(aim.what, aim.what),
        Cell.of(found.middle, form, file=ones[0].file),
        Cell(f"{found.low:{form}} to {found.high:{form}}" if is_known else "one repeat"),
        *limits,
        Cell(said, said, "", "", said == "MISSED"),
        Cell(told, told),
    ]


def _found(
    ones: Sequence[Measured[CaseRecord]],
    others: Sequence[Measured[CaseRecord]],
    aim: ServerAim,
    *,
    is_counted: bool,
    is_difference: bool,
) -> Interval | None:
    """The figure or its ratio, over the repeats; None if there is none."""
    if aim.is_ratio:
        ones = [one for one in ones if one.repeat in {other.repeat for other in others}]
    if not ones:
        return None
    if not aim.is_ratio:
        figures = [number(one.raw, aim.figure) for one in ones]
        return Interval.of_differences(figures) if is_difference else Interval.of(figures, is_counted=is_counted)
    by_repeat = {other.repeat: other for other in others}
    pairs = [(one, by_repeat[one.repeat]) for one in ones]
    # A count is the same at any time.
    if is_counted or is_difference or all(one.run == other.run for one, other in pairs):
        figures = [number(one.raw, aim.figure) / number(other.raw, aim.figure) for one, other in pairs]
        return Interval.of_differences(figures) if is_difference else Interval.of(figures, is_counted=is_counted)
    sides = ({measured.run: number(measured.raw, aim.figure) for measured in side} for side in zip(*pairs, strict=True))
    return compared(*sides)


def _told(found: Sequence[Measured[CaseRecord]], name: str, unit: str) -> str:
    figures = ", ".join(f"{one:,.{_digits(one)}f}" for one in (number(measured.raw, name) for measured in found))
    return f"{figures} {unit}"


def _digits(figure: float) -> int:
    return 0 if abs(figure) >= 100 else 1 if abs(figure) >= 10 else 3 if abs(figure) >= 1 else 4
