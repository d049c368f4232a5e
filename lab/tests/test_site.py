"""The site: every run with its figures, losses of Pagehop first, pairs of runs, no network."""

from __future__ import annotations

import re
import shutil
from collections.abc import Hashable
from pathlib import Path

import pytest

from pagehop_lab import command
from pagehop_lab.command import main
from pagehop_lab.site import markdown, mistakes, pairs, summary
from pagehop_lab.site.build import build
from pagehop_lab.site.figures import Figure, figures_of
from pagehop_lab.store import RunFolder, StoreError
from pagehop_lab.suites.catalog import suite_of
from runs import QUICK, fake_engines, plan_of, run

LOAD = QUICK + "repeats = 3\nin_turns = 9\n"
KEPT = sorted(path.parent for path in (Path(__file__).parents[1] / "results").glob("*/machine.json"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of two runs of fake engines, the second a copy of the first."""
    place = tmp_path_factory.mktemp("site")
    with fake_engines(place / "data"):
        first = place / "runs/run-20260101-a"
        run(plan_of("honest", "short", load=LOAD, more="targets = [0.99, 0.05]"), first)
        shutil.copytree(first, place / "runs/run-20260102-b")
        assert build([place / "runs"], place / "made", lambda _: None) == 2
    return place / "made"


def figure(group: str, name: str, *repeats: float, more_is_better: bool = True, counted: bool = False) -> Figure:
    by_repeat: dict[Hashable, float] = dict(enumerate(repeats))
    return Figure(group, name, name, "library", "QPS", by_repeat, "points/x.json", more_is_better, counted)


def test_every_link_leads_to_a_file_of_the_site_and_nothing_else_is_loaded(site: Path) -> None:
    assert (site.parent / "runs/run-20260101-a/.lock").exists()
    assert not list(site.rglob("*lock"))
    found = 0
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(""", text), page
        for link in re.findall(r'href="([^"#]+)"', text):
            assert (page.parent / link).resolve().is_file(), f"{page}: {link}"
            found += 1
    assert found > 50


def test_the_index_has_every_run_with_its_state(site: Path) -> None:
    text = (site / "index.html").read_text()
    assert text.index("Where Pagehop loses") < text.index("All runs")
    for name, day in (("run-20260101-a", "2026-01-01"), ("run-20260102-b", "2026-01-02")):
        assert f'<a href="runs/{name}/report/index.html">{name}</a></td><td>{day}</td>' in text
    assert "are invalid" in text
    assert 'PAIRS = [["run-20260101-a", "run-20260102-b"]]' in text
    assert "equal-recall" in (site / "method.html").read_text()


def test_what_is_lost_is_told_by_intervals_and_what_is_not_reached_is_lost() -> None:
    figures = [
        figure("slower", "pagehop", 100, 101, 99), figure("slower", "other", 200, 202, 198),
        figure("faster", "pagehop", 300, 301, 299), figure("faster", "other", 200, 202, 198),
        figure("noise", "pagehop", 100, 300, 200), figure("noise", "other", 210, 190, 240),
        figure("once", "pagehop", 100), figure("once", "other", 1000),
        figure("smaller", "pagehop", 50, more_is_better=False, counted=True),
        figure("smaller", "other", 60, more_is_better=False, counted=True),
        figure("missing", "other", 1, 1, 1), figure("missing", "another", 2, 2, 2),
        figure("alone", "pagehop", 1, 1, 1),
    ]  # fmt: skip
    said = {one.other.group: one.said for one in summary.contests("run", figures)}
    assert said == {
        "slower": summary.LOST, "faster": summary.WON, "noise": summary.UNKNOWN, "once": summary.UNKNOWN,
        "smaller": summary.WON, "missing": summary.LOST,
    }  # fmt: skip
    lost = summary.table(summary.contests("run", figures), summary.LOST, "Pagehop loses")
    assert [(row[0].text, row[3].text) for row in lost.rows] == [
        ("missing", "another 2 QPS"),
        ("slower", "other 200 QPS"),
    ]
    # Without Pagehop in a run, there are no losses.
    assert summary.contests("run", [one for one in figures if not one.is_ours]) == []


def contests_of(run: str) -> dict[str, summary.Contest]:
    """The contests of Pagehop in a kept run, by compared figure."""
    folder = RunFolder(Path(__file__).parents[1] / "results" / run)
    results = suite_of(folder.plan).report(folder).results
    return {one.other.group: one for one in summary.contests(run, figures_of(results))}


def test_what_pagehop_costs_a_server_is_compared_as_well_as_its_rates() -> None:
    found = contests_of("vector-writers-20261130")
    said = {group: one.said for group, one in found.items()}
    for step in ("write-one", "copy", "log-rows", "log-interval"):
        assert said[f"{step}, rows/s"] == said[f"{step}, CPU us a row"] == summary.WON
        assert said[f"{step}, bytes of log a row"] == summary.LOST
    assert said["bytes of the index after loading"] == said["bytes of all data after loading"] == summary.LOST
    # Searches follow a schedule, so their rate does not depend on the server, and their latency is
    # compared.
    searches = [one.other.unit for group, one in found.items() if group.startswith("search")]
    assert sorted(searches) == [
        "ms, p50 of a search", "ms, p99 of a search", "times p50 without writers", "times p99 without writers",
    ]  # fmt: skip


def test_recall_that_is_missing_and_bytes_given_to_storage_are_compared() -> None:
    found = contests_of("vector-inserts-20261122")
    lost = ("qv0, recall that is missing", "l.i1, bytes given to storage for one", "qv0, bytes of the index after it")
    assert [found[group].said for group in lost] == [summary.LOST] * 3
    assert found["qv0"].said == found["qv0, p99 of a query"].said == summary.WON


def test_two_runs_are_compared_where_they_measured_the_same() -> None:
    first = [figure("a", "x", 100, 101, 99), figure("b", "x", 100, 101, 99), figure("c", "x", 1)]
    second = [figure("b", "x", 100, 100, 101), figure("a", "x", 200, 201, 199), figure("d", "x", 1)]
    table = pairs.table(("one", "two"), pairs.shared(first, second))
    assert [(row[0].text, row[4].text, row[6].text, row[4].tone) for row in table.rows] == [
        ("a", "2.000", "the second is higher", "better"),
        ("b", "1.003", "the same", ""),
    ]


def test_a_site_replaces_a_site_and_nothing_else(site: Path, tmp_path: Path) -> None:
    runs = site.parent / "runs"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").touch()
    with pytest.raises(StoreError, match="is not a site of the lab: give a folder that is new or empty"):
        build([runs], tmp_path / "mine", lambda _: None)
    with pytest.raises(StoreError, match="two runs are called run-20260101-a"):
        build([runs, runs / "run-20260101-a"], tmp_path / "site", lambda _: None)
    with pytest.raises(StoreError, match="there is no run in"):
        build([tmp_path], tmp_path / "site", lambda _: None)
    assert main(["site", str(tmp_path / "missing"), "--into", str(tmp_path / "site")]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]


def test_a_lab_that_is_installed_alone_shows_the_runs_that_are_here(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "KEPT", tmp_path / "nowhere")
    monkeypatch.chdir(tmp_path)
    assert main(["site"]) == 1
    assert "name the folders of runs" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "lab-runs").symlink_to(site.parent / "runs")
    with fake_engines(tmp_path / "data"):
        assert main(["site", "--into", str(tmp_path / "made")]) == 0
    assert sorted(path.name for path in (tmp_path / "made/runs").iterdir()) == ["run-20260101-a", "run-20260102-b"]


def test_a_run_that_cannot_be_read_is_listed_and_the_others_are_shown(site: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(site.parent / "runs/run-20260101-a", runs / "good")
    (runs / "bare").mkdir()
    (runs / "bare/machine.json").write_text("{}")
    for name, file, text in (
        ("other-plan", "plan-001.toml", "suite = 'of later'"),
        ("torn-machine", "machine.json", '{"cpu": '),
    ):
        shutil.copytree(runs / "good", runs / name)
        (runs / name / file).write_text(text)
    said: list[str] = []
    with fake_engines(tmp_path / "data"):
        assert build([runs], tmp_path / "made", said.append) == 1
    page = (tmp_path / "made/index.html").read_text()
    reasons = {"bare": f"{runs}/bare has no plan", "other-plan": "of later", "torn-machine": "machine.json"}
    for name, why in reasons.items():
        assert re.search(rf"<li>{name} cannot be read: [^<]*{why}", page), name
        assert any(re.search(rf"^{name} cannot be read: .*{why}", line) for line in said), name
        assert f'href="runs/{name}' not in page
    assert [path.name for path in (tmp_path / "made/runs").iterdir()] == ["good"]
    with pytest.raises(StoreError, match=r"no run can be read: .*bare has no plan"):
        build([runs / "bare"], tmp_path / "none", lambda _: None)
    assert not (tmp_path / "none").exists()


def test_a_site_that_another_lab_makes_at_the_same_time_is_left_alone(site: Path, tmp_path: Path) -> None:
    made, run_ = tmp_path / "made", site.parent / "runs/run-20260101-a"

    def beside(_: str) -> None:
        # The first lab has copied its run, and not put the site in its place.
        with fake_engines(tmp_path / "data"):
            assert build([run_], made, lambda _: None) == 1

    dead = tmp_path / ".unfinished-made-4194999-x"
    dead.mkdir()
    with fake_engines(tmp_path / "data"):
        assert build([run_], made, beside) == 1
    assert (made / "runs/run-20260101-a/report/index.html").is_file()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_folder_of_a_site_may_be_the_current_one_and_is_no_file(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here, run_ = tmp_path / "here", str(site.parent / "runs/run-20260101-a")
    here.mkdir()
    monkeypatch.chdir(here)
    with fake_engines(tmp_path / "data"):
        for _ in range(2):
            assert main(["site", run_, "--into", "."]) == 0
    assert Path("index.html").is_file()
    (tmp_path / "letter").write_text("mine")
    for name, said in (("letter", "is a file: give a folder"), ("letter/site", "cannot write the site to")):
        assert main(["site", run_, "--into", str(tmp_path / name)]) == 1
        assert said in capsys.readouterr().err
    assert (tmp_path / "letter").read_text() == "mine"


def test_the_kept_runs_make_a_site(tmp_path: Path) -> None:
    made = tmp_path / "site"
    for _ in range(2):
        assert build([KEPT[0]], made, lambda _: None) == 1
    assert sorted(path.name for path in made.iterdir()) == [
        ".pagehop-lab-site",
        "index.html",
        "method.html",
        "mistakes.html",
        "pairs",
        "runs",
    ]


def test_a_published_table_that_lost_settings_is_shown_as_printed_and_as_it_should_be() -> None:
    padded, skipped = mistakes.MISTAKES
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in mistakes.table(padded).rows}
    best = "m=12 ef_search=10"
    assert rows["1.00"] == ["MariaDB", "13,828", "m=32 ef_search=10", "108.5", *_same("13,828", 32, "108.5")]
    assert rows["0.99"] == ["MariaDB", "17,642", best, "24.5", "18,625", "m=8 ef_search=20", "15.1", "1.06"]
    assert rows["0.98"] == ["MariaDB", "17,642", best, "24.5", "19,555", "m=8 ef_search=10", "15.1", "1.11"]
    assert rows["0.95"] == ["MariaDB", "17,642", best, "24.5", "19,863", "m=6 ef_search=10", "11.5", "1.13"]
    assert [row[1].text for row in mistakes.lost(padded).rows] == [
        "no point has m = 4, 5, 6, 8", "no point has ef_search = 30",
    ]  # fmt: skip
    wrong = {(row[0].text, row[1].text) for row in mistakes.table(skipped).rows if row[-1].value not in (None, 1.0)}
    assert {target for target, _ in wrong} == {"1.00", "0.97", "0.95"}
    assert [(row[0].text, row[1].text) for row in mistakes.lost(skipped).rows] == [
        ("MariaDB", "no point has ef_search = 30"), ("PGVector", "no point has ef_search = 30"),
        ("PGVector_halfvec", "no point has ef_search = 300, 30"),
    ]  # fmt: skip
    page = mistakes.page()
    assert "<code>m= 8</code>" in page
    assert "no point has m = 4, 5, 6, 8" in page


def _same(qps: str, m: int, index_s: str) -> list[str]:
    return [qps, f"m={m} ef_search=10", index_s, "1.00"]


def test_documents_become_html() -> None:
    text = "# Head\n\n- **One** `a < b`\n  goes on\n  - inner\n\n  after it\n- two\n\nlast"
    assert markdown.html(text).split("\n") == [
        "<h1>Head</h1>", "<ul>", "<li><b>One</b> <code>a &lt; b</code> goes on</li>", "<ul>", "<li>inner</li>", "</ul>",
        "<p>after it</p>", "<li>two</li>", "</ul>", "<p>last</p>",
    ]  # fmt: skip
