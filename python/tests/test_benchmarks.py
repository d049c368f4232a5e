"""The output of docs/make_benchmarks.py for kept results."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kept_reports
from kept_reports import Engine, bound, over, ratio
from kept_results import tables_of, turns_of
from kept_rows import verdict
from make_benchmarks import lost, lost_at_recall

REPOSITORY = Path(__file__).parents[2]
MADE = ["README.md", "docs/benchmarks.md", "docs/benchmarks.svg"]
PROGRAMS = [str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "docs").glob("*.py")]


def run(repository: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(repository / "docs" / "make_benchmarks.py"), *options]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def test_generated_parts_are_up_to_date_with_the_kept_results() -> None:
    done = run(REPOSITORY, "--check")
    assert done.returncode == 0, done.stderr


def test_changes_on_top_of_a_commit_are_not_hidden() -> None:
    folder = REPOSITORY / "lab/results/postgres-toast-20261129"
    (commit,) = {json.loads(path.read_text())["commit"] for path in (folder / "points").glob("*.json")}
    assert commit.endswith("+")
    page = (REPOSITORY / "docs/benchmarks.md").read_text()
    section = page.partition("## In PostgreSQL\n")[2].partition("\n## ")[0]
    assert f"commit {commit[:-1]} with changes on top." in section
    assert f"commit {commit[:-1]}." not in section


def generated(page: str, kind: str) -> list[list[str]]:
    """The cells of the first generated table whose marker begins with `kind`, without head."""
    part = (REPOSITORY / page).read_text().partition(f"<!-- ./dev docs: {kind}")[2].partition("<!-- end -->")[0]
    rows = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_the_readme_ends_with_what_is_lost() -> None:
    lost = [row[-1].endswith("loses") for row in generated("README.md", "lead")]
    assert any(lost)
    assert lost == sorted(lost)


def aims(run: str) -> list[list[str]]:
    """The cells of the lab's own table of aims of a kept run."""
    content = json.loads((REPOSITORY / "lab/results" / run / "report/tables.json").read_text())
    [table] = [table for part in content["sections"] for table in part["tables"] if table["name"] == "aims"]
    return [[cell["text"] for cell in row] for row in table["rows"]]


@pytest.mark.parametrize(
    ("run", "what", "other", "named", "count"),
    [
        ("texts-384-20261130", "hot QPS over SymphonyQG", "SymphonyQG", "texts, library", 2),
        ("texts-384-20261130", "hot QPS over hnswlib", "hnswlib", "texts, library", 0),
        (
            "texts-postgres-20261128", "PostgreSQL, QPS over pgvector halfvec, all cached", "pgvector halfvec",
            "texts, PostgreSQL", 1,
        ),
        ("sift-128-20261128", "hot QPS over SymphonyQG", "SymphonyQG", "descriptors of images, library", 1),
    ],
)  # fmt: skip
def test_ratios_at_a_recall_have_the_intervals_of_the_lab_and_a_mark_where_they_hold_1(
    run: str, what: str, other: str, named: str, count: int
) -> None:
    kind = "servers" if "postgres" in run else "libraries"
    part = (REPOSITORY / "docs/benchmarks.md").read_text().partition(f"<!-- ./dev docs: equal 1 {kind} {run}")[2]
    heads, rows = (
        [
            line.strip("| ").split(" | ")
            for line in part.partition("<!-- end -->")[0].splitlines()
            if line.startswith(by)
        ]
        for by in ("| recall@10 |", f"| {other} |")
    )
    shown = dict(zip(heads[0][1:], rows[1][1:], strict=True))
    told = [row for row in aims(run) if row[0] == what]
    assert told
    for _, _, recall, figure, interval, *_ in told:
        text = shown[recall]
        low, high = map(float, interval.split("-"))
        ends = [f"{float(end):.2f}" for end in text.partition("(")[2].rstrip(")").split(" to ")]
        assert ends == [f"{low:.2f}", f"{high:.2f}"]
        assert text.startswith(f"{figure}x{'?' if low < 1 < high else ''} (")
    rows_of_run = [row for row in generated("README.md", "lead") if row[0].startswith(f"{named}, queries/s")]
    readme = [row for row in rows_of_run if row[2].startswith(f"{other} ")]
    assert all(row[-1].removesuffix(", loses") == shown[row[0].rpartition(" ")[2]] for row in readme)
    assert len(readme) == count


def test_a_ratio_is_paired_only_within_a_group_and_one_repeat_is_no_interval() -> None:
    drift = {"1": 100.0, "2": 150.0, "3": 80.0}

    def engine(group: int, scale: float) -> Engine:
        qps = {f"{group}.1.{run}": scale * one for run, one in drift.items()}
        return Engine("a", True, {0.9: 100.0}, set(), {0.9: qps}, None, 1.0)

    assert ratio(over(engine(1, 1.1), engine(1, 1.0), 0.9)) == "1.10x (1.10 to 1.10)"
    assert ratio(over(engine(1, 1.1), engine(2, 1.0), 0.9)).startswith("1.10x? (0.")
    assert bound(0.998) == "0.998"
    assert bound(1.0024) == "1.002"
    assert bound(1.006) == "1.01"
    once = Engine("a", True, {0.9: 100.0}, set(), {0.9: {"1.1.1": 100.0}}, None, 1.0)
    assert ratio(over(once, once, 0.9)) == "1.00x? (one repeat)"


def test_a_recall_that_only_others_reach_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def engine(name: str, qps: dict[float, float]) -> Engine:
        return Engine(name, True, qps, set(), {at: {"1.1.1": one} for at, one in qps.items()}, None, 1.0)

    run_ = [engine("Pagehop", {0.9: 50.0}), engine("a", {0.9: 40.0, 0.99: 20.0}), engine("b", {0.99: 30.0, 1.0: 2.0})]
    monkeypatch.setattr("make_benchmarks.engines", lambda *_: run_)
    found = lost_at_recall("1", "libraries")
    assert [(one.at, one.ours, one.others, verdict(one)) for one in found] == [
        ("recall@10 0.99", "not reached", "b 30", "-"), ("recall@10 1", "not reached", "b 2", "-"),
    ]  # fmt: skip
    [line] = lost("QPS", "0.99", [("Pagehop", "-"), ("a m=4 x=5", "1,000")])
    assert (line.ours, line.others) == ("not reached", "a m=4 x=5 1,000")
    assert [one.ours for one in lost("CPU s", "", [("Pagehop", "-"), ("a", "3")])] == ["no figure"]
    assert not lost("QPS", "0.99", [("b", "-"), ("a", "1,000")]), "the table is not about Pagehop"


def test_engines_that_reach_little_are_engines_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def cells(*values: object) -> list[dict[str, object]]:
        return [{"text": str(value), "value": value} for value in values]

    tables: dict[str, list[list[dict[str, object]]]] = {
        "indexes-texts-384": [cells(name, "", "", "", "1", "2", "-") for name in ("low", "none", "high")],
        "interpolated-texts-384": [
            [*cells("0.95", "low", 5.0, "", ""), *cells("1.1.1: 5")], cells("0.95", "none", None, "", "", "-"),
            [*cells("0.99", "high", 2.0, "", ""), *cells("1.1.1: 2")],
        ],
    }  # fmt: skip
    monkeypatch.setattr(kept_reports, "report", lambda _, name: ([], tables[name]))
    found = kept_reports.engines(run="texts")
    assert [(one.name, one.qps) for one in found] == [("high", {0.99: 2.0}), ("low", {0.95: 5.0}), ("none", {})]


def test_each_table_says_which_sides_were_measured_in_turns() -> None:
    page = (REPOSITORY / "docs/benchmarks.md").read_text()
    fashion = turns_of(tables_of("fashion-mnist-20261122-a"))
    assert fashion.split(". ")[0].endswith("pgvector halfvec, MariaDB m=6")
    assert fashion.split(". ")[1].startswith("Then, in turns: faiss HNSW,")
    assert fashion.endswith("Then, in turns: MariaDB m=8, Scalable Vector Search bits=4x8.")
    assert turns_of(tables_of("postgres-cold-20261127")).endswith("not in turns.")
    assert turns_of(tables_of("texts-384-20261130")) == "All were measured in turns."
    for run in ("fashion-mnist-20261122-a", "postgres-cold-20261127", "texts-384-20261130", "vector-writers-20261130"):
        assert page.count(f"(../lab/results/{run}/). {turns_of(tables_of(run))}\n") >= 1


def test_a_loss_of_two_runs_of_a_section_is_there_twice() -> None:
    lost = [row for row in generated("docs/benchmarks.md", "losses") if row[2:4] == ["index MB", "servers"]]
    runs = [row[1] for row in lost if row[0] == "PostgreSQL over embeddings of real text"]
    assert runs == ["texts-postgres-20261128", "postgres-warm-20261127"]


def test_an_autovacuum_that_did_not_end_has_no_time_and_its_ratio_is_a_bound() -> None:
    [row] = [row for row in generated("docs/benchmarks.md", "losses") if row[2] == "autovacuum s"]
    assert row[4:] == [">60 (not ended)", "pgvector-halfvec 36.0", "at most 0.60x"]
    table = generated("docs/benchmarks.md", "lab vector-writers-20261130 vacuum")
    assert [row[-1] for row in table] == [">60 (not ended)", "36.0"]


@pytest.mark.parametrize(
    ("table", "column", "pagehop"),
    [
        ("lab texts-384-20261130 indexes-texts-384", -2, "Pagehop"),  # MB of the index
        ("lab texts-384-20261130 indexes-texts-384", -1, "Pagehop"),  # MB at the peak
        ("lab vector-writers-20261130 searches", -2, "pagehop-postgres"),  # the longest search
        ("lab vector-inserts-20261122 writes", -1, "pagehop-postgres"),
    ],
)
def test_a_smaller_figure_of_another_engine_is_among_the_losses(table: str, column: int, pagehop: str) -> None:
    losses = [(row[4], row[5].rpartition(" ")[2]) for row in generated("docs/benchmarks.md", "losses")]
    rows = generated("docs/benchmarks.md", table)
    steps = {row[1] for row in rows if row[0].startswith(pagehop)}
    found = 0
    for step in steps:
        same = [row for row in rows if row[1] == step or len(steps) == 1]
        [ours] = [row[column] for row in same if row[0].startswith(pagehop)]
        best = min((row[column] for row in same), key=lambda text: float(text.replace(",", "")))
        assert (best == ours) != ((ours, best) in losses), (step, ours, best)
        found += best != ours
    assert found


def test_a_figure_that_no_result_has_is_found_and_made_again(tmp_path: Path) -> None:
    for name in [*MADE, *PROGRAMS]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    (tmp_path / "lab").mkdir()
    for folder in ["lab/results", "lab/pagehop_lab"]:
        (tmp_path / folder).symlink_to(REPOSITORY / folder)
    charted = re.search(r">(\d+,\d+)<", (tmp_path / "docs/benchmarks.svg").read_text())
    assert charted is not None
    for name in MADE:
        right = (tmp_path / name).read_text()
        assert charted[1] in right, name
        (tmp_path / name).write_text(right.replace(charted[1], "0"))
        done = run(tmp_path, "--check")
        assert done.returncode == 1
        assert done.stderr.startswith(name)
        (tmp_path / name).write_text(right)
    for name in MADE:
        (tmp_path / name).write_text((tmp_path / name).read_text().replace(charted[1], "0"))
    assert run(tmp_path).returncode == 0
    for name in MADE:
        assert (tmp_path / name).read_text() == (REPOSITORY / name).read_text()
