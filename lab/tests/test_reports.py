"""The report: one page without a network, equal tables in all formats, links to raw files."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from pagehop_lab.command import main
from pagehop_lab.report import chart, files, terminal, write
from pagehop_lab.suites.results import Results
from pagehop_lab.suites.table import Cell, Chart, Mark, Series, Table, through_medians
from runs import QUICK, fake_engines, plan_of, run

LOAD = QUICK + "repeats = 2\nin_turns = 9\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with fake_engines(tmp_path_factory.mktemp("data")):
        yield tmp_path_factory.mktemp("run") / "reported"


@pytest.fixture(scope="module")
def results(folder: Path) -> Results:
    """The results of a run with measured, invalid and missing engines."""
    plan = plan_of("honest", "slow", "short", "missing", load=LOAD, more="targets = [0.99, 0.05]")
    return run(plan, folder)[0]


class Page(HTMLParser):
    """The links of a page, what it loads, and its open elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a":
            self.links.append(given.get("href") or "")
        if tag in ("script", "link", "img", "iframe", "object", "use") or "src" in given or "xlink:href" in given:
            self.loads.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An empty element is a mark of a chart, which loads nothing."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.usefixtures("results")
def test_the_page_needs_nothing_and_leads_to_raw_files(folder: Path) -> None:
    text = (folder / "report/index.html").read_text()
    page = Page(text)
    assert page.loads == []
    assert page.open == []
    assert not re.search(r"url\(|@import|https?://", re.sub(r"<td[^>]*>[^<]*</td>", "", text))
    raw = [link for link in page.links if not link.startswith("#")]
    assert len(raw) > 20
    for link in raw:
        assert (folder / "report" / link).resolve().is_file(), link


RESULTS = sorted(path.parent for path in (Path(__file__).parents[1] / "results").glob("*/machine.json"))


@pytest.mark.parametrize("kept", RESULTS, ids=lambda path: path.name)
def test_the_report_of_a_kept_run_can_be_made_again(kept: Path, tmp_path: Path) -> None:
    """The identity of a point in the lab must not change. Otherwise, old runs could not be read or
    continued.
    """
    again = tmp_path / kept.name
    shutil.copytree(kept, again, ignore=shutil.ignore_patterns("report"))
    results = write(again, quiet=True)
    assert [cell.name for cell in results.coverage.missing] == []
    # Pagehop had inserted all rows of that set before a step of eight clients ended.
    assert len(results.coverage.failed) == (4 if kept.name == "writers-16-cores-1-20261128" else 0)
    old, new = (json.loads((path / "report/tables.json").read_text()) for path in (kept, again))
    assert old["sections"][0]["tables"][0] == new["sections"][0]["tables"][0]


def test_two_runs_agree_or_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    # The difference is a factor of twenty, over three repeats, so a busy machine cannot hide it.
    load = QUICK + "repeats = 3\nin_turns = 9\n"
    plan = plan_of("drifting", load=load, more="targets = [0.99, 0.05]")
    run(plan, tmp_path / "one")
    monkeypatch.setenv("DRIFT_MS", "40")
    run(plan, tmp_path / "other")
    assert main(["compare", str(tmp_path / "one"), str(tmp_path / "one")]) == 0
    rows = list(csv.DictReader((tmp_path / "one/report/agreement-with-one.csv").open()))
    assert {row["verdict"] for row in rows} == {"agree"}
    assert main(["compare", str(tmp_path / "one"), str(tmp_path / "other")]) == 1
    assert "not alike" not in capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "other/report/agreement-with-one.csv").open()))
    assert [(row["engine"], row["recall >="], row["verdict"]) for row in rows] == [
        ("drifting", "0.99", "differ"), ("drifting", "0.05", "differ"),
    ]  # fmt: skip
    assert main(["compare", str(tmp_path / "one"), str(folder)]) == 1, "some engines are only in one of the runs"
    assert main(["compare", str(tmp_path / "one"), str(tmp_path / "nothing")]) == 1


def test_the_page_says_what_is_invalid_and_missing(folder: Path, results: Results) -> None:
    text = (folder / "report/index.html").read_text()
    assert not results.sound
    assert "12 of 16 points were measured, 4 failed, 4 are invalid" in text
    assert "not installed: there is no such library" in text
    assert re.search(r"rows: \d+ of \d+ answers had fewer than 10 rows", text)
    assert text.count('class="mark hollow"') == 4


@pytest.mark.usefixtures("results")
def test_tables_say_the_same_everywhere(folder: Path) -> None:
    told = json.loads((folder / "report/tables.json").read_text())
    tables = {table["name"]: table for section in told["sections"] for table in section["tables"]}
    best = tables["best-generated-16"]
    assert best["columns"] == ["engine", ">= 0.990", ">= 0.050"]
    with (folder / "report/best-generated-16.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["engine"] for row in rows] == ["honest", "slow", "short"]
    for row, cells in zip(rows, best["rows"], strict=True):
        for column, cell in zip(best["columns"][1:], cells[1:], strict=True):
            if cell["value"] is not None:
                assert float(row[column]) == cell["value"]
                assert (folder / row[f"{column} file"]).is_file()
    page = (folder / "report/index.html").read_text()
    assert best["rows"][0][1]["text"] in page
    assert rows[2][">= 0.050"] == "not reached", "invalid figures do not count as reached"


@pytest.mark.usefixtures("results")
def test_parquet_has_figures_as_numbers_and_leads_to_raw_files(folder: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert main(["report", str(folder), "--quiet", "--parquet"]) == 0
    files = {path.stem for path in (folder / "report").glob("*.csv")}
    assert {path.stem for path in (folder / "report").glob("*.parquet")} == files - {"agreement-with-one"}
    best = parquet.read_table(folder / "report/best-generated-16.parquet").to_pylist()
    assert [row["engine"] for row in best] == ["honest", "slow", "short"]
    assert isinstance(best[0][">= 0.050"], float)
    assert (folder / best[0][">= 0.050 file"]).is_file()
    assert best[2][">= 0.050"] is None, "a target that was not reached has no figure"
    points = parquet.read_table(folder / "report/points-generated-16.parquet").to_pylist()
    with (folder / "report/points-generated-16.csv").open() as file:
        assert [row["QPS"] for row in points] == [float(row["QPS"]) for row in csv.DictReader(file)]


@pytest.mark.usefixtures("results")
def test_a_report_can_be_made_again_from_the_raw_files(folder: Path) -> None:
    before = (folder / "report/tables.json").read_text()
    shutil.rmtree(folder / "report")
    write(folder, quiet=True)
    assert (folder / "report/tables.json").read_text() == before


def test_lost_points_are_found_from_the_files_alone(folder: Path, results: Results, tmp_path: Path) -> None:
    """The report names missing raw files, and values of options without any point."""
    assert results.coverage.complete
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for path in copy.glob("points/*honest*ef=100*.json"):
        path.unlink()
    found = write(copy, quiet=True)
    assert len(found.coverage.missing) == 2
    assert found.coverage.lost == {"honest": {"ef": (100,)}}
    assert "no point has ef = 100" in (copy / "report/index.html").read_text()


def test_text_in_a_table_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    from pagehop_lab.report.page import table_html

    table = Table("t", "<b>", ("a & b", "n"), [[Cell("<script>"), Cell.of(1.5, ".1f", file='x"y')]])
    shown = table_html(table, is_open=True)
    assert "<script>" not in shown
    assert 'href="../x&quot;y"' in shown
    assert "&lt;b&gt;" in shown
    print(terminal.text(table))
    assert capsys.readouterr().out == "<b>\n  a & b       n\n  <script>  1.5\n"
    assert list(csv.reader(io.StringIO(files.as_csv(table)))) == [["a & b", "n", "n file"], ["<script>", "1.5", 'x"y']]


@pytest.mark.parametrize(
    "marks",
    [
        [(1.0, 5.0)],
        [(0.5, 1.0), (1.0, 1e6)],
        [(0.0, 0.01), (0.3, 0.02)],
        [(0.9990, 123.0), (0.9991, 124.0)],
        [(0.9, 0.0)],
    ],
)
def test_charts_hold_all_points(marks: list[tuple[float, float]]) -> None:
    series = Series("a", [Mark(x, y, "") for x, y in marks], marks)
    drawn = chart.svg(Chart("c", "t", "x", "y", [series], x_nears_one=True))
    if marks == [(0.9, 0.0)]:
        assert drawn == "", "nothing to draw on a logarithmic axis"
        return
    centers = re.findall(r'cx="([\d.-]+)" cy="([\d.-]+)"', drawn)
    assert len(centers) == len(marks)
    for x, y in centers:
        assert 0 < float(x) < chart.WIDTH
        assert 0 < float(y) < chart.HEIGHT
    assert len(re.findall('class="tick"', drawn)) >= 3


@pytest.mark.parametrize(
    "xs",
    [
        [1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48],
        [0.0, 99.7, 99.8, 100.1, 100.2, 499.0, 499.9, 500.3, 731.0, 998.0, 1000.0, 1000.1, 1000.2, 1003.0, 1007.0],
        [0.0, 100.0, 100.1],
        [1.0, 1_000_000.0],
        [123_456.0 + number for number in range(20)],
        [5.0],
    ],
)
def test_labels_of_an_axis_do_not_overlap(xs: list[float]) -> None:
    series = Series("a", [Mark(x, 5.0, "") for x in xs], [])
    drawn = chart.svg(Chart("c", "t", "x", "y", [series], x_nears_one=False))
    labels = re.findall(r'<text class="tick" x="([\d.]+)"[^>]*text-anchor="middle">([^<]*)<', drawn)
    assert 1 <= len(labels) <= 15
    # A digit of the page's font at this size is at most 7 units wide.
    ends = [(float(x) - 3.5 * len(text), float(x) + 3.5 * len(text)) for x, text in labels]
    assert all(end < start for (_, end), (start, _) in pairwise(ends)), labels
    if len(set(xs)) <= 14 and len(xs) > 1:
        assert labels[-1][1] == f"{max(xs):,.10g}"


def test_a_line_goes_through_the_middle_of_repeats() -> None:
    steps = [
        [Mark(100.2, 5.0, ""), Mark(99.9, 9.0, ""), Mark(100.0, 7.0, "")],
        [Mark(0.0, 8.0, ""), Mark(0.0, 1.0, "", invalid=True)],
    ]
    assert through_medians([*steps, [Mark(500.0, 1.0, "", invalid=True)]]) == [(0.0, 8.0), (100.0, 7.0)]


@pytest.mark.usefixtures("results")
def test_a_browser_shows_the_page(folder: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=1000", "--dump-dom"]
    page = (folder / "report/index.html").resolve().as_uri()
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run([browser, *flags, profile, page], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Recall and throughput" in done.stdout
    assert done.stdout.count("<polyline") >= 2
