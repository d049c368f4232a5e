"""One page with everything inside, style and charts too, so it opens without a network.

Only the links to raw files lead out of it, to the folder that it lies in.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pagehop_lab.report import heat
from pagehop_lab.report.chart import legend, svg
from pagehop_lab.report.style import STYLE
from pagehop_lab.suites.head import Head
from pagehop_lab.suites.table import Cell, Chart, Section, Table

# A text longer than this may take several lines.
_LONG = 70


def page(head: Head, sections: Sequence[Section], more: Sequence[Table], home: str = "") -> str:
    """The whole page; `home` is the first page of a site of many runs."""
    body = [
        f'<p class=note><a href="{escape(home)}">All runs</a></p>' if home else "",
        f"<h1>{escape(head.name)}</h1>",
        f"<p class=lead>{escape(head.lead)}</p>",
        _state(head, sections, more),
        *(_section(section) for section in sections),
        "<section><h2>Of the run</h2>",
        *(table_html(table, is_open=True) for table in more),
        _about(head),
        "</section>",
    ]
    return document(f"{head.name}: {head.subject}", "\n".join(body))


def document(title: str, body: str, more: str = "") -> str:
    """A page of HTML that needs nothing else; `more` is for its head."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}</style>\n{more}</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _state(head: Head, sections: Sequence[Section], of_the_run: Sequence[Table]) -> str:
    """One line on whether all figures are valid, with the reasons if not."""
    kind = "good" if head.is_sound else "bad"
    tables = [*of_the_run, *(table for section in sections for table in section.tables)]
    links = []
    for start, words in [("coverage", "what is missing"), ("invalid-", "what is invalid")]:
        name = next((table.name for table in tables if table.name.startswith(start) and table.rows), None)
        links += [f'<a href="#{escape(name)}">{words}</a>'] if name else []
    more = f" ({', '.join(links)})" if links else ""
    return f'<p class="state {kind}">{escape(", ".join(head.state))}{more}</p>'


def _section(section: Section) -> str:
    parts = [f"<section><h2>{escape(section.title)}</h2>"]
    parts += [chart_html(chart) for chart in section.charts]
    parts += [table_html(table, is_open=not table.name.startswith("points-")) for table in section.tables if table.rows]
    return "\n".join([*parts, "</section>"])


def chart_html(chart: Chart) -> str:
    """A chart with its legend and its note."""
    drawn = svg(chart)
    if not drawn:
        return "<p class=note>Nothing was measured that could be drawn.</p>"
    note = f"<p class=note>{escape(chart.note)}</p>"
    return f"<figure><figcaption>{escape(chart.title)}</figcaption>{legend(chart)}{drawn}{note}</figure>"


def table_html(table: Table, is_open: bool, up: str = "../") -> str:
    """A table that can be folded; `up` leads from the page to the folder of raw files."""
    numeric = table.numeric
    head = "".join(
        f"<th{_class(is_number)}>{escape(name)}</th>" for name, is_number in zip(table.columns, numeric, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(_cell(cell, is_number, up, table.is_heat) for cell, is_number in zip(row, numeric, strict=False))
        + "</tr>"
        for row in table.rows
    )
    opened = " open" if is_open else ""
    count = f" <small>({len(table.rows):,})</small>" if not is_open else ""
    return (
        f'<details id="{escape(table.name)}"{opened}><summary>{escape(table.title)}{count}</summary>'
        f"<p class=note>{escape(table.note)}</p>"
        f"{heat.key(table)}{_scrolled(head, rows) if rows else ''}</details>"
    )


def _scrolled(head: str, rows: str) -> str:
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"


def _cell(cell: Cell, is_number: bool, up: str, is_heat: bool) -> str:
    text = escape(cell.text)
    if cell.file:
        text = f'<a href="{up}{escape(cell.file)}">{text}</a>'
    title = f' title="{escape(cell.title)}"' if cell.title else ""
    is_shaded = is_heat and cell.is_apart and isinstance(cell.value, int | float)
    tone = heat.shade(float(cell.value or 0)) if is_shaded else cell.tone
    return f"<td{_class(is_number, cell.invalid, len(cell.text) > _LONG, tone)}{title}>{text}</td>"


def _class(is_number: bool, invalid: bool = False, is_long: bool = False, tone: str = "") -> str:
    wanted = [("number", is_number), ("invalid", invalid), ("long", is_long), (tone, bool(tone))]
    names = " ".join(name for name, is_so in wanted if is_so)
    return f' class="{names}"' if names else ""


def _about(head: Head) -> str:
    said = "".join(f"<p class=note>{escape(text)}</p>" for text in head.about if text)
    return f"<details><summary>How it was measured</summary>{said}</details>"
