"""Aims: figures at equal recall, ratios with intervals, verdicts, and the settings to measure."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

import runs
from pagehop_lab import report
from pagehop_lab.analysis.aims import FIGURES, Aim, Series, at_recall, ratio, verdict
from pagehop_lab.analysis.calibration import asked_of, changed_of
from pagehop_lab.analysis.intervals import Interval
from pagehop_lab.analysis.points import Point
from pagehop_lab.plan import PlanError, read_text
from pagehop_lab.plan.model import Options
from pagehop_lab.plan.read import on_sets
from pagehop_lab.run.pick import pick


def point(ef: int, recall: float, qps: float, repeat: int = 0, **more: Any) -> Point:
    return Point("set", "a", (), (("ef", ef),), recall, qps, repeat=repeat, **more)


def qps_aim(floor: float | None, aim: float | None) -> Aim:
    return Aim("qps", "qps", "a", floor=floor, aim=aim, recall=0.9)


def test_a_figure_at_a_recall_lies_between_the_settings_that_nothing_beats() -> None:
    curve = [point(10, 0.9, 1000), point(20, 0.96, 500), point(40, 0.99, 250)]
    beaten = [point(15, 0.951, 100), point(16, 0.949, 90)]
    found = at_recall([*curve, *beaten], 0.95, FIGURES["qps"])
    assert found is not None
    assert 500 < found.middle < 1000, "settings that are slower at the same recall are left out"
    least = at_recall(curve, 0.5, FIGURES["qps"])
    assert least is not None
    assert least.middle == 1000, "the least effort exceeds the recall, so its figure is used"
    assert at_recall(curve, 0.995, FIGURES["qps"]) is None


def test_less_is_better_where_something_is_spent() -> None:
    def hops(ef: int, recall: float, count: float) -> Point:
        return point(ef, recall, 1, raw={"work": {"hops": count}})

    found = at_recall([hops(10, 0.9, 10), hops(20, 0.96, 20), hops(11, 0.96, 40)], 0.96, FIGURES["hops"])
    assert found is not None
    assert found.middle == 20


def test_ratios_are_of_the_same_repeat() -> None:
    def series(group: int, *figures: float) -> Series:
        return Series({(group, 0, repeat, ""): one for repeat, one in enumerate(figures)}, "")

    one, other = series(1, 100, 200), series(1, 50, 100)
    both = ratio(one, other, is_counted=False)
    assert both.low == pytest.approx(both.high), "a change of both engines does not change the ratio"
    assert both.middle == pytest.approx(2)
    for apart in (
        ratio(one, series(2, 50, 100), is_counted=False),
        ratio(one, other, is_counted=False, is_of_one_set=False),
    ):
        assert apart.middle == pytest.approx(2)
        assert apart.low < 1, "what was not measured in turns has no pairs"
    assert ratio(one, series(2, 50), is_counted=True).low == pytest.approx(3), "counts have no spread"


def test_a_limit_within_the_interval_cannot_be_told() -> None:
    sure, unsure = Interval.of([2.0, 2.01, 1.99, 2.0]), Interval.of([1.0, 3.0, 2.0])
    assert verdict(sure, qps_aim(1.5, 1.9)) == "aim reached"
    assert verdict(sure, qps_aim(1.5, 3)) == "floor reached"
    assert verdict(sure, qps_aim(1.5, 2)) == "floor reached, aim inconclusive"
    assert verdict(sure, qps_aim(2.5, 3)) == "MISSED"
    assert verdict(unsure, qps_aim(1.5, 2.5)) == "floor inconclusive"
    assert verdict(Interval.of([5.0]), qps_aim(1.5, 2.5)) == "floor inconclusive", "one repeat has no interval"
    pages = Aim("pages", "pages", "a", floor=26, aim=18, recall=0.95)
    assert verdict(Interval.of([18.0], is_counted=True), pages) == "aim reached", "a count needs no repeats"
    assert verdict(Interval.of([30.0, 30.0]), pages) == "MISSED"


def test_the_load_generator_has_a_limit_and_a_verdict() -> None:
    """The plan client.toml reports whether the client takes more than 10 us of CPU for a query."""
    path = Path(__file__).parents[1] / "plans/client.toml"
    plan = read_text(path.read_text(), "client")
    assert {aim.engine for aim in plan.aims} == {engine.name for engine in plan.engines}
    assert {(aim.figure, aim.aim) for aim in plan.aims} == {("client_us", 10.0)}

    def said(cost_us: float) -> str:
        costs = [cost_us, cost_us * 1.01, cost_us * 0.99]
        points = [
            point(10, 0.96, 100, repeat, raw={"client_cpu_us_per_query": one}) for repeat, one in enumerate(costs)
        ]
        found = at_recall(points, 0.9, FIGURES["client_us"])
        assert found is not None
        return verdict(Interval.of(list(found.figures.values())), plan.aims[0])

    assert [said(cost_us) for cost_us in (9.0, 10.0, 11.0)] == ["aim reached", "aim inconclusive", "aim missed"]


def test_identical_engines_are_called_different_in_a_twentieth_of_the_pairs() -> None:
    stream, wrong = random.Random(1), 0
    for _ in range(2000):
        found = Interval.of([math.exp(stream.gauss(0, 0.1)) for _ in range(5)])
        wrong += not found.low <= 1 <= found.high
    assert 60 <= wrong <= 140


def test_the_steps_on_both_sides_of_each_target_are_picked() -> None:
    ladder: list[Options] = [{"ef": ef} for ef in range(1, 101)]
    looked: list[object] = []

    def recall_of(options: Any) -> float:
        looked.append(options["ef"])
        return float(options["ef"]) / 100

    assert [one["ef"] for one in pick([ladder], [0.305, 0.9], recall_of)] == [30, 31, 89, 90]
    assert len(looked) == len(set(looked)) < 25, "few steps are measured, each once"
    assert [one["ef"] for one in pick([ladder[:50]], [0.305, 0.9], recall_of)] == [30, 31, 50], "no step reaches it"


PLAN = """
name = "mine"

[load]
repeats = 2

# What it is measured on.
[[dataset]]
name = "fashion-mnist"
rows = 1000
queries = 500

[[dataset]]
name = "sift-128"

[[engine]]
name = "pagehop"

[[aim]]
what = "hops"
figure = "hops"
recall = [0.9, 0.95]
floor = [10, 20]
"""


def test_a_plan_is_measured_on_other_sets() -> None:
    plan = read_text(on_sets(PLAN, ["texts-384", "tokens-384=100000"]), "x")
    assert [(one.name, one.rows, one.queries) for one in plan.datasets] == [
        ("texts-384", None, 500), ("tokens-384-100000", None, 500),
    ]  # fmt: skip
    assert [(aim.recall, aim.floor, aim.aim) for aim in plan.aims] == [(0.9, 10, None), (0.95, 20, None)]
    assert [one.name for one in plan.engines] == ["pagehop"]
    made = read_text(on_sets(PLAN, ["generated-16=2000", "uniform-6=10000"]), "x")
    assert [(one.name, one.rows) for one in made.datasets] == [("generated-16", 2000), ("uniform-6", 10_000)]
    for wrong in ("sift-128=many", 'a"b', "sift-128=", "", "=5", "a\nb"):
        with pytest.raises(PlanError, match=f"--set {wrong}: NAME, or NAME=ROWS .*; fashion-mnist, "):
            on_sets(PLAN, [wrong])
    with pytest.raises(PlanError, match='--set a"b: NAME'):
        on_sets('[load]\ndataset = "tokens-384"\n', ['a"b'])


def test_a_plan_over_own_files_is_measured_on_other_sets() -> None:
    own = 'name = "fashion-mnist"\nrows = 1000'
    assert own in PLAN
    files = 'path = "mine.parquet"\nqueries_path = "asked.parquet"\ncolumn = "vector"'
    (found,) = read_text(on_sets(PLAN.replace(own, files), ["texts-384"]), "x").datasets
    assert (found.name, found.path, found.queries_path, found.column) == ("texts-384", None, None, None)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('figure = "hops"', 'figure = "hopps"', "there is no such choice; did you mean hops"),
        ("floor = [10, 20]", "floor = [10]", "one number, or a number for each recall"),
        ('figure = "hops"', 'figure = "build_s"', "build_s is of a build, which has none"),
        ("recall = [0.9, 0.95]", "recall = [90, 95]", r"aim\[1\].recall = 95: this is not a recall, the most is 1"),
        ("floor = [10, 20]", "floor = nan", r"aim\[1\].floor = nan: it should be a number"),
        ("floor = [10, 20]", "floor = true", r"aim\[1\].floor is true or false, it should be a number"),
        ("floor = [10, 20]", "floor = [10, 20]\naim = [10, 21]", r"limit 2: aim = 21 and floor = 20, and less hops is"),
        ('figure = "hops"\n', 'figure = "qps"\naim = 5\n', "limit 1: aim = 5 and floor = 10, and more QPS is better"),
        ('figure = "hops"', 'over = "faiss-hnsw"', "there is no such choice; there are pagehop"),
    ],
)
def test_mistakes_in_aims_are_named(right: str, wrong: str, said: str) -> None:
    assert right in PLAN
    with pytest.raises(PlanError, match=said):
        read_text(PLAN.replace(right, wrong), "x")


AROUND = """
targets = [0.5]
recall = "ties"
[load]
around_targets = true
k = [5, 1]
repeats = 2
seconds = 0.02
warmup_s = 0.02
[[dataset]]
name = "generated-16"
rows = 2000
queries = 40
[[engine]]
name = "honest"
search = { ef = [10, 20, 30, 40, 50, 60, 70, 80] }
[[aim]]
what = "QPS of itself"
engine = "honest"
over = "honest"
recall = 0.5
floor = 1
aim = 2
"""


def test_only_what_is_around_a_target_is_measured_and_a_second_run_goes_on(tmp_path: Path) -> None:
    with runs.fake_engines(tmp_path / "data"):
        results, _ = runs.run(AROUND, tmp_path / "run")
        again, said = runs.run(AROUND, tmp_path / "run")
        told = report.together([tmp_path / "run", tmp_path / "run"])
    assert results.sound
    assert {dict(point.search)["ef"] for point in results.points} == {40, 50}
    assert {dict(point.asked).get("k", 5) for point in results.points} == {1, 5}
    assert len(results.points) == 2 * 2 * 2 == len(again.points)
    assert "8 points, 8 of them measured before" in said
    assert told is not None
    assert told.count("floor reached") == 2, "each of two runs has a ratio of 1 to itself"


COLD = """
suite = "cold"
[load]
cold_queries = 30
repeats = 1
batch = 10
caches = ["fresh", "cold"]
one_core = false
[[dataset]]
name = "generated-16"
rows = 2000
queries = 40
[[engine]]
name = "cold"
search = { ef = [50] }
"""


def test_fresh_queries_each_begin_with_empty_caches(tmp_path: Path) -> None:
    with runs.fake_engines(tmp_path / "data"):
        results, _ = runs.run(COLD, tmp_path / "run")
    by_cache = {dict(point.asked).get("cache", "cold"): point for point in results.points}
    assert by_cache["fresh"].raw["count"] == by_cache["cold"].raw["count"] == 30
    assert dict(by_cache["fresh"].asked).get("batch", 1) == 1, "one query a call"
    assert by_cache["fresh"].raw["work"] is None, "this engine has no counters of work"


def asked(options: dict[str, Any], recall: float, hops: float) -> Point:
    raw: Any = {"work": {"hops": hops}, "recall_interval": {"with_ties": [recall - 0.001, recall + 0.001]}}
    return Point("set", "a", (), tuple(options.items()), recall, 1000, raw=raw)


def test_a_recall_that_was_asked_for_is_compared_with_the_cheapest_setting_that_finds_it() -> None:
    grid = [asked({"list": at}, recall, at) for at, recall in [(10, 0.9), (20, 0.95), (25, 0.951), (40, 0.99)]]
    points = [*grid, asked({"recall": 0.95}, 0.9555, 23), asked({"recall": 0.99}, 0.98, 30)]
    near, far = asked_of(points, "with_ties")
    assert (near.recall, near.found, near.accuracy) == (0.95, 0.9555, "floor reached")
    assert near.cheapest == (20, "list=20")
    assert near.dearer == pytest.approx(1.15)
    assert near.at_found == (40, "list=40"), "the recall that was found needs the next setting of the grid"
    assert far.accuracy == "MISSED"
    assert far.cheapest == (40, "list=40")
    assert asked_of([asked({"recall": 0.95}, 0.9, 5)], "with_ties")[0].dearer is None


def test_a_recall_that_was_missed_has_the_price_of_what_was_found() -> None:
    """A search that finds .94 for .95 and takes what the grid's .95 takes is not a bargain."""
    grid = [asked({"list": at}, recall, at) for at, recall in [(10, 0.9), (16, 0.94), (20, 0.95), (40, 0.99)]]
    (missed,) = asked_of([*grid, asked({"recall": 0.95}, 0.94, 20)], "with_ties")
    assert missed.cheapest == (20, "list=20")
    assert missed.compared == (16, "list=16")
    assert missed.dearer == pytest.approx(1.25)
    (alone,) = asked_of([grid[0], asked({"recall": 0.95}, 0.94, 20)], "with_ties")
    assert alone.dearer is None


def test_what_is_found_may_lie_beyond_the_window_by_chance() -> None:
    (one,) = asked_of([asked({"recall": 0.95}, 0.9445, 5)], "with_ties")
    assert one.accuracy == "floor inconclusive"


def test_plans_refuse_threads_and_commits_of_engines_that_have_none() -> None:
    threads = PLAN.replace("repeats = 2", "call_threads = [1, 2]").replace('name = "pagehop"', 'name = "usearch"')
    with pytest.raises(PlanError, match="usearch answers a call by one thread"):
        read_text(threads.partition("[[aim]]")[0], "x")
    commit = PLAN.replace('name = "pagehop"', 'name = "pagehop"\ncommit = "1234567"')
    assert read_text(commit, "x").engines[0].commit == "1234567"
    with pytest.raises(PlanError, match="faiss-hnsw is not compiled from this repository"):
        read_text(commit.replace('name = "pagehop"', 'name = "faiss-hnsw"').partition("[[aim]]")[0], "x")


def test_a_range_is_a_ladder_in_steps_of_an_eighth() -> None:
    text = PLAN.replace('name = "pagehop"', 'name = "pagehop"\nsearch = { search_list = "10..14", slack = [0.0, 0.1] }')
    (engine,) = read_text(text, "x").engines
    assert [[one["search_list"] for one in ladder] for ladder in engine.ladders] == [[10, 11, 12, 13, 14]] * 2
    assert [one[0]["slack"] for one in engine.ladders] == [0.0, 0.1]


def test_what_changes_cost_is_the_worst_of_all_settings() -> None:
    def of(rounds: int, recall: float, search: int) -> Point:
        return Point("set", "a", (("rounds", rounds),), (("list", search),), recall, 1000)

    points = [of(0, 0.95, 10), of(10, 0.945, 10), of(0, 0.98, 20), of(10, 0.981, 20), of(10, 0.99, 40)]
    changed = changed_of(points, "with_ties")
    assert [(one.label, round(one.lost, 4)) for one in changed] == [("list=10", 0.005), ("list=20", -0.001)]
