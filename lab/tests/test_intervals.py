"""Comparing two figures: different engines are told apart, and identical ones rarely are."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from pagehop_lab.analysis.intervals import Interval, compared, unpaired
from pagehop_lab.analysis.student import two_sided_p

PAIRS = 2000
# 5%, and three standard deviations of the share that this number of pairs shows.
CHANCE_MAX = 0.05 + 3 * math.sqrt(0.05 * 0.95 / PAIRS)

Repeats = dict[int, float]


def pair(random: np.random.Generator, repeats: int, kind: str, ratio: float = 1.0) -> tuple[Repeats, Repeats]:
    """Two engines on a machine whose speed drifts by 20% from repeat to repeat."""
    weather = 0.2 * random.standard_normal(repeats)
    if kind == "stalls":
        # In a tenth of the repeats, other work takes a third of the time.
        noise = -0.4 * (random.random((2, repeats)) < 0.1) + 0.02 * random.standard_normal((2, repeats))
    else:
        noise = 0.03 * (
            random.standard_normal((2, repeats)) if kind == "normal" else random.standard_t(3, (2, repeats))
        )
    figures = 1000 * np.exp(weather + noise)
    figures[0] *= ratio
    one, other = (dict(enumerate(map(float, each))) for each in figures)
    return one, other


@pytest.mark.parametrize("kind", ["normal", "tails", "stalls"])
@pytest.mark.parametrize("repeats", [2, 3, 5, 10])
def test_identical_engines_are_told_apart_in_one_of_twenty_pairs_at_most(repeats: int, kind: str) -> None:
    random = np.random.default_rng(repeats)
    apart = sum(compared(*pair(random, repeats, kind)).is_apart for _ in range(PAIRS))
    assert apart / PAIRS <= CHANCE_MAX


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_so_are_runs_that_have_no_repeats_in_common(repeats: int) -> None:
    random = np.random.default_rng(repeats)
    apart = 0
    for _ in range(PAIRS):
        one, _ = pair(random, repeats, "normal")
        other, _ = pair(random, repeats, "normal")
        apart += unpaired(list(one.values()), list(other.values())).is_apart
    assert apart / PAIRS <= CHANCE_MAX


@pytest.mark.parametrize(("repeats", "least"), [(3, 0.5), (5, 0.9)])
def test_an_engine_that_is_a_tenth_faster_is_told_apart_though_the_weather_wanders_by_more(
    repeats: int, least: float
) -> None:
    random = np.random.default_rng(repeats)
    said = [compared(*pair(random, repeats, "normal", 1.1)).said for _ in range(200)]
    assert said.count("higher") / 200 >= least
    assert said.count("lower") == 0
    said = [compared(*pair(random, repeats, "normal", 1 / 1.1)).said for _ in range(200)]
    assert said.count("lower") / 200 >= least


def test_ranges_that_do_not_overlap_are_not_enough() -> None:
    # The earlier rule: it told identical engines apart in a third of all pairs of two repeats.
    random = np.random.default_rng(2)
    apart = overlapping = 0
    for _ in range(PAIRS):
        one, other = (list(each.values()) for each in pair(random, 2, "normal"))
        overlapping += min(one) <= max(other) and min(other) <= max(one)
        apart += unpaired(one, other).is_apart
    assert 0 < overlapping < PAIRS
    assert apart / PAIRS <= CHANCE_MAX


def test_a_ratio_is_higher_lower_the_same_or_not_known() -> None:
    assert Interval.of([1.2, 1.21, 1.22]).said == "higher"
    assert Interval.of([0.8, 0.81, 0.82]).said == "lower"
    assert Interval.of([1.0, 1.002, 0.999]).said == "same"
    assert Interval.of([0.7, 1.2, 1.4]).said == "inconclusive"
    alone = Interval.of([1.2])
    assert (alone.said, alone.shown()) == ("one repeat", "one repeat")
    assert (alone.low, alone.high) == (0.0, math.inf)
    assert Interval.of([1.2], is_counted=True).said == "higher"
    assert Interval.of([1.0, 1.1, 1.2]).shown() == "0.87 to 1.38 by 3 repeats"


def test_the_middle_is_the_geometric_mean_and_not_the_median() -> None:
    assert Interval.of([1.0, 1.0, 8.0]).middle == pytest.approx(2)
    assert compared({1: 1.0, 2: 1.0, 3: 8.0}, {1: 1.0, 2: 1.0, 3: 1.0}).middle == pytest.approx(2)


def test_repeats_in_common_are_paired_and_others_are_not() -> None:
    one, other = {1: 100.0, 2: 200.0, 3: 50.0}, {1: 110.0, 2: 221.0, 3: 54.9}
    assert compared(other, one).said == "higher"
    assert unpaired(list(other.values()), list(one.values())).said == "inconclusive"
    assert compared({1: 100.0, 2: 101.0}, {7: 120.0, 8: 121.0}).count == 2
    assert compared({1: 100.0}, {1: 120.0}).said == "one repeat"
    assert unpaired([5.0, 5.0], [5.0, 5.0]).said == "same"


def test_the_interval_holds_the_truth_in_nineteen_of_twenty() -> None:
    random = np.random.default_rng(5)
    held = 0
    for _ in range(PAIRS):
        found = Interval.of([float(one) for one in np.exp(0.1 * random.standard_normal(4))])
        held += found.low <= 1 <= found.high
    assert held / PAIRS == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("repeats", range(2, 40))
def test_an_interval_is_as_wide_as_students_t_says(repeats: int) -> None:
    logs = [(-1.0) ** repeat for repeat in range(repeats)]
    found = compared({at: math.exp(one) for at, one in enumerate(logs)}, dict.fromkeys(range(repeats), 1.0))
    t = math.log(found.high / found.middle) * math.sqrt(repeats) / statistics.stdev(logs)
    # Values of t are rounded to two decimals.
    assert two_sided_p(t, repeats - 1) <= 0.0506
