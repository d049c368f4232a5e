"""The pages of a site that are not reports: the index, two runs side by side, and the method."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from pagehop_lab.report.page import document, table_html
from pagehop_lab.site import markdown, pairs, summary
from pagehop_lab.site.figures import Figure
from pagehop_lab.site.summary import Contest
from pagehop_lab.suites.agreement import differences
from pagehop_lab.suites.catalog import SUITES
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.suite import Report

METHOD = Path(__file__).with_name("method.md")
SCRIPT = Path(__file__).with_name("index.js")
_FILTERS = ("suite", "set", "engine", "machine")


@dataclass(frozen=True)
class Entry:
    """A run in the index."""

    name: str
    report: Report

    @property
    def day(self) -> str:
        """The date of the run, if its name has one."""
        found = re.search(r"(20\d\d)(\d\d)(\d\d)", self.name)
        return "-".join(found.groups()) if found else ""

    @property
    def tags(self) -> dict[str, list[str]]:
        """What it can be filtered by."""
        results = self.report.results
        is_of_engines = isinstance(results, Results)
        sets = list(results.datasets) if isinstance(results, Results) else []
        named = [one.title for one in results.engines] if isinstance(results, Results) else list(results.names)
        machine = f"{results.machine['cpu']}, {results.machine['cores']} cores"
        return {
            "suite": [results.suite],
            "set": sets if is_of_engines else [],
            "engine": named,
            "machine": [machine],
        }


def index(
    entries: Sequence[Entry], contests: Sequence[Contest], both: Sequence[tuple[str, str]], unread: Mapping[str, str]
) -> str:
    """The first page: the contests that Pagehop loses, the runs with filters, and two runs to
    compare.

    `unread` are the runs that cannot be read, with the reason.
    """
    body = [
        "<h1>Runs of Pagehop's lab</h1>",
        f'<p class=lead>{len(entries)} runs. <a href="method.html">How it is measured</a>. '
        '<a href="mistakes.html">Mistakes that coverage finds</a> in published tables.</p>',
        _summary(contests),
        "<section><h2>Two runs side by side</h2>",
        "<p class=filters><select id=first></select> and <select id=second></select> <span id=pair></span></p>",
        "<noscript><p class=note>Choosing takes JavaScript; the pages are in the folder pairs.</p></noscript>",
        "</section>",
        "<section><h2>All runs</h2>",
        _filters(entries),
        _runs(entries),
        *_unread(unread),
        "</section>",
        f"<script>const PAIRS = {_as_script([list(pair) for pair in both])};\n{SCRIPT.read_text()}</script>",
    ]
    return document("Runs of Pagehop's lab", "\n".join(body), _STYLE)


def _summary(contests: Sequence[Contest]) -> str:
    """The contests that Pagehop loses, then uncertain ones, then those that it wins."""
    counts = {said: sum(one.said == said for one in contests) for said in _HEADINGS}
    lead = (
        f"Of {len(contests)} figures beside the best of the others of its kind, library or server, Pagehop loses "
        f"{counts[summary.LOST]} and wins {counts[summary.WON]}; {counts[summary.SAME]} are the same, and "
        f"{counts[summary.UNKNOWN]} are inconclusive. Figures of one run are compared repeat by repeat."
    )
    parts = ["<section><h2>Where Pagehop loses</h2>", f"<p>{escape(lead)}</p>" if contests else "<p>Nothing here.</p>"]
    for said, words in _HEADINGS.items():
        shown = summary.table(contests, said, words)
        if shown.rows:
            parts.append(table_html(shown, is_open=said == summary.LOST, up="runs/"))
    return "\n".join([*parts, "</section>"])


_HEADINGS = {
    summary.LOST: "Pagehop loses",
    summary.UNKNOWN: "Inconclusive",
    summary.SAME: "They are the same",
    summary.WON: "Pagehop wins",
}


def _filters(entries: Sequence[Entry]) -> str:
    parts = ['<p class=filters><input id=words type=search placeholder="words" aria-label="words">']
    for name in _FILTERS:
        values = sorted({value for entry in entries for value in entry.tags[name]})
        options = "".join(f"<option>{escape(value)}</option>" for value in values)
        parts.append(f'<select data-filter={name} aria-label="{name}"><option value="">every {name}</option>')
        parts.append(f"{options}</select>")
    parts.append("<label><input id=sound type=checkbox> complete and valid</label> <span id=count></span></p>")
    return "".join(parts)


def _runs(entries: Sequence[Entry]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("run", "day", "suite", "sets", "engines or servers", "state"))
    rows = []
    for entry in sorted(entries, key=lambda one: (one.day, one.name), reverse=True):
        tags, state = entry.tags, entry.report.head
        cells = [
            f'<a href="runs/{escape(entry.name)}/report/index.html">{escape(entry.name)}</a>',
            entry.day,
            escape(", ".join(tags["suite"])),
            escape(", ".join(tags["set"])),
            escape(", ".join(tags["engine"])),
            escape(", ".join(state.state)),
        ]
        kinds = ["", "", "", "", " class=long", " class=long" if state.is_sound else ' class="long invalid"']
        data = f"data-name='{escape(entry.name)}' data-sound={int(state.is_sound)} data-tags='{_attribute(tags)}'"
        joined = "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, cells, strict=True))
        rows.append(f"<tr {data}>{joined}</tr>")
    return (
        f"<div class=scroll><table id=runs><thead><tr>{head}</tr></thead><tbody>\n"
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )


def _unread(unread: Mapping[str, str]) -> list[str]:
    if not unread:
        return []
    lines = "".join(f"<li>{escape(name)} cannot be read: {escape(why)}</li>" for name, why in unread.items())
    return [f"<p>Runs that are not shown:</p><ul>{lines}</ul>"]


def pair(names: tuple[str, str], reports: tuple[Report, Report], found: Sequence[tuple[Figure, Figure]]) -> str:
    """Two runs: their other differences, and every figure that both have."""
    one, other = (made.results for made in reports)
    told = differences(one, other) if isinstance(one, Results) and isinstance(other, Results) else []
    links = [f'<a href="../runs/{escape(name)}/report/index.html">{escape(name)}</a>' for name in names]
    body = [
        '<p class=note><a href="../index.html">All runs</a></p>',
        f"<h1>{' and '.join(links)}</h1>",
        *(
            f"<p class=lead>{escape(name)}: {escape(made.head.lead)}</p>"
            for name, made in zip(names, reports, strict=True)
        ),
        "<ul>" + "".join(f"<li>not alike: {escape(text)}</li>" for text in told) + "</ul>" if told else "",
        table_html(pairs.table(names, found), is_open=True, up="../runs/"),
    ]
    return document(" and ".join(names), "\n".join(body))


def method() -> str:
    """The meaning of figures, and how each suite measures."""
    suites = "\n".join(f"<h3>{escape(name)}</h3><p>{escape(suite.how)}</p>" for name, suite in SUITES.items())
    body = f'<p class=note><a href="index.html">All runs</a></p>\n{markdown.html(METHOD.read_text())}'
    return document("How it is measured", f"{body}\n<h2>Suites</h2>\n{suites}")


def _as_script(value: object) -> str:
    """JSON within a script of a page."""
    return json.dumps(value).replace("<", "\\u003c")


def _attribute(value: object) -> str:
    return escape(json.dumps(value), quote=True)


_STYLE = """<style>
.filters { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; }
.filters input[type=search], .filters select { font: inherit; padding: .2rem .4rem; max-width: 20rem; }
#runs td { white-space: normal; }
</style>
"""
