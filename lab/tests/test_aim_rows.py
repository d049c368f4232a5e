"""Rows of the table of aims: a row for each share of a filter, and none that vanishes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pagehop_lab.analysis.points import Point
from pagehop_lab.engines.numpy_scan import NumpyScan
from pagehop_lab.plan import PlanError, read_text
from pagehop_lab.plan.read import on_sets
from pagehop_lab.suites import aims
from pagehop_lab.suites.results import Build, Results
from pagehop_lab.suites.table import Table
from runs import results_of

FILTERS = Path(__file__).parents[1] / "plans/filters.toml"
PLAN = """
[load]
repeats = 3
matching = [1.0, 0.1, 0.001]

[[dataset]]
name = "texts-384"

[[dataset]]
name = "tokens-384"

[[engine]]
name = "pagehop"

[[engine]]
name = "hnswlib"

[[engine]]
name = "numpy-scan"

[[aim]]
what = "QPS over hnswlib, or over a scan"
over = ["hnswlib", "numpy-scan"]
set = "texts-384"
recall = 0.95
matching = [1.0, 0.1, 0.001]
floor = [3, 2, 1]
"""


def repeats(engine: str, recall: float, qps: float, matching: float = 1.0) -> list[Point]:
    """Three repeats of one setting among the rows that a filter leaves."""
    asked = (("matching", matching),) if matching < 1 else ()
    return [
        Point("texts-384", engine, (), (("ef", 10),), recall, qps * (1 + at / 1000), repeat=at, asked=asked)
        for at in range(3)
    ]


def table_of(results: Results) -> Table:
    found = aims.table([results])
    assert found is not None
    return found


def test_a_ratio_is_of_one_share_of_a_filter_and_each_share_has_a_row_with_its_own_limit() -> None:
    """Pagehop is five times as fast without a filter, and a tenth as fast among one row in 1,000.

    hnswlib misses the recall there, so the scan of the rows that are left stands for it.
    """
    plan = read_text(PLAN, "x")
    points = [
        *repeats("pagehop", 0.96, 5000), *repeats("hnswlib", 0.96, 1000),
        *repeats("pagehop", 0.96, 1000, 0.1), *repeats("hnswlib", 0.96, 500, 0.1), *repeats("numpy-scan", 1, 9, 0.1),
        *repeats("pagehop", 0.96, 100, 0.001), *repeats("hnswlib", 0.6, 9000, 0.001),
        *repeats("numpy-scan", 1, 1000, 0.001),
    ]  # fmt: skip
    rows = table_of(results_of(plan, points)).rows
    assert [(row[3].text, row[5].text, row[7].text) for row in rows] == [
        ("5.00", "3", "floor reached"), ("2.00", "2", "floor reached"), ("0.10", "1", "MISSED"),
    ]  # fmt: skip
    assert [row[0].text.partition("scan")[2] for row in rows] == [
        "", ", a filter leaves 0.1 of the rows", ", a filter leaves 0.001 of the rows",
    ]  # fmt: skip
    assert "of hnswlib" in rows[0][8].text
    assert "of numpy-scan" in rows[2][8].text


def test_the_plan_of_filters_has_the_limits_of_each_share() -> None:
    plan = read_text(FILTERS.read_text(), "filters")
    file = {dict(one.load)["matching"]: (one.floor, one.aim) for one in plan.aims if one.engine == "pagehop"}
    assert file == {0.5: (3, 5), 0.1: (3, 6), 0.01: (5, 20), 0.001: (10, 50)}
    server = {dict(one.load)["matching"]: (one.floor, one.aim) for one in plan.aims if one.engine == "pagehop-postgres"}
    assert server == {0.5: (4, 8), 0.1: (5, 10), 0.01: (15, 40)}
    assert {one.recall for one in plan.aims} == {0.95, 0.98}


def test_a_scan_finds_the_nearest_of_the_rows_that_a_filter_leaves(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).standard_normal((200, 8)).astype(np.float32)
    engine, kept = NumpyScan(tmp_path), np.arange(200) % 3 == 0
    engine.build(rows, "euclidean", {}, 1, 1)
    found = engine.filtered({}, 5, kept)(rows[:10])
    for query, ids in zip(rows[:10], found, strict=True):
        far = ((rows - query) ** 2).sum(axis=1) + np.where(kept, 0, np.inf)
        assert ids.tolist() == np.argsort(far)[:5].tolist()


def test_what_the_least_effort_of_a_plan_finds_beyond_a_recall_is_named() -> None:
    plan = read_text(PLAN, "x")
    (row, *_) = table_of(results_of(plan, [*repeats("pagehop", 0.95, 5000), *repeats("hnswlib", 0.9645, 1000)])).rows
    least = "ef=10, the plan's least effort, finds 0.9645"
    assert row[8].text == f"5,005 QPS (ef=10) against 1,001 QPS ({least}) of hnswlib"


def test_an_aim_over_a_set_that_could_not_be_made_has_a_row_without_a_figure() -> None:
    aim = 'what = "bytes"\nfigure = "bytes_per_row"\nset = "texts-384"\nover_set = "tokens-384"\nfloor = 2\n'
    plan = read_text(PLAN.partition("[[aim]]")[0] + "[[aim]]\n" + aim, "x")
    builds = [Build("texts-384", "pagehop", (), 0, "", {"index_bytes": 1000})]
    (row,) = table_of(results_of(plan, [], builds, {"texts-384": {"rows": 10}})).rows
    assert row[7].text == "not there"
    assert "pagehop on tokens-384: " in row[8].text


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('set = "texts-384"', 'set = "texts-348"', r"aim\[1\].set = 'texts-348': .* did you mean texts-384"),
        ('set = "texts-384"', 'but = "texts-348"', r"aim\[1\].but = 'texts-348'"),
        ('set = "texts-384"', 'over_set = "texts-348"', r"aim\[1\].over_set = 'texts-348'"),
        ('"hnswlib", "numpy-scan"', '"hnswlib", "numpy"', r"aim\[1\].over = 'numpy'"),
        ('set = "texts-384"', 'engine = "pagehob"', r"aim\[1\].engine = 'pagehob': .* did you mean pagehop"),
        ("matching = [1.0, 0.1, 0.001]\nfloor", "matching = [1.0, 0.1, 0.5]\nfloor", r"matching = 0.5: the plan does"),
        ("floor = [3, 2, 1]", "floor = [3, 2]", "one number, or a number for each share"),
        ('set = "texts-384"', "k = 5", r"aim\[1\].k = 5: the plan does not measure it; \[load\] has 10"),
        ('set = "texts-384"', "insert_rate = 9", r"insert_rate = 9.0: the plan does not measure it"),
    ],
)
def test_an_aim_about_what_the_plan_does_not_measure_is_refused(right: str, wrong: str, said: str) -> None:
    assert right in PLAN
    with pytest.raises(PlanError, match=said):
        read_text(PLAN.replace(right, wrong), "x")


def test_an_aim_about_a_set_that_a_user_replaced_has_no_row() -> None:
    """`--set` narrows a plan, and the aims of its other sets with it. A typo is still refused."""
    text = on_sets(PLAN, ["sift-128"])
    plan = read_text(text, "x")
    assert aims.table([results_of(plan, [])]) is None
    with pytest.raises(PlanError, match="did you mean sift-128"):
        read_text(text.replace('set = "texts-384"', 'set = "sift-182"'), "x")
