"""What figures of versions say: relative throughput, five numbers, and where something changed."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pytest

from pagehop_lab.analysis.changes import can_tell, changes
from pagehop_lab.analysis.paired import turn_order, without_weather
from pagehop_lab.analysis.relative import Five, by_group, ratio, tone
from pagehop_lab.suites.oltp.cases import BY_NAME, CASES, GROUPS

NOISE = 0.01
ROUNDS = 8


def series(
    random: np.random.Generator, versions: int, repeats: int, at: int = 0, step: float = 1.0
) -> list[list[float]]:
    """Throughput in 1% noise, with a step from version `at` on."""
    return [
        list(1000 * (step if version >= at > 0 else 1) * (1 + NOISE * random.standard_normal(repeats)))
        for version in range(versions)
    ]


def test_there_are_the_42_tests_in_their_groups() -> None:
    assert Counter(case.group for case in CASES) == dict(zip(GROUPS, (11, 6, 8, 7, 10), strict=True))
    assert len(BY_NAME) == 42


def test_reads_come_before_and_after_the_writes_and_what_moves_rows_comes_last() -> None:
    kinds = ["w" if case.writes and not case.changes_keys else "k" if case.changes_keys else "r" for case in CASES]
    assert "".join(kinds) == "r" * 15 + "w" * 8 + "r" * 17 + "kk"
    assert [case.first for case in CASES] == [True] * 15 + [False] * 27


def test_the_order_is_the_published_one() -> None:
    reads = ["point-query 100", "random-points 10", "random-points 100", "random-points 1000"]
    transactions = ["read-only 10", "read-only 100", "read-only 10000"]
    kinds = [
        f"{what}-{kind} 100"
        for what in ("points", "range")
        for kind in ("covered-pk", "notcovered-pk", "covered-si", "notcovered-si")
    ]
    writes = ["update-inlist 100", "update-index 100", "update-nonindex 100", "update-one 100", "update-zipf 100"]
    writes += ["write-only 10000", "read-write 10", "read-write 100"]
    last = ["scan 100", "delete 100", "insert 100"]
    assert [f"{case.script} {case.range}" for case in CASES] == [
        *reads, *transactions, *kinds, *writes, *transactions, *reads, "hot-points 100", *kinds, *last,
    ]  # fmt: skip


@pytest.mark.parametrize("repeats", [3, 5])
@pytest.mark.parametrize("at", [1, 3, 6])
@pytest.mark.parametrize("step", [0.95, 1.05])
def test_a_step_of_5_percent_in_1_percent_noise_is_found_where_it_is(repeats: int, at: int, step: float) -> None:
    random = np.random.default_rng(100 * repeats + at)
    hits = 0
    for _ in range(20):
        found = changes(series(random, 7, repeats, at, step))
        hits += any(one.at == at and abs(one.ratio / step - 1) < 0.02 for one in found)
    assert hits >= 19


@pytest.mark.parametrize(("versions", "repeats"), [(7, 3), (7, 5), (3, 4), (12, 1)])
def test_fewer_than_one_in_twelve_flat_series_give_an_alarm(versions: int, repeats: int) -> None:
    random = np.random.default_rng(versions * 10 + repeats)
    alarms = sum(bool(changes(series(random, versions, repeats))) for _ in range(120))
    assert alarms < 120 / 12


def in_weather(random: np.random.Generator, versions: int, repeats: int, step: float) -> list[list[list[float]]]:
    """Turns on a machine whose speed drifts by 8% within seconds.

    Each repeat has its own drift, and the last version is a step away from the others.
    """
    turns = versions * ROUNDS
    figures = np.empty((versions, repeats, ROUNDS))
    for repeat in range(repeats):
        weather = 0.08 * random.standard_normal(turns)
        for turn in range(1, turns):
            # As much as at its beginning, on average.
            weather[turn] = 0.95 * weather[turn - 1] + 0.025 * random.standard_normal()
        luck = 0.005 * random.standard_normal(versions)
        for turn in range(turns):
            at, place = divmod(turn, versions)
            version = turn_order(versions, at)[place]
            noise = 0.03 * random.standard_normal()
            figures[version, repeat, at] = 1000 * np.exp(weather[turn] + luck[version] + noise)
    figures[-1] *= step
    listed: list[list[list[float]]] = figures.tolist()
    return listed


@pytest.mark.parametrize(("versions", "repeats"), [(3, 6), (2, 8), (7, 4)])
def test_in_turns_a_step_of_5_percent_is_found_in_weather_of_8_and_seldom_where_there_is_none(
    versions: int, repeats: int
) -> None:
    random = np.random.default_rng(versions)
    found, unpaired, alarms = 0, 0, 0
    for _ in range(20):
        turns = in_weather(random, versions, repeats, 0.95)
        steps = changes(without_weather(turns), in_blocks=True)
        found += any(one.at == versions - 1 and abs(one.ratio / 0.95 - 1) < 0.02 for one in steps)
        unpaired += any(one.at == versions - 1 for one in changes(np.mean(turns, axis=2)))
        alarms += bool(changes(without_weather(in_weather(random, versions, repeats, 1.0)), in_blocks=True))
    assert found >= 18
    assert unpaired <= 8
    # One in twenty is what is wanted; of 400 flat series of these kinds 2, 5 and 8% gave one.
    assert alarms <= 4


def test_the_weather_is_taken_away_and_ratios_stay() -> None:
    weather = np.array([1.0, 0.5, 2.0, 0.8])
    rounds = [[[1000.0 * one for one in weather]], [[900.0 * one for one in weather]]]
    (one,), (other,) = without_weather(rounds)
    assert other / one == pytest.approx(0.9)
    assert can_tell([5] * 3, in_blocks=True)
    assert not can_tell([5] * 2, in_blocks=True)
    assert not can_tell([1] * 9, in_blocks=True)


def test_two_steps_are_two() -> None:
    random = np.random.default_rng(9)
    made = series(random, 4, 4, 2, 0.95) + series(random, 4, 4, 4, 1.0)
    assert [one.at for one in changes(made)] == [2, 4]


def test_few_repeats_cannot_tell() -> None:
    assert not can_tell([3, 3])
    assert can_tell([5, 5])
    assert can_tell([3] * 7)
    assert changes(series(np.random.default_rng(1), 2, 3, 1, 0.5)) == []
    assert changes([[1.0]]) == []


def test_colors_begin_beyond_5_percent() -> None:
    assert [tone(over) for over in (0.94, 0.95, 1.0, 1.05, 1.06)] == ["worse", "", "", "", "better"]


def test_ratios_are_rounded_before_their_spread_is_taken() -> None:
    assert ratio(1.046, 1.0) == Decimal("1.05")
    group_of = dict.fromkeys(["a", "b", "c"], "reads")
    found = by_group({"a": ratio(1.004, 1.0), "b": ratio(1.006, 1.0)}, group_of)
    assert list(found) == ["reads"]
    assert found["reads"].shown() == ("1.00", "1.01", "1.01", "1.01", "0.01")
    assert Five.of([Decimal("1.25")]).shown() == ("1.25", "1.25", "1.25", "1.25", "0.00")
