"""Figures by version: relative throughput, five numbers, and versions that changed something."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest

from pagehop_lab.analysis.changes import LEVEL, Repeats, changes, changes_of_tests
from pagehop_lab.analysis.paired import turn_order, without_weather
from pagehop_lab.analysis.relative import Five, by_group, ratio, tone
from pagehop_lab.analysis.student import two_sided_p
from pagehop_lab.suites.oltp.cases import BY_NAME, CASES, GROUPS

NOISE = 0.01
ROUNDS = 8


def series(
    random: np.random.Generator, versions: int, repeats: int, at: int = 0, step: float = 1.0
) -> list[list[float]]:
    """Throughput with 1% noise, and with a step from version `at` on."""
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
        found = changes(Repeats(series(random, 7, repeats, at, step)))
        hits += any(one.at == at and abs(one.ratio / step - 1) < 0.02 for one in found)
    assert hits >= 19


@pytest.mark.parametrize(("versions", "repeats"), [(7, 3), (7, 5), (3, 4), (12, 1)])
def test_fewer_than_one_in_twelve_flat_series_give_an_alarm(versions: int, repeats: int) -> None:
    random = np.random.default_rng(versions * 10 + repeats)
    alarms = sum(bool(changes(Repeats(series(random, versions, repeats)))) for _ in range(120))
    assert alarms < 120 / 12


def in_weather(
    random: np.random.Generator, versions: int, repeats: int, step: float, *, wander: float = 0.08, rounds: int = ROUNDS
) -> list[list[list[float]]]:
    """Turns on a machine whose speed varies by 8% (standard deviation), by 2.5% from turn to turn.

    Each repeat has its own drift, and the last version differs from the others by a step.
    """
    turns = versions * rounds
    figures = np.empty((versions, repeats, rounds))
    stays = math.sqrt(1 - (0.025 / wander) ** 2)
    for repeat in range(repeats):
        weather = wander * random.standard_normal(turns)
        for turn in range(1, turns):
            # The speed varies as much as in the first turn, on average.
            weather[turn] = stays * weather[turn - 1] + 0.025 * random.standard_normal()
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
        steps = changes(Repeats(without_weather(turns), in_blocks=True))
        found += any(one.at == versions - 1 and abs(one.ratio / 0.95 - 1) < 0.02 for one in steps)
        unpaired += any(one.at == versions - 1 for one in changes(Repeats(np.mean(turns, axis=2).tolist())))
        alarms += bool(changes(Repeats(without_weather(in_weather(random, versions, repeats, 1.0)), in_blocks=True)))
    assert found >= 18
    assert unpaired <= 8
    # The test allows one false alarm in twenty.
    assert alarms <= 4


def forty_two(random: np.random.Generator, planted: dict[str, float]) -> dict[str, Repeats]:
    """The tests of two versions in turns, in a plan of 16 rounds and 16 repeats.

    The machine's speed varies by 20%. `planted` has the steps of some tests.
    """
    return {
        case.name: Repeats(
            without_weather(in_weather(random, 2, 16, planted.get(case.name, 1.0), wander=0.2, rounds=16)),
            in_blocks=True,
        )
        for case in CASES
    }


def test_a_step_of_3_percent_in_one_of_42_tests_is_found_with_no_false_one_while_speed_wanders_by_20() -> None:
    slower = "range-covered-si_range=100"
    for seed in range(5):
        found = changes_of_tests(forty_two(np.random.default_rng(seed), {slower: 0.97}), families=2)
        assert list(found) == [slower], seed
        (change,) = found[slower]
        assert change.at == 1
        assert change.ratio == pytest.approx(0.97, abs=0.012)


def test_without_a_step_a_test_by_itself_gives_alarms_and_all_together_give_none() -> None:
    alone = together = 0
    for seed in range(5):
        flat = forty_two(np.random.default_rng(100 + seed), {})
        alone += sum(bool(changes(one)) for one in flat.values())
        together += len(changes_of_tests(flat))
    assert 3 <= alone <= 20, "about a twentieth of 210"
    assert together == 0


def test_steps_of_many_tests_are_found_by_stepping_down() -> None:
    """The last of 42 steps must only pass the level itself, not a 42nd of it."""
    random = np.random.default_rng(3)
    tests = {str(at): Repeats(series(random, 2, 4, 1, 0.9)) for at in range(41)}
    weak = next(
        one
        for seed in range(1000)
        if (one := Repeats(series(np.random.default_rng(seed), 2, 4, 1, 0.98)))
        and (found := changes(one))
        and LEVEL / 10 < found[0].p < LEVEL
    )
    assert "weak" in changes_of_tests({**tests, "weak": weak})
    flat = {f"flat {at}": Repeats(series(random, 2, 4)) for at in range(20)}
    assert "weak" not in changes_of_tests({**flat, "weak": weak})


@pytest.mark.parametrize(
    ("t", "freedom", "p"),
    # Values of published tables of Student's t.
    [(12.706, 1, 0.05), (4.303, 2, 0.05), (5.841, 3, 0.01), (3.365, 5, 0.02), (4.073, 15, 0.001), (2.042, 30, 0.05)],
)
def test_students_t_is_that_of_printed_tables(t: float, freedom: int, p: float) -> None:
    assert two_sided_p(t, freedom) == two_sided_p(-t, freedom) == pytest.approx(p, rel=0.005)
    assert two_sided_p(0.0, freedom) == pytest.approx(1.0)
    assert two_sided_p(math.inf, freedom) == 0.0


def test_the_weather_is_taken_away_and_ratios_stay() -> None:
    weather = np.array([1.0, 0.5, 2.0, 0.8])
    rounds = [[[1000.0 * one for one in weather]], [[900.0 * one for one in weather]]]
    (one,), (other,) = without_weather(rounds)
    assert other / one == pytest.approx(0.9)


def test_two_steps_are_two() -> None:
    random = np.random.default_rng(9)
    made = series(random, 4, 4, 2, 0.95) + series(random, 4, 4, 4, 1.0)
    assert [one.at for one in changes(Repeats(made))] == [2, 4]


def test_few_repeats_cannot_tell() -> None:
    def of(*counts: int, in_blocks: bool = False) -> Repeats:
        return Repeats([[1.0] * count for count in counts], in_blocks)

    assert of(3, 3).can_tell
    assert not of(2, 2).can_tell
    assert of(1, 1, 1, 1, 1).can_tell
    # With servers in turns, the repeats take a degree of freedom.
    assert not of(3, 3, in_blocks=True).can_tell
    assert of(4, 4, in_blocks=True).can_tell
    assert of(3, 3, 3, in_blocks=True).can_tell
    assert changes(Repeats(series(np.random.default_rng(1), 2, 2, 1, 0.5))) == []
    assert changes(Repeats([[1.0]])) == []
    assert changes(of(4, 4)) == [], "equal figures have no changes"


def test_colors_begin_beyond_5_percent() -> None:
    assert [tone(over) for over in (0.94, 0.95, 1.0, 1.05, 1.06)] == ["worse", "", "", "", "better"]


def test_ratios_are_rounded_before_their_spread_is_taken() -> None:
    assert ratio(1.046, 1.0) == Decimal("1.05")
    group_of = dict.fromkeys(["a", "b", "c"], "reads")
    found = by_group({"a": ratio(1.004, 1.0), "b": ratio(1.006, 1.0)}, group_of)
    assert list(found) == ["reads"]
    assert found["reads"].shown() == ("1.00", "1.01", "1.01", "1.01", "0.01")
    assert Five.of([Decimal("1.25")]).shown() == ("1.25", "1.25", "1.25", "1.25", "0.00")
