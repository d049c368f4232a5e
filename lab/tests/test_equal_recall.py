"""Tables of `equal-recall` and figures of a site: marks of what a plan cannot tell, and coarse
grids.
"""

from __future__ import annotations

import math

import pytest

from pagehop_lab.analysis.points import Point
from pagehop_lab.analysis.records import PointRecord
from pagehop_lab.analysis.targets import at_targets
from pagehop_lab.plan import read_text
from pagehop_lab.site import summary
from pagehop_lab.site.figures import figures_of
from pagehop_lab.suites.equal_recall import tables
from pagehop_lab.suites.equal_recall.tables import LEAST, NEAR
from pagehop_lab.suites.results import EngineFacts, Results
from runs import results_of

PLAN = """
targets = [0.95]
recall = "ties"
[[dataset]]
name = "texts-384"
[[engine]]
name = "pagehop"
[[engine]]
name = "hnswlib"
"""


def repeats(engine: str, ef: int, recall: float, qps: float, wide: float = 0.001) -> list[Point]:
    """Three repeats of one setting, with the interval of its recall."""
    raw: PointRecord = {"recall_interval": {"with_ties": [recall - wide, recall + wide]}}
    return [
        Point("texts-384", engine, (), (("ef", ef),), recall, qps * (1 + at / 1000), repeat=at, raw=raw)
        for at in range(3)
    ]


def results(*points: Point) -> Results:
    named = [EngineFacts(name, name, None, "", None) for name in ("pagehop", "hnswlib")]
    return results_of(read_text(PLAN, "x"), points, engines=named)


def best_and_exact(found: Results, engine: str) -> tuple[str, str]:
    """The best QPS of an engine at or above the target, and the interpolated one, as shown."""
    at = at_targets(found.points, found.targets)
    best = {row[0].text: row[1].text.partition(" ")[0] for row in tables.best(found, at, "x").rows}
    exact = {row[1].text: row[2].text for row in tables.interpolated(found, at, "x").rows}
    return best[engine], exact[engine]


def test_a_target_below_the_least_effort_of_a_plan_is_marked() -> None:
    """Hnswlib's least effort here finds .9645. Pagehop has a setting below the target."""
    found = results(
        *repeats("pagehop", 10, 0.94, 3000), *repeats("pagehop", 20, 0.96, 2000),
        *repeats("hnswlib", 40, 0.9645, 488), *repeats("hnswlib", 80, 0.98, 300),
    )  # fmt: skip
    assert best_and_exact(found, "hnswlib") == (f"488{LEAST}", f"488{LEAST}")
    best, exact = best_and_exact(found, "pagehop")
    assert best == "2,002"
    assert LEAST not in exact
    assert "the least effort of the plan" in tables.best(found, at_targets(found.points, [0.95]), "x").note


def test_a_setting_that_finds_less_with_more_time_is_less_effort_all_the_same() -> None:
    found = results(*repeats("hnswlib", 20, 0.94, 400), *repeats("hnswlib", 40, 0.9645, 488))
    assert best_and_exact(found, "hnswlib") == ("488", "488")


def test_a_best_setting_whose_recall_may_be_below_the_target_for_other_queries_is_marked() -> None:
    found = results(
        *repeats("pagehop", 10, 0.94, 3000), *repeats("pagehop", 20, 0.9505, 2000),
        *repeats("hnswlib", 10, 0.94, 900), *repeats("hnswlib", 20, 0.953, 500),
    )  # fmt: skip
    assert best_and_exact(found, "pagehop")[0] == f"2,002{NEAR}"
    assert best_and_exact(found, "hnswlib")[0] == "500"
    note = tables.best(found, at_targets(found.points, [0.95]), "x").note
    assert "holds the target" in note
    assert "least effort" not in note


def test_a_site_compares_at_exactly_a_recall_so_that_a_coarse_grid_loses_nothing() -> None:
    """Both engines have the same curve. That of Pagehop is measured at two recalls only."""

    def qps(recall: float) -> float:
        return 1000 * math.exp(-20 * (recall - 0.9))

    found = results(
        *(point for ef, recall in [(10, 0.9), (100, 0.99)] for point in repeats("pagehop", ef, recall, qps(recall))),
        *(
            point
            for ef, recall in [(10, 0.9), (20, 0.9499), (21, 0.9501), (100, 0.99)]
            for point in repeats("hnswlib", ef, recall, qps(recall))
        ),
    )
    (contest,) = summary.contests("run", figures_of(found))
    assert contest.other.group == "texts-384, recall@10 = 0.95"
    assert contest.ratio.middle == pytest.approx(1)
    assert contest.ratio.count == 3
    assert contest.said == summary.SAME


def test_a_site_says_where_a_figure_is_that_of_the_least_effort() -> None:
    found = results(*repeats("pagehop", 10, 0.95, 3000), *repeats("hnswlib", 40, 0.9645, 488))
    won = summary.table(summary.contests("run", figures_of(found)), summary.WON, "wins")
    ((_, _, ours, other, *_),) = won.rows
    assert ours.text.endswith("QPS")
    assert other.text.endswith(f"QPS, {summary.LEAST}")
