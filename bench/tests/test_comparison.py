"""Equal recall: brackets, interpolation, both recalls, verdicts, each on numbers known beforehand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pagehop_bench import fashion, report
from pagehop_bench.curve import Bracket, bracket, interpolate, ladder
from pagehop_bench.measure import Sample, Spread, at_recall
from pagehop_bench.recall import recall_at
from pagehop_bench.report import Report, Row
from pagehop_bench.truth import Truth


def test_a_bracket_is_the_two_efforts_around_a_recall() -> None:
    efforts = ladder(10)
    asked: list[int] = []

    def recall_of(effort: int) -> float:
        asked.append(effort)
        return 1 - 2 / effort

    assert bracket(0.95, efforts, recall_of) == Bracket(0.95, 36, 40)
    assert len(asked) < 10
    assert max(asked) < 100
    assert bracket(0.5, efforts, recall_of) == Bracket(0.5, 10, 10)
    assert bracket(0.9999, efforts, recall_of) is None


def test_ladders_climb() -> None:
    assert ladder(10)[0] == 10
    assert ladder(100)[0] >= 100
    assert all(a < b for a, b in zip(ladder(1), ladder(1)[1:], strict=False))


def test_interpolation_stays_between_its_points() -> None:
    low, high = (0.9, 1000.0), (0.96, 500.0)
    assert interpolate(0.9, low, high) == pytest.approx(1000)
    assert interpolate(0.96, low, high) == pytest.approx(500)
    assert interpolate(0.93, low, high) == pytest.approx(500 * 2**0.5)
    assert interpolate(0.5, (0.9, 7.0), (0.9, 7.0)) == 7
    for target in [0.89, 0.97]:
        with pytest.raises(ValueError, match="not between"):
            interpolate(target, low, high)


def test_each_repeat_gives_a_figure() -> None:
    def sample(effort: int, repeat: int, wall: float, recall: float) -> Sample:
        return Sample("x", "y", effort, 1, repeat, 100, wall, wall, recall, recall)

    samples = [sample(10, 0, 1, 0.9), sample(20, 0, 4, 1.0), sample(10, 1, 2, 0.9), sample(20, 1, 2, 1.0)]
    figures = at_recall(samples, Bracket(0.95, 10, 20), lambda sample: sample.qps)
    assert figures == pytest.approx([50, 50])
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)


def test_twins_are_wrong_by_id_and_right_by_distance() -> None:
    base = np.array([[0.0], [1.0], [1.0], [1.0], [9.0]], dtype=np.float32)
    queries = np.zeros((1, 1), dtype=np.float32)
    truth = Truth(np.array([[0, 1, 2, 3, 4]]), np.array([[0.0, 1.0, 1.0, 1.0, 81.0]]))
    twin = recall_at(2, np.array([[0, 3]]), truth, base, queries)
    assert (twin.by_id, twin.with_ties) == (0.5, 1.0)
    far = recall_at(2, np.array([[0, 4]]), truth, base, queries)
    assert (far.by_id, far.with_ties) == (0.5, 0.5)
    twice = recall_at(2, np.array([[0, 0]]), truth, base, queries)
    assert (twice.by_id, twice.with_ties) == (0.5, 0.5)
    nothing = recall_at(2, np.array([[-1, -1]]), truth, base, queries)
    assert (nothing.by_id, nothing.with_ties) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("figure", "more_is_better", "verdict"),
    [(4.0, True, "aim"), (2.5, True, "floor"), (1.0, True, "MISSED"), (None, True, "not measured")],
)
def test_verdicts(figure: float | None, more_is_better: bool, verdict: str) -> None:
    assert Row("", "", figure, 2.0, 3.0, "x", more_is_better, "").verdict == verdict


def test_verdicts_where_less_is_better() -> None:
    rows = [Row("", "", figure, 35, 22, "", more_is_better=False, detail="") for figure in (20.0, 30.0, 40.0)]
    assert [row.verdict for row in rows] == ["aim", "floor", "MISSED"]


def test_a_results_file_becomes_a_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    run = Report()
    run.add(Row("cold pages", "recall@10 0.95", 40.0, 35, 22, "", more_is_better=False, detail=""))
    run.add(Row("hot QPS", "recall@10 0.95", None, 2.0, 3.5, "x", more_is_better=True, detail=""))
    path = run.write()
    text = report.markdown(path)
    assert path.name in text
    assert "| cold pages | recall@10 0.95 | 40.0 | 35.0 | 22.0 | MISSED |" in text
    assert "| hot QPS | recall@10 0.95 | - | 2.00x | 3.50x | not measured |" in text
    with pytest.raises(FileExistsError):
        run.write()


@pytest.mark.parametrize("typed", [["bench", "--only", "cold"], ["changes", "--rows", "9"]])
def test_the_command_is_told_as_it_was_typed(typed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["__main__.py", *typed])
    written = json.loads(Report().write().read_text())
    assert written["command"] == ["./dev", "bench", *(word for word in typed if word != "bench")]


def test_a_figure_without_an_aim_has_no_verdict() -> None:
    row = Row("rows a second", "", 5.0, None, None, "", more_is_better=True, detail="")
    assert row.verdict == "no aim"


def test_wrong_pictures_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fashion.VARIABLE, str(tmp_path))
    with pytest.raises(fashion.NoData, match="train-images"):
        fashion.load(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"no picture")
    with pytest.raises(fashion.NoData, match="train-images"):
        fashion.load(tmp_path)


def test_a_set_is_made_before_the_package_is_compiled(tmp_path: Path) -> None:
    """`./dev data` is the first command of many, and it compiles nothing."""
    (tmp_path / "pagehop.py").write_text("raise ImportError('it is not compiled yet')")
    bench = Path(__file__).parents[1]
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(bench)!r}]; "
    program += "from pagehop_bench import datasets, __main__; __main__.main()"
    arguments = [sys.executable, "-c", program, "data", "no-such-set"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "'no-such-set' is not one of fashion-mnist" in done.stderr, done.stderr
