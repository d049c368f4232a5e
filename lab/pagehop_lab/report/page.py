"""One page with everything: its style and its charts are in it, so it opens anywhere, without a network.

Only the links to raw files lead out of it, to the folder that it lies in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from pagehop_lab.analysis.coverage import Coverage
from pagehop_lab.analysis.verdicts import OTHERS
from pagehop_lab.report.chart import legend, svg
from pagehop_lab.report.style import STYLE
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Cell, Chart, Section, Table

# A text longer than this may take several lines.
_LONG = 70


@dataclass(frozen=True)
class Head:
    """What a page says first, and last."""

    name: str
    subject: str
    """What is compared."""
    lead: str
    state: tuple[str, ...]
    """What was measured, and what is missing or invalid."""
    is_sound: bool
    """Whether all of it can be relied on."""
    about: tuple[str, ...]
    """How it was measured."""


def page(head: Head, sections: list[Section], more: list[Table]) -> str:
    """The whole page."""
    body = [
        f"<h1>{escape(head.name)}</h1>",
        f"<p class=lead>{escape(head.lead)}</p>",
        _state(head, sections, more),
        *(_section(section) for section in sections),
        "<section><h2>Of the run</h2>",
        *(_table(table, is_open=True) for table in more),
        _about(head),
        "</section>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(head.name)}: {escape(head.subject)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def head_of(results: Results) -> Head:
    """The head of a run of engines."""
    machine = results.machine
    repeats, rebuilds = results.load["repeats"], results.load["rebuilds"]
    lead = (
        f"{on_machine(machine)} k = {results.k}; {counted(repeats, 'repeat')} of {counted(rebuilds, 'build')}; suite "
        f"{results.suite}, seed {results.seed}."
    )
    wrong = sum(not point.valid for point in results.points)
    load = ", ".join(f"{name} = {value}" for name, value in results.load.items())
    about = (
        "Recall and time are those of the same requests. Every request with its latency and the ids that came is in a "
        "raw file, which each figure leads to. A figure is invalid, and compared with nothing, if a request failed, "
        "rows were missing, the index was not used, the client was busy for more than half of the time, the offered "
        "rate was not answered, or the cache was not in the state it was said to be in. What was invalid for its "
        "client or its cache, which may be otherwise a moment later, was measured again, three times at most. All "
        "attempts are kept, and the last one counts, whatever its figure."
    )
    state = state_of(results.coverage, wrong, [point.noted for point in results.points], results.again)
    return Head(
        results.name, "engines at equal recall", lead, state, results.sound, (about, f"Load: {load}.", results.made_by)
    )


def counted(number: int, what: str) -> str:
    """`1 repeat`, `2 repeats`."""
    return f"{number} {what}" + ("s" if number > 1 else "")


def on_machine(machine: Mapping[str, Any]) -> str:
    """What it was measured on, in one sentence."""
    memory = f"{machine['memory_gib']:.0f} GiB"
    # Folders from before say less.
    virtual = {None: "", "none": "", "yes": "virtual"}.get(machine.get("virtualization"))
    more = [
        f"virtual ({machine['virtualization']})" if virtual is None else virtual,
        f"governor {machine['governor']}" if machine.get("governor") else "",
        machine.get("file_system") or "",
        machine.get("disk") or "",
    ]
    told = ", ".join(filter(None, [f"Linux {machine['kernel']}", *more]))
    return f"{machine['cpu']}, {machine['cores']} cores, {memory}, {told}."


def made_by(commits: Iterable[str | None]) -> str:
    """The commits of the lab that measured something, in one sentence; nothing where they are not known."""
    known = sorted({commit for commit in commits if commit})
    return f"Measured by the lab at {', '.join(known)}." if known else ""


def state_of(found: Coverage, wrong: int, notes: Sequence[Sequence[str]], again: int) -> tuple[str, ...]:
    """How much of a plan was measured, how much of that is invalid, how much was disturbed (`notes` has those of each
    measurement), and how much was measured more than once.
    """
    parts = [f"{found.present_count:,} of {found.configured_count:,} points were measured"]
    if found.failed:
        parts.append(f"{len(found.failed):,} failed")
    if found.missing:
        parts.append(f"{len(found.missing):,} are missing")
    parts.append(f"{wrong:,} are invalid" if wrong else "all of them valid")
    disturbed = sum(any(note.startswith(OTHERS) for note in noted) for noted in notes)
    if disturbed:
        parts.append(f"{disturbed:,} while other work took a part of the machine")
    if again:
        parts.append(f"{again:,} more than once, of which the last attempt counts")
    return tuple(parts)


def _state(head: Head, sections: list[Section], of_the_run: list[Table]) -> str:
    """In one line, whether all of this can be relied on, with what tells why it cannot."""
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
    numeric = table.numeric
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
        f"{_scrolled(head, rows) if rows else ''}</details>"
    )


def _scrolled(head: str, rows: str) -> str:
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"


def _cell(cell: Cell, is_number: bool) -> str:
    text = escape(cell.text)
    if cell.file:
        text = f'<a href="../{escape(cell.file)}">{text}</a>'
    title = f' title="{escape(cell.title)}"' if cell.title else ""
    return f"<td{_class(is_number, cell.invalid, len(cell.text) > _LONG, cell.tone)}{title}>{text}</td>"


def _class(is_number: bool, invalid: bool = False, is_long: bool = False, tone: str = "") -> str:
    wanted = [("number", is_number), ("invalid", invalid), ("long", is_long), (tone, bool(tone))]
    names = " ".join(name for name, is_so in wanted if is_so)
    return f' class="{names}"' if names else ""


def _about(head: Head) -> str:
    said = "".join(f"<p class=note>{escape(text)}</p>" for text in head.about if text)
    return f"<details><summary>How it was measured</summary>{said}</details>"
