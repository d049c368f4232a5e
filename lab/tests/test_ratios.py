"""Ratios of servers: computed round by round, with an interval, and invalid if repeats disagree."""

from __future__ import annotations

import math
import shutil
import statistics
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fake_servers import CASES, FakeBench, FakeInstance, FakeProduct, plan_of, run
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.coverage import Cell as CellOfPlan
from pagehop_lab.analysis.coverage import Coverage
from pagehop_lab.analysis.intervals import compared
from pagehop_lab.analysis.paired import in_parts, paired_ratio
from pagehop_lab.analysis.points import Point
from pagehop_lab.analysis.server_records import OltpRecord
from pagehop_lab.analysis.settings import Setting
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.store import RunFolder
from pagehop_lab.suites import latencies, of_servers, ratios
from pagehop_lab.suites.catalog import suite_of
from pagehop_lab.suites.cold import tables as cold
from pagehop_lab.suites.head import Ratios, made_by, state_of
from pagehop_lab.suites.oltp import tables as oltp
from pagehop_lab.suites.oltp.cases import CASES as CASES_OF_OLTP
from pagehop_lab.suites.paired_servers import over
from pagehop_lab.suites.server_results import ServerResults
from pagehop_lab.suites.table import Cell, Table
from runs import server_results

PLANTED = Path(__file__).parents[1] / "results/planted-20261122"
# The ratios that were planted: C stands still for 5% of the time, and D does 5% more work.
TRUE = {"postgres 18 B": 1.0, "postgres 18 C slowed 0.05": 0.95, "postgres 18 D doubled 0.05": 1 / 1.05}


def column(table: Table, name: str) -> list[str]:
    at = table.columns.index(name)
    return [row[at].text for row in table.rows]


def in_turns(folder: Path, repeats: int, more: str = "", rounds: int = 8) -> ServerResults[OltpRecord]:
    text = plan_of("old", repeats=repeats, more=f'[[server]]\nproduct = "postgres"\nversion = "new"\n{more}')
    text = text.replace("[load]\n", f"[load]\nrounds = {rounds}\n")
    return run(text, folder, FakeBench(rounds=rounds), FakeProduct())[0]


def test_a_round_that_was_disturbed_and_the_weather_of_all_rounds_do_not_count() -> None:
    base = [100.0, 120.0, 80.0, 140.0, 60.0]
    slower = [0.9 * one for one in base]
    slower[2] = 1.0
    assert paired_ratio(slower, base) == pytest.approx(0.9)


def test_planted_steps_are_measured_better_in_pairs_than_by_medians(tmp_path: Path) -> None:
    shutil.copytree(PLANTED, tmp_path / "run", ignore=shutil.ignore_patterns("report"))
    results = server_results(tmp_path / "run")
    medians = {
        (server, case): statistics.median(one.qps for one in results.of(server, case))
        for server in results.names
        for case in results.groups
    }
    paired, unpaired = [], []
    for server, true in TRUE.items():
        for case in results.groups:
            found = over(results, server, results.base, case)
            assert found is not None
            paired.append(math.log(found.middle / true))
            unpaired.append(math.log(medians[server, case] / medians[results.base, case] / true))
    assert rms(paired) < 0.015
    assert rms(paired) < rms(unpaired)


def rms(errors: list[float]) -> float:
    return math.sqrt(sum(error**2 for error in errors) / len(errors))


def test_the_headline_tables_are_of_pairs(tmp_path: Path) -> None:
    results = in_turns(tmp_path / "run", 5, "slowed = 0.2\n")
    table = oltp.relative(results)
    assert column(table, "postgres old") == ["1.00"] * len(CASES)
    assert all(0.77 < float(text) < 0.83 for text in column(table, "postgres new slowed 0.2"))
    assert {row[-1].tone for row in table.rows} == {"worse"}
    assert all("by 5 repeats" in row[-1].title for row in table.rows)
    # The rates of the other servers are the base's rate times the ratio.
    rates = oltp.absolute(results)
    for row, ratio in zip(rates.rows, table.rows, strict=True):
        old, new = (cell.value for cell in row[2:])
        assert isinstance(old, float)
        assert isinstance(new, float)
        assert new / old == pytest.approx(float(ratio[-1].text), abs=0.006)
    for row in oltp.groups(results).rows:
        assert 0.77 < float(row[2].text) <= float(row[3].text) < 0.83
        assert row[-1].text in ("0 of 1", "0 of 2")


def test_repeats_that_disagree_by_more_than_the_effect_are_not_valid(tmp_path: Path) -> None:
    wild = iter([1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 1.0, 1.5] * 8)
    plan = plan_of("old", "new", repeats=4, cases=CASES[:1])
    results, _ = run(plan, tmp_path / "run", FakeBench(lambda *_: {"qps": 1000 * next(wild)}), FakeProduct())
    found = over(results, "postgres new", "postgres old", CASES[0])
    assert found is not None
    assert found.said == "inconclusive"
    (row,) = oltp.relative(results).rows
    assert row[-1].invalid
    assert row[-1].text.endswith("?")
    assert row[-1].value is None
    (group,) = oltp.groups(results).rows
    shown = row[-1].text.rstrip("?")
    assert [cell.text for cell in group[2:]] == [shown, shown, shown, shown, "0.00", "1 of 1"]
    assert group[-1].invalid
    head = suite_of((tmp_path / "run/plan-001.toml").read_text()).report(RunFolder(tmp_path / "run")).head
    assert "1 of 1 ratios are inconclusive (?)" in head.state
    assert "all of them valid" not in head.state
    assert not head.is_sound


def test_the_five_numbers_are_of_all_tests_and_not_of_those_that_happened_to_be_significant(tmp_path: Path) -> None:
    """All ten tests are 3% slower, with 3% noise. Few intervals exclude 1: those of the slowest
    tests.
    """
    cases = tuple(case.name for case in CASES_OF_OLTP if case.group == "point-1")[:10]
    random = np.random.default_rng(7)

    def noisy(instance: FakeInstance, _: Case) -> dict[str, float]:
        true = 970.0 if instance.name == "new" else 1000.0
        return {"qps": true * float(np.exp(0.03 * random.standard_normal()))}

    text = plan_of("old", "new", repeats=3, cases=cases)
    results, _ = run(text, tmp_path / "run", FakeBench(noisy), FakeProduct())
    (group,) = oltp.groups(results).rows
    texts = column(oltp.relative(results), "postgres new")
    certain = [float(text) for text in texts if not text.endswith("?")]
    assert len(certain) < 5
    told = dict(zip(oltp.groups(results).columns, group, strict=True))
    assert told["uncertain"].text == f"{len(cases) - len(certain)} of {len(cases)}"
    every = [float(text.rstrip("?")) for text in texts]
    assert [float(told[name].text) for name in ("min", "max")] == [min(every), max(every)]
    assert float(told["avg"].text) == pytest.approx(0.97, abs=0.015)


def test_the_note_on_changes_counts_the_tests_that_the_level_is_divided_by(tmp_path: Path) -> None:
    asked: Counter[str] = Counter()

    def on(_: FakeInstance, case: Case) -> None:
        asked[case.name] += 1
        # Two of three repeats of both servers fail, so one repeat of each is left.
        if case.name == CASES[0] and asked[case.name] <= 4:
            raise MeasureError("it fails")

    results, _ = run(plan_of("old", "new", repeats=3), tmp_path / "run", FakeBench(on), FakeProduct())
    table = oltp.found_changes(results, "qps", "changes", "Changes")
    assert f"Holm's step-down over {len(CASES) - 1} tests" in table.note
    assert "1 tests have too few repeats" in table.note
    assert table.rows[0][0].text == "no test changed"


def test_the_middle_of_fewer_repeats_than_planned_says_so(tmp_path: Path) -> None:
    results, _ = run(plan_of("old", repeats=3, cases=CASES[:1]), tmp_path / "run", FakeBench(), FakeProduct())
    whole, some = results.measured, results.measured[:2]
    assert of_servers.valid_repeats(results, whole) == Cell("3 of 3", 3)
    assert of_servers.valid_repeats(results, some) == Cell("2 of 3", 2, invalid=True)


def test_of_one_repeat_a_ratio_is_shown_without_a_color_and_the_page_is_not_green(tmp_path: Path) -> None:
    results = in_turns(tmp_path / "run", 1, "slowed = 0.2\n")
    for row in oltp.relative(results).rows:
        assert row[-1].text.endswith("?")
        assert 0.7 < float(row[-1].text.rstrip("?")) < 0.9
        assert (row[-1].tone, row[-1].invalid, row[-1].value) == ("", True, None)
        assert row[-1].title.startswith("one repeat")
        assert (row[-2].text, row[-2].invalid) == ("1.00", False), "the base's ratio to itself is always valid"
    assert all(row[-1].invalid for row in oltp.groups(results).rows)
    head = suite_of((tmp_path / "run/plan-001.toml").read_text()).report(RunFolder(tmp_path / "run")).head
    assert "4 of 4 ratios are of one repeat" in head.state
    assert not head.is_sound


def test_a_run_without_a_measurement_has_no_valid_ones() -> None:
    empty = Coverage(10, 0, {}, tuple(CellOfPlan(f"{at}", "a", ()) for at in range(10)), {})
    assert state_of(empty, 0, [], 0, Ratios(0, 0, 0)) == ("0 of 10 points were measured", "10 are missing")
    whole = Coverage(1, 1, {}, (), {})
    assert state_of(whole, 0, [()], 0, Ratios(0, 0, 0))[-1] == "all of them valid"


def test_a_page_says_that_no_commit_has_what_measured_it() -> None:
    assert made_by(["abc1234", None]) == "Measured by the lab at abc1234."
    assert "no commit has them" in made_by(["abc1234+", "abc1234"])


def test_indexes_that_were_not_open_at_once_have_no_repeats_in_common() -> None:
    # Both drift alike from repeat to repeat.
    def setting(engine: str, group: int, scale: float) -> Setting:
        drift = (100.0, 150.0, 80.0)
        return Setting(
            tuple(
                Point("set", engine, (), (), 0.9, scale * qps, repeat=at, group=group) for at, qps in enumerate(drift)
            )
        )

    base = setting("a", 1, 1.0)
    together, apart = (compared(setting("b", group, 1.1).qps_by_run, base.qps_by_run) for group in (1, 2))
    assert together.said == "higher"
    assert apart.said == "inconclusive"
    assert apart.middle == pytest.approx(together.middle)


def test_a_percentile_takes_queries() -> None:
    def setting(count: int) -> Setting:
        latency = {"mean": 4e3, "p50": 3e3, "p95": 6e3, "p99": 7e3, "max": 8e3}
        return Setting((Point("set", "a", (), (), 0.9, 1.0, raw={"count": count, "latency_us": latency}),))

    few, many = setting(10), setting(100)
    assert [cold._middle(few, name) for name in ("mean", "p50", "p99", "max")] == [4, 3, None, 8]
    assert cold._middle(many, "p99") == 7
    assert latencies.of_setting(few) == [({"p50": 3.0}, "")]
    assert latencies.of_setting(many) == [({"p50": 3.0, "p95": 6.0, "p99": 7.0}, "")]


def test_parts_of_one_repeat_with_many_rounds_stand_for_repeats(tmp_path: Path) -> None:
    results = in_turns(tmp_path / "run", 1, "slowed = 0.2\n", rounds=43)
    for row in oltp.relative(results).rows:
        assert 0.77 < float(row[-1].text) < 0.83
        assert row[-1].tone == "worse"
        assert "by 10 parts of one repeat" in row[-1].title
    found = oltp.found_changes(results, "qps", "changes", "Changes")
    assert len(found.rows) == len(CASES)
    assert "10 parts stand for repeats" in found.note
    assert "too few repeats" not in found.note
    head = suite_of((tmp_path / "run/plan-001.toml").read_text()).report(RunFolder(tmp_path / "run")).head
    assert head.is_sound


def test_parts_are_of_neighbors_and_of_equal_length() -> None:
    assert in_parts([float(at) for at in range(19)]) == []
    assert in_parts([float(at) for at in range(25)]) == [[2.0 * at, 2.0 * at + 1] for at in range(10)]


@pytest.mark.parametrize(("uncertain", "once", "mostly"), [(3, 2, False), (6, 0, True), (3, 3, True), (0, 6, True)])
def test_a_page_is_green_only_if_most_ratios_are_conclusive(uncertain: int, once: int, mostly: bool) -> None:
    assert Ratios(10, uncertain, once).mostly_uncertain == mostly


def test_the_speedup_of_reading_ahead_has_an_interval() -> None:
    def setting(depth: int, *means: float) -> Setting:
        points = [
            Point("set", "a", (), ((cold.DEPTH, depth),), 0.9, 1.0, repeat=at, raw={"latency_us": {"mean": mean}})
            for at, mean in enumerate(means)
        ]
        return Setting(tuple(points))

    base, fast, wild = setting(0, 80.0, 82.0, 81.0), setting(16, 20.0, 20.4, 20.3), setting(4, 40.0, 160.0, 81.0)
    found = cold._speedup(fast, base)
    assert found is not None
    assert (found.said, f"{found.middle:.1f}") == ("higher", "4.0")
    unsure = cold._speedup(wild, base)
    assert unsure is not None
    assert ratios.ratio_cell(unsure).invalid
    assert cold._speedup(base, base) is None
