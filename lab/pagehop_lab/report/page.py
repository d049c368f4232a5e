"""One page with everything: its style and its charts are in it, so it opens anywhere, without a network.

Only the links to raw files lead out of it, to the folder that it lies in.
"""

from __future__ import annotations

from html import escape

from pagehop_lab.report.chart import legend, svg
from pagehop_lab.report.style import STYLE
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Cell, Chart, Section, Table

# A text longer than this may take several lines.
_LONG = 70


def page(results: Results, sections: list[Section], more: list[Table]) -> str:
    """The whole page."""
    body = [
        f"<h1>{escape(results.name)}</h1>",
        f"<p class=lead>{escape(_lead(results))}</p>",
        _state(results),
        *(_section(section) for section in sections),
        "<section><h2>Of the run</h2>",
        *(_table(table, is_open=True) for table in more),
        _about(results),
        "</section>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(results.name)}: engines at equal recall</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _lead(results: Results) -> str:
    machine = results.machine
    repeats, rebuilds = results.load["repeats"], results.load["rebuilds"]
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']:.0f} GiB, Linux {machine['kernel']}. "
        f"k = {results.k}; {repeats} repeats of {rebuilds} build{'s' if rebuilds > 1 else ''}; "
        f"suite {results.suite}, seed {results.seed}."
    )


def _state(results: Results) -> str:
    """In one line, whether all of this can be relied on."""
    found, wrong = results.coverage, sum(not point.valid for point in results.points)
    parts = [f"{found.present_count:,} of {found.configured_count:,} points were measured"]
    if found.failed:
        parts.append(f"{len(found.failed):,} failed")
    if found.missing:
        parts.append(f"{len(found.missing):,} are missing")
    parts.append(f"{wrong:,} are invalid" if wrong else "all of them valid")
    kind = "good" if results.sound else "bad"
    more = "" if results.sound else ' (<a href="#coverage">what is missing</a>)'
    return f'<p class="state {kind}">{escape(", ".join(parts))}{more}</p>'


def _section(section: Section) -> str:
    parts = [f"<section><h2>{escape(section.title)}</h2>"]
    parts += [_chart(chart) for chart in section.charts]
    parts += [_table(table, is_open=not table.name.startswith("points-")) for table in section.tables if table.rows]
    return "\n".join([*parts, "</section>"])


def _chart(chart: Chart) -> str:
    drawn = svg(chart)
    if not drawn:
        return "<p class=note>Nothing was measured that could be drawn.</p>"
    note = f"<p class=note>{escape(chart.note)}</p>"
    return f"<figure><figcaption>{escape(chart.title)}</figcaption>{legend(chart)}{drawn}{note}</figure>"


def _table(table: Table, is_open: bool) -> str:
    numeric = [
        any(isinstance(row[at].value, int | float) for row in table.rows if at < len(row))
        for at in range(len(table.columns))
    ]
    head = "".join(
        f"<th{_class(is_number)}>{escape(name)}</th>" for name, is_number in zip(table.columns, numeric, strict=True)
    )
    rows = "\n".join(
        "<tr>" + "".join(_cell(cell, is_number) for cell, is_number in zip(row, numeric, strict=False)) + "</tr>"
        for row in table.rows
    )
    opened = " open" if is_open else ""
    count = f" <small>({len(table.rows):,})</small>" if not is_open else ""
    return (
        f'<details id="{escape(table.name)}"{opened}><summary>{escape(table.title)}{count}</summary>'
        f"<p class=note>{escape(table.note)}</p>"
        f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _cell(cell: Cell, is_number: bool) -> str:
    text = escape(cell.text)
    if cell.file:
        text = f'<a href="../{escape(cell.file)}">{text}</a>'
    title = f' title="{escape(cell.title)}"' if cell.title else ""
    return f"<td{_class(is_number, cell.invalid, len(cell.text) > _LONG)}{title}>{text}</td>"


def _class(is_number: bool, invalid: bool = False, is_long: bool = False) -> str:
    wanted = [("number", is_number), ("invalid", invalid), ("long", is_long)]
    names = " ".join(name for name, is_so in wanted if is_so)
    return f' class="{names}"' if names else ""


def _about(results: Results) -> str:
    load = ", ".join(f"{name} = {value}" for name, value in results.load.items())
    return (
        "<details><summary>How it was measured</summary><p class=note>Recall and time are those of the same requests. "
        "Every request with its latency and the ids that came is in a raw file, which each figure leads to. A figure "
        "is invalid, and compared with nothing, if a request failed, rows were missing, the index was not used, the "
        "client was busy for more than half of the time, the offered rate was not answered, or the cache was not in "
        f"the state it was said to be in.</p><p class=note>Load: {escape(load)}.</p></details>"
    )
