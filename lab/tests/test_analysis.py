"""The analysis of numbers whose results are known."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest

from pagehop_lab.analysis import agreement, coverage, sessions, targets, uncertainty, verdicts
from pagehop_lab.analysis.curve import Bracket, bracket, interpolate, ladder
from pagehop_lab.analysis.intervals import Interval
from pagehop_lab.analysis.points import Point
from pagehop_lab.analysis.recalls import recalls
from pagehop_lab.analysis.records import PointRecord
from pagehop_lab.analysis.settings import Spread, settings_of
from pagehop_lab.measure.storage import Counters, profile


def point(engine: str, ef: int, recall: float, qps: float, m: int = 16, **more: Any) -> Point:
    return Point("set", engine, (("m", m),), (("ef", ef),), recall, qps, **more)


CURVE = [point("a", 10, 0.90, 1000), point("a", 20, 0.96, 500), point("a", 40, 0.99, 250)]


def test_the_best_is_the_fastest_that_reaches_the_target() -> None:
    settings = settings_of([*CURVE, point("a", 10, 0.955, 600, m=32)])

    def best(target: float) -> float | None:
        found = targets.best_at(settings, target)
        return found.qps.median if found else None

    assert [best(target) for target in (0.9, 0.95, 0.96, 0.99, 0.991)] == [1000, 600, 500, 250, None]


def test_runs_agree_within_a_tenth_and_differ_where_an_interval_says_so() -> None:
    def found(first: list[float], second: list[float], recall: float = 0.99) -> str:
        one, other = (
            [point("a", 10, of, qps, repeat=number) for number, qps in enumerate(figures)]
            for of, figures in ((0.99, first), (recall, second))
        )
        (pair,) = agreement.pairs(one, other, [0.99])
        return pair.verdict

    assert found([1000, 1010], [1090, 1095]) == "agree"
    assert found([1000, 1010], [1200, 1210]) == "differ"
    assert found([1210, 1200], [1010, 1000]) == "differ", "the order of the runs does not matter"
    assert found([900, 1300], [1200, 1400]) == "inconclusive", "the ranges overlap"
    assert found([900, 1000], [1100, 1300]) == "inconclusive", "ranges that do not overlap are not sufficient"
    assert found([1000], [1200, 1210]) == "inconclusive", "one measurement has no range"
    assert found([1000, 1010], [1000, 1010], recall=0.98) == "only one reaches it"
    (neither,) = agreement.pairs([point("a", 10, 0.9, 1)], [], [0.99])
    assert (neither.verdict, neither.ratio) == ("neither reaches it", None)


def test_what_two_runs_hold_is_a_share_and_a_width() -> None:
    ratios = [Interval(1.0, 0.9, 1.1, 3), Interval(1.2, 1.1, 1.3, 3), Interval(2.0, 0.0, math.inf, 1)]
    held = agreement.Held.of(ratios)
    assert (held.count, held.held) == (2, 1), "one repeat has no interval"
    assert held.width == pytest.approx((math.sqrt(1.1 / 0.9) + math.sqrt(1.3 / 1.1)) / 2 - 1)
    assert "holds 1 in 1 of 2 figures (50.0%); it goes 9.6% to either side" in held.shown()
    assert agreement.Held.of([]).shown().startswith("No figure has an interval")


def test_two_runs_of_identical_engines_hold_1_in_nineteen_of_twenty_figures() -> None:
    random = np.random.default_rng(4)

    def run() -> list[Point]:
        figures = np.exp(0.05 * random.standard_normal((400, 3)))
        return [
            point(f"engine {engine}", 10, 0.99, 1000 * float(qps), repeat=repeat)
            for engine, repeats in enumerate(figures)
            for repeat, qps in enumerate(repeats)
        ]

    pairs = agreement.pairs(run(), run(), [0.99])
    held = agreement.Held.of([pair.interval for pair in pairs if pair.interval is not None])
    assert held.count == 400
    assert held.held / held.count >= 0.95
    assert 0.05 < held.width < 0.2


def test_interpolation_stays_between_two_settings_of_one_index() -> None:
    settings = settings_of([*CURVE, point("a", 10, 0.999, 10, m=32)])
    found = targets.between_at(settings, 0.93)
    assert found is not None
    assert found.qps == pytest.approx(math.sqrt(1000 * 500))
    assert [dict(one.search)["ef"] for one in (found.low, found.high)] == [10, 20]
    slow = settings_of([*CURVE, point("a", 15, 0.951, 100), point("a", 16, 0.95, 5000)])
    beside = targets.between_at(slow, 0.955)
    assert beside is not None
    assert beside.qps > 500, "at least the figure of a setting with a higher recall"
    exact = targets.between_at(settings, 0.96)
    assert exact is not None
    assert (exact.qps, exact.low) == (500, exact.high)
    for beyond in (0.9995, 1.0):
        assert targets.between_at(settings, beyond) is None


def test_at_a_recall_is_never_less_than_what_was_measured_above_it() -> None:
    # The least effort of one index reaches more than the target, and is faster than the other index
    # there.
    settings = settings_of([*CURVE, point("a", 10, 0.983, 580, m=8), point("a", 20, 0.995, 200, m=8)])
    found = targets.between_at(settings, 0.98)
    assert found is not None
    assert (found.qps, found.low.label, found.high.label) == (580, "m=8 ef=10", "m=8 ef=10")
    random = np.random.default_rng(4)
    for _ in range(200):
        made = [
            point("a", ef, float(recall), float(qps), m=m)
            for m in (4, 8, 16)
            for ef, recall, qps in zip(range(4), 0.9 + 0.1 * random.random(4), 1000 * random.random(4), strict=True)
        ]
        settings, target = settings_of(made), 0.9 + 0.1 * random.random()
        best, between = targets.best_at(settings, target), targets.between_at(settings, target)
        assert (best is None) == (between is None)
        assert best is None or between is None or between.qps >= best.qps.median


def test_invalid_points_are_compared_with_nothing() -> None:
    cheat = point("a", 5, 1.0, 99999, wrong=("plan: the index was not used",))
    (found,) = targets.at_targets([*CURVE, cheat], [0.95])
    assert found.best is not None
    assert found.best.qps.median == 500


def test_repeats_count_with_their_middle_and_show_their_range() -> None:
    (setting,) = settings_of([point("a", 10, 0.9, qps, repeat=at) for at, qps in enumerate([900, 1000, 1400])])
    assert setting.qps == Spread(1000, 900, 1400)
    assert setting.middle.qps == 1000


def test_the_frontier_has_what_nothing_beats() -> None:
    beaten = point("a", 15, 0.95, 400)
    kept = targets.frontier(settings_of([*CURVE, beaten]))
    assert [one.qps.median for one in kept] == [1000, 500, 250]


def test_the_bootstrap_gives_the_interval_that_statistics_gives() -> None:
    random = np.random.default_rng(3)
    samples = (random.random(2000) < 0.9).astype(np.float64)
    found = uncertainty.bootstrap_mean(samples)
    error = 1.96 * samples.std() / math.sqrt(len(samples))
    assert found.low == pytest.approx(samples.mean() - error, abs=0.002)
    assert found.high == pytest.approx(samples.mean() + error, abs=0.002)
    assert found == uncertainty.bootstrap_mean(samples), "the same seed gives the same result"


def test_recall_is_counted_three_ways() -> None:
    base = np.array([[0], [1], [1], [1.0005], [5]], dtype=np.float32)
    query = np.zeros((1, 1), dtype=np.float32)
    ids, distances = np.array([[0, 1]]), np.array([[0.0, 1.0]])

    def count(*found: int) -> tuple[float, float, float]:
        one = recalls(np.array([found]), ids, distances, base, query, "euclidean", 2)
        return float(one.by_id[0]), float(one.by_threshold[0]), float(one.with_ties[0])

    assert count(0, 1) == (1, 1, 1)
    assert count(0, 2) == (0.5, 1, 1), "an equal row counts, except in the comparison of ids"
    assert count(0, 3) == (0.5, 1, 0.5), "a row that is 0.0005 farther only counts within the threshold"
    assert count(0, 4) == (0.5, 0.5, 0.5)
    assert count(0, 0) == (0.5, 0.5, 0.5), "a row that is returned twice counts once"
    assert count(0, -1) == (0.5, 0.5, 0.5)
    assert count(99, 1) == (0.5, 0.5, 0.5), "a row that does not exist"


def test_recall_by_angle_does_not_see_lengths() -> None:
    base = np.array([[1, 0], [7, 0.01], [0, 1]], dtype=np.float32)
    found = recalls(
        np.array([[1]]), np.array([[0]]), np.array([[0.0]]), base, np.array([[2, 0]], np.float32), "angular", 1
    )
    assert (found.by_id[0], found.by_threshold[0]) == (0, 1)


def test_recall_is_what_comparing_everything_says() -> None:
    random = np.random.default_rng(5)
    base = random.integers(0, 3, (300, 4)).astype(np.float32)
    queries = random.standard_normal((40, 4)).astype(np.float32)
    every = ((queries[:, None].astype(np.float64) - base[None]) ** 2).sum(axis=2)
    right = np.argsort(every, axis=1, kind="stable")[:, :10]
    found = np.where(random.random((40, 10)) < 0.7, right, random.integers(0, 300, (40, 10)))
    by_id, with_ties = 0, 0
    for query, answer in enumerate(found):
        worst = every[query, right[query, -1]]
        by_id += len(set(answer) & set(right[query]))
        with_ties += sum(every[query, row] <= worst * (1 + 1e-6) for row in set(answer))
    distances = np.sqrt(np.take_along_axis(every, right, axis=1))
    ours = recalls(found, right, distances, base, queries, "euclidean", 10).means()
    assert ours["by_id"] == pytest.approx(by_id / found.size)
    assert ours["with_ties"] == pytest.approx(with_ties / found.size)


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


def test_the_law_of_scaling_is_found_again() -> None:
    law = sessions.Scaling(1000, 0.05, 0.001)
    found = sessions.fit({n: law.at(n) for n in (1, 2, 4, 8, 16, 32)})
    assert found is not None
    assert (found.scale, found.contention, found.coherence) == pytest.approx((1000, 0.05, 0.001))
    assert found.peak_sessions == pytest.approx(math.sqrt(0.95 / 0.001))
    linear = sessions.fit({n: 100.0 * n for n in (1, 2, 4, 8)})
    assert linear is not None
    assert (linear.contention, linear.coherence) == pytest.approx((0, 0), abs=1e-9)
    assert sessions.fit({1: 1.0, 2: 2.0, 4: 3.0}) is None, "three points are too few for a fit"


def test_a_grid_says_what_is_missing_and_which_values_are_gone() -> None:
    grid = [coverage.Cell(f"{m}-{ef}", "a", (("m", m), ("ef", ef))) for m in (8, 16) for ef in (10, 20)]
    found = coverage.coverage(grid, {"8-10"}, {"16-10": "it died"})
    assert [cell.name for cell in found.missing] == ["8-20", "16-20"]
    assert found.lost == {"a": {"ef": (20,)}}
    assert (found.complete, found.failed, found.present_count) == (False, {"16-10": "it died"}, 1)
    assert coverage.coverage(grid, {cell.name for cell in grid}, {}).complete


RAW: dict[str, Any] = {
    "count": 100, "errors": 0, "k": 10, "rows_short_count": 0, "rows_unknown_count": 0, "exact_by_design": False,
    "index_used": True, "client_share": 0.1, "qps": 1000.0, "sessions": 1, "cache": "hot",
    "recall": {"with_ties": 1.0}, "storage_reads_per_query": 0.0,
}  # fmt: skip


def changed(change: dict[str, Any]) -> PointRecord:
    """The sound measurement with other fields."""
    return cast(PointRecord, {**RAW, **change})


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"errors": 3}, "errors"),
        ({"rows_short_count": 1}, "rows"),
        ({"rows_unknown_count": 1}, "rows"),
        ({"index_used": False}, "plan"),
        ({"client_share": 0.6}, "client"),
        ({"rate": 1100.0}, "rate"),
        ({"rate": 1000.0, "unsent_count": 4}, "rate"),
        ({"storage_reads_per_query": 0.5}, "cache"),
        ({"cache": "cold"}, "cache"),
        ({"interrupted": True}, "interrupted"),
    ],
)
def test_each_counter_has_its_verdict(change: dict[str, Any], kind: str) -> None:
    assert verdicts.judge(changed({})).wrong == ()
    (found,) = verdicts.judge(changed(change)).wrong
    assert found.partition(":")[0] == kind


@pytest.mark.parametrize(
    "change",
    [
        {"index_used": False, "exact_by_design": True},
        {"index_used": None},
        {"rate": 1040.0},
        {"cache": "cold", "storage_reads_per_query": 3.0},
        {"client_share": None, "storage_reads_per_query": None},
        {"waited": 2.0},
        {"other_busy_cores": 1.9},
    ],
)
def test_what_is_no_proof_is_no_verdict(change: dict[str, Any]) -> None:
    assert verdicts.judge(changed(change)).wrong == ()


def test_other_work_is_noted() -> None:
    assert verdicts.judge(changed({"other_busy_cores": 0.05})).noted == ()
    noted = ("others were running: 0.46 cores were busy with something else",)
    assert verdicts.judge(changed({"other_busy_cores": 0.46})).noted == noted
    # A point is measured again only if other work made the measured thread wait.
    assert not noted[0].startswith(verdicts.WAITED)
    (waited,) = verdicts.judge(changed({"waited": 1.5})).noted
    assert waited.startswith(verdicts.WAITED)


def test_a_scan_that_is_not_reported_shows_in_its_settings() -> None:
    slow = {**RAW, "index_used": None, "scan_us_per_query": 1500.0, "rate": None}
    both: Any = [slow | {"search": {"ef": 10}}, slow | {"search": {"ef": 20}, "qps": 900.0}]
    assert "no index is used" in (verdicts.looks_like_scans(both) or "")
    changes: list[dict[str, Any]] = [
        {"recall": {"with_ties": 0.999}},
        {"qps": 2000.0},
        {"qps": 500.0},
        {"index_used": True},
        {"exact_by_design": True},
        {"search": {"ef": 20}},
    ]
    for change in changes:
        assert verdicts.looks_like_scans([both[0] | change, both[1]]) is None, change


def test_what_a_disk_did_is_the_difference_of_its_counters() -> None:
    before = Counters(100, 1000, 50, 10, 100, 5, 400, 800)
    after = Counters(300, 2600, 150, 60, 900, 30, 1400, 2800)
    found = profile(before, after, 2.0)
    assert (found["reads_per_s"], found["writes_per_s"]) == (100, 25)
    assert (found["bytes_per_read"], found["bytes_per_write"]) == (4096, 8192)
    assert (found["ms_per_read"], found["ms_per_write"]) == (0.5, 0.5)
    assert (found["read_share"], found["queue_depth"], found["busy_share"]) == (0.8, 1.0, 0.5)
    nothing = profile(after, after, 1.0)
    assert (nothing["bytes_per_read"], nothing["read_share"], nothing["reads_per_s"]) == (None, None, 0)
