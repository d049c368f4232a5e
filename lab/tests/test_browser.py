"""Charts and the site in a real browser: no overlapping labels, no empty charts, filters that work.

Skipped without Chromium.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import made_up
from pagehop_lab import report
from pagehop_lab.report.page import chart_html, document, table_html
from pagehop_lab.site.build import build
from pagehop_lab.suites.catalog import SUITES
from pagehop_lab.suites.table import Section

BROWSER = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium: apt-get install chromium")

RESULTS = Path(__file__).parents[1] / "results"
KEPT = sorted(path.parent for path in RESULTS.glob("*/machine.json"))
SECONDS_MAX = 120

# Lists labels that visibly overlap, and charts without a mark inside their frame.
LOOK = """
const wrong = [];
for (const figure of document.querySelectorAll("figure")) {
  const name = figure.querySelector("figcaption").textContent;
  const svg = figure.querySelector(":scope > svg");
  const frame = svg.getBoundingClientRect();
  const inside = (box) => box.width > 0 && box.left >= frame.left - 1 && box.right <= frame.right + 1
    && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
  const marks = [...svg.querySelectorAll(".mark")].map((one) => one.getBoundingClientRect());
  if (!marks.length || !marks.every(inside)) wrong.push(`${name}: no marks, or some outside`);
  const labels = [...svg.querySelectorAll("text")];
  const boxes = labels.map((one) => one.getBoundingClientRect());
  boxes.forEach((box, at) => {
    if (!inside(box)) wrong.push(`${name}: '${labels[at].textContent}' is outside`);
    boxes.slice(at + 1).forEach((other, after) => {
      const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
      const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
      const names = `'${labels[at].textContent}' and '${labels[at + 1 + after].textContent}'`;
      if (wide > 1 && high > 3) wrong.push(`${name}: ${names} overlap`);
    });
  });
}
// A cell says what it is by its color, too.
const shades = [...document.querySelectorAll("td[class*=up], td[class*=down]")];
for (const cell of shades) {
  const color = getComputedStyle(cell).backgroundColor;
  if (color === "rgba(0, 0, 0, 0)") wrong.push(`'${cell.textContent}' has no shade`);
}
say({ shades: shades.length, figures: document.querySelectorAll("figure").length, wrong });
"""
FILTER = """
const count = () => rows.filter((row) => !row.hidden).length;
const all = count();
words.value = "vector-inserts"; words.dispatchEvent(new Event("input"));
const few = count();
words.value = ""; words.dispatchEvent(new Event("input"));
const suite = document.querySelector("select[data-filter=suite]");
suite.value = "equal-recall"; suite.dispatchEvent(new Event("change"));
const link = document.querySelector("#pair a");
say({ all, few, suite: count(), link: link && link.getAttribute("href") });
"""


def said(page: Path, script: str) -> Any:
    """The value that a script at the end of a page passes to `say`."""
    assert BROWSER is not None
    say = "const say = (value) => { const place = document.createElement('pre'); place.id = 'said'; "
    say += "place.textContent = JSON.stringify(value); document.body.append(place); };"
    page.write_text(page.read_text().replace("</body>", f"<script>{say}{script}</script></body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,900"]
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [BROWSER, *flags, profile, "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
    found = re.search(r'<pre id="said">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(unescape(found[1]))


def test_no_label_of_a_kept_chart_lies_over_another_and_no_chart_is_empty(tmp_path: Path) -> None:
    charts = [chart_html(chart) for path in KEPT for section in report.read(path).sections for chart in section.charts]
    page = tmp_path / "page.html"
    page.write_text(document("charts", "\n".join(charts)))
    found = said(page, LOOK)
    assert found["wrong"] == []
    assert found["figures"] == len(charts) > 5


@pytest.fixture(scope="module")
def sections(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Section]]:
    """The sections of the report of a fake run of every suite."""
    return made_up.sections(tmp_path_factory.mktemp("runs"))


def test_the_charts_of_every_suite_can_be_read(sections: dict[str, list[Section]], tmp_path: Path) -> None:
    assert set(sections) == set(SUITES), "a suite has no fake run"
    shown: list[str] = []
    for suite, found in sections.items():
        charts = [chart_html(chart) for section in found for chart in section.charts]
        heats = [table_html(table, is_open=True) for section in found for table in section.tables if table.is_heat]
        assert charts or heats, f"{suite} shows nothing at a glance"
        shown += charts + heats
    # One page for all of them: a browser takes seconds to start.
    page = tmp_path / "page.html"
    page.write_text(document("suites", "\n".join(shown)))
    seen = said(page, LOOK)
    assert seen["wrong"] == []
    assert seen["figures"] == sum(text.count("<figure") for text in shown) > 0


def test_a_reader_finds_the_charts_that_he_expects(sections: dict[str, list[Section]]) -> None:
    there = {suite: {chart.name for section in found for chart in section.charts} for suite, found in sections.items()}
    assert {"sessions-generated-16", "each-generated-16", "latencies-generated-16"} <= there["concurrency"]
    assert {"sessions-generated-16", "latencies-generated-16"} <= there["phases"]
    assert {"recall-generated-16", "latencies-generated-16"} <= there["equal-recall"]
    assert {"storage-requests", "storage-kib"} <= there["point-reads"]
    for suite in ("inserts", "vector-inserts", "vector-writers"):
        assert "latencies" in there[suite]
    heats = {suite for suite, found in sections.items() for one in found for table in one.tables if table.is_heat}
    assert heats == {"oltp", "concurrency", "inserts", "vector-inserts"}


def test_overlaps_and_empty_charts_are_seen(tmp_path: Path) -> None:
    label = '<text x="{}" y="50">a label</text>'
    mark = '<circle class="mark" cx="{}" cy="20" r="4"/>'
    charts = [
        f'<figure><figcaption>{name}</figcaption><svg viewBox="0 0 880 440">{"".join(parts)}</svg></figure>'
        for name, parts in [
            ("good", [label.format(20), label.format(200), mark.format(30)]),
            ("over", [label.format(20), label.format(40), mark.format(30)]),
            ("empty", [label.format(20)]),
            ("outside", [label.format(20), mark.format(2000)]),
        ]
    ]
    page = tmp_path / "page.html"
    page.write_text(document("charts", "\n".join(charts)))
    assert said(page, LOOK)["wrong"] == [
        "over: 'a label' and 'a label' overlap",
        "empty: no marks, or some outside",
        "outside: no marks, or some outside",
    ]


def test_the_index_filters_runs_and_finds_two_to_compare(tmp_path: Path) -> None:
    # The newest run of each suite, and two that make a pair.
    of_suites = {report.read(path).results.suite: path for path in sorted(KEPT, key=lambda path: path.name[-8:])}
    shown = sorted({*of_suites.values(), *(path for path in KEPT if path.name.startswith("fashion-mnist-"))})
    build(shown, tmp_path / "site", lambda _: None)
    found = said(tmp_path / "site" / "index.html", FILTER)
    of_engines = sum('suite = "equal-recall"' in (path / "plan-001.toml").read_text() for path in shown)
    assert (found["all"], found["few"], found["suite"]) == (len(shown), 1, of_engines)
    assert (tmp_path / "site" / found["link"]).is_file()
