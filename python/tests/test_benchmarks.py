"""The output of docs/make_benchmarks.py for kept results."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
MADE = ["README.md", "docs/benchmarks.md", "docs/benchmarks.svg"]


def run(repository: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(repository / "docs" / "make_benchmarks.py"), *options]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def test_generated_parts_are_up_to_date_with_the_kept_results() -> None:
    done = run(REPOSITORY, "--check")
    assert done.returncode == 0, done.stderr


def test_changes_on_top_of_a_commit_are_not_hidden() -> None:
    folder = REPOSITORY / "lab/results/vector-writers-20261126"
    (commit,) = {json.loads(path.read_text())["commit"] for path in (folder / "points").glob("*.json")}
    assert commit.endswith("+")
    page = (REPOSITORY / "docs/benchmarks.md").read_text()
    section = page.partition("## Many writers in PostgreSQL")[2]
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


@pytest.mark.parametrize(
    ("table", "column", "pagehop"),
    [
        ("lab texts-384-20261126 indexes-texts-384", -2, "Pagehop"),  # MB of the index
        ("lab texts-384-20261126 indexes-texts-384", -1, "Pagehop"),  # MB at the peak
        ("lab vector-writers-20261126 vacuum", -1, "pagehop-postgres"),
        ("lab vector-inserts-20261122 writes", -1, "pagehop-postgres"),
    ],
)
def test_a_smaller_figure_of_another_engine_is_among_the_losses(table: str, column: int, pagehop: str) -> None:
    losses = [(row[3], row[4].rpartition(" ")[2]) for row in generated("docs/benchmarks.md", "losses")]
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
    for name in [*MADE, "docs/make_benchmarks.py"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    for results in ["lab/results"]:
        (tmp_path / results).parent.mkdir()
        (tmp_path / results).symlink_to(REPOSITORY / results)
    assert run(tmp_path, "--check").returncode == 0
    charted = re.search(r">(\d+,\d+)<", (tmp_path / "docs/benchmarks.svg").read_text())
    assert charted is not None
    for name in MADE:
        right = (tmp_path / name).read_text()
        assert charted[1] in right, name
        (tmp_path / name).write_text(right.replace(charted[1], "0"))
        done = run(tmp_path, "--check")
        assert done.returncode == 1
        assert done.stderr.startswith(name)
        assert run(tmp_path).returncode == 0
        assert (tmp_path / name).read_text() == right
