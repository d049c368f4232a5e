"""`attributes`: the cost of the Nth attribute, in three layouts, and where the time goes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from pagehop_lab.suites import of_servers
from pagehop_lab.suites.attributes.cases import LAYOUTS
from pagehop_lab.suites.attributes.records import DocumentRecord
from pagehop_lab.suites.inserts import tables as inserts
from pagehop_lab.suites.server_results import Measured, ServerResults
from pagehop_lab.suites.table import Cell, Chart, Mark, Section, Series, Table, through_medians


def sections(results: ServerResults[DocumentRecord]) -> list[Section]:
    """By the number of attributes, then where the time goes."""
    tables = [
        by_count(results, "qps", "QPS", lambda one: one.qps, ",.0f", "Middle of the repeats."),
        by_count(results, "cpu", "Server CPU of a query, microseconds", _cpu, ",.1f", "By the processes' own clocks."),
        by_count(results, "bytes", "Bytes of a row", _bytes, ",.0f", "On disk, with the key's index, after loading."),
        by_count(
            results,
            "toast",
            "Bytes of a row out of line",
            _toast,
            ",.0f",
            "PostgreSQL's TOAST: long values, in pieces.",
        ),
        slopes(results),
        profiles(results),
        of_servers.invalid(results),
        inserts.points(results),
    ]
    layouts = "; ".join(f"{name}: {what}" for name, what in LAYOUTS.items())
    return [Section(f"{results.load['rows']:,} documents ({layouts})", [chart(results)], tables)]


def chart(results: ServerResults[DocumentRecord]) -> Chart:
    """CPU of a query by the number of attributes."""
    series = []
    for server in results.names:
        for layout in LAYOUTS:
            found = [one for one in results.measured if one.server == server and _layout(one) == layout]
            marks = [
                Mark(float(_count(one)), cpu, f"{one.case}: {one.qps:,.0f} QPS", one.file, not one.valid)
                for one in found
                if (cpu := _cpu(one)) is not None
            ]
            by_count = [[mark for mark in marks if mark.x == x] for x in dict.fromkeys(mark.x for mark in marks)]
            series.append(Series(f"{server}, y {layout}", marks, through_medians(by_count)))
    note = "Every measurement; hollow marks are invalid."
    return Chart("attributes", "Server CPU of a query", "attributes beside y", "microseconds", series, False, note)


def by_count(
    results: ServerResults[DocumentRecord],
    name: str,
    title: str,
    of: Callable[[Measured[DocumentRecord]], float | None],
    form: str,
    note: str,
) -> Table:
    """A row for each server and layout, a column for each number of attributes."""
    counts = sorted({_count(one) for one in results.measured})
    rows = []
    for server in results.names:
        for layout in LAYOUTS:
            cells = [_cell(results.of(server, f"x{count}.{layout}"), of, form) for count in counts]
            if any(cell.value is not None for cell in cells):
                rows.append([Cell(server), Cell(layout), *cells])
    return Table(name, title, ("server", "y", *(f"N = {count:,}" for count in counts)), rows, note)


def slopes(results: ServerResults[DocumentRecord]) -> Table:
    """The cost of one more attribute, from N = 10 to the largest N."""
    counts = sorted({_count(one) for one in results.measured} - {1})
    rows = []
    for server in results.names:
        for layout in LAYOUTS:
            ends = [_middle(results.of(server, f"x{count}.{layout}"), _cpu) for count in (counts[:1] + counts[-1:])]
            if len(counts) > 1 and ends[0] is not None and ends[1] is not None:
                each = (ends[1] - ends[0]) / (counts[-1] - counts[0]) * 1e3
                rows.append([Cell(server), Cell(layout), Cell.of(each, ",.1f"), Cell.of(ends[1] / ends[0], ",.2f")])
    last = f"{counts[-1]:,}" if counts else "-"
    first = f"{counts[0]:,}" if counts else "-"
    columns = ("server", "y", "ns of an attribute", f"CPU at {last} over {first}")
    return Table("slopes", "What one attribute more costs", columns, rows, f"Server CPU, from N = {first} to {last}.")


def profiles(results: ServerResults[DocumentRecord]) -> Table:
    """Where the server's time goes."""
    rows, reasons = [], set[str]()
    for one in results.measured:
        reasons |= {f"{one.server}: {one.raw['no_profile']}"} if "no_profile" in one.raw else set()
        if one.repeat == 0:
            rows += [
                [
                    Cell(one.server),
                    Cell(one.case),
                    Cell.of(percent, ".1f", file=one.file),
                    Cell(library),
                    Cell(function),
                ]
                for percent, library, function in one.raw.get("profile", ())
            ]
    note = "Samples of the server's processes by the CPU's clock in a further second, those of the first repeat; "
    note += "most first." + "".join(f" {reason}." for reason in sorted(reasons))
    return Table("profile", "Where the time goes", ("server", "test", "%", "library", "function"), rows, note)


def _count(one: Measured[DocumentRecord]) -> int:
    return int(one.case.partition(".")[0][1:])


def _layout(one: Measured[DocumentRecord]) -> str:
    return one.case.partition(".")[2]


def _cpu(one: Measured[DocumentRecord]) -> float | None:
    found = one.raw["server_cpu_us_per_query"]
    return None if found is None else float(found)


def _bytes(one: Measured[DocumentRecord]) -> float | None:
    return float(one.raw["bytes_per_row"])


def _toast(one: Measured[DocumentRecord]) -> float | None:
    found = one.raw.get("toast_bytes_per_row")
    return None if found is None else float(found)


def _middle(
    found: Sequence[Measured[DocumentRecord]], of: Callable[[Measured[DocumentRecord]], float | None]
) -> float | None:
    figures = [figure for one in found if (figure := of(one)) is not None]
    return statistics.median(figures) if figures else None


def _cell(
    found: Sequence[Measured[DocumentRecord]], of: Callable[[Measured[DocumentRecord]], float | None], form: str
) -> Cell:
    middle = _middle(found, of)
    title = f"{len(found)} valid {'repeats' if len(found) > 1 else 'repeat'}"
    return Cell("-") if middle is None else Cell.of(middle, form, file=found[0].file, title=title)
