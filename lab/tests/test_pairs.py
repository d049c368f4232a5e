"""Repeats make pairs only if they were measured at one time, and not by their number alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import fake_servers
from pagehop_lab.analysis.aims import FIGURES, at_recall
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.intervals import compared
from pagehop_lab.analysis.points import Point
from pagehop_lab.analysis.server_records import CaseRecord
from pagehop_lab.analysis.settings import Setting
from pagehop_lab.analysis.turns import APART, MEASURED_WITH
from pagehop_lab.plan.servers import ServerAim
from pagehop_lab.store import RunFolder
from pagehop_lab.suites import server_aims
from pagehop_lab.suites.equal_recall.tables import by_run
from pagehop_lab.suites.inserts.tables import _load_rates, _over
from pagehop_lab.suites.paired_servers import over
from pagehop_lab.suites.server_results import AnyServers, Measured, ServerFacts
from runs import QUICK, fake_engines, plan_of, run

DRIFT = (100.0, 150.0, 80.0)
LOAD = QUICK + "repeats = 2\nin_turns = 2\n"


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with fake_engines(tmp_path_factory.mktemp("data")):
        yield


def setting(engine: str, tokens: tuple[str, str, str], scale: float = 1.0, recall: float = 0.9) -> Setting:
    """Three repeats, which drift; a token for each."""
    return Setting(
        tuple(
            Point(
                "set", engine, (), (("ef", int(100 * recall)),), recall, scale * qps, repeat=at, group=1,
                raw={MEASURED_WITH: token} if token else {},
            )
            for at, (qps, token) in enumerate(zip(DRIFT, tokens, strict=True))
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (("a", "a", "a"), "higher"),
        (("", "", ""), "inconclusive"),
        (("b", "b", "b"), "inconclusive"),
        # One pair alone is inconclusive.
        (("a", "b", "c"), "inconclusive"),
    ],
)
def test_repeats_of_other_times_make_no_pairs(tokens: tuple[str, str, str], said: str) -> None:
    base, other = setting("a", ("a", "a", "a")), setting("b", tokens, 1.1)
    assert compared(other.qps_by_run, base.qps_by_run).said == said


def test_without_tokens_the_number_of_the_repeat_decides() -> None:
    base, other = setting("a", ("", "", "")), setting("b", ("", "", ""), 1.1)
    assert compared(other.qps_by_run, base.qps_by_run).said == "higher"


def test_a_figure_between_settings_of_other_times_is_there_and_makes_its_own_pairs() -> None:
    def between(engine: str, low: tuple[str, str, str], high: tuple[str, str, str]) -> Mapping[Any, float]:
        found = at_recall(
            [*setting(engine, low, 2.0, 0.9).points, *setting(engine, high, 1.0, 0.99).points], 0.95, FIGURES["qps"]
        )
        assert found is not None
        return found.figures

    old, mixed = ("a", "a", "a"), ("a", "b", "b")
    figures = between("a", old, mixed)
    assert len(figures) == 3, "the run was stopped between both settings"
    assert compared(figures, between("b", old, mixed)).said == "same"
    assert compared(figures, between("b", old, mixed)).low == pytest.approx(1), "both were stopped there"
    assert set(figures).isdisjoint(between("b", ("c", "c", "c"), ("c", "c", "c")))


def test_the_page_has_a_figure_of_each_repeat_whenever_it_was_measured() -> None:
    low, high = setting("a", ("a", "a", "a"), 2.0, 0.9), setting("a", ("a", "b", "b"), 1.0, 0.99)

    class Between:
        def __init__(self) -> None:
            self.low, self.high = low, high

    assert list(by_run(Between(), 0.95)) == ["1.1.1", "1.1.2", "1.1.3"]  # type: ignore[arg-type]


def test_an_engine_that_is_added_later_makes_no_pairs(tmp_path: Path) -> None:
    at_once, _ = run(plan_of("slow", "costly", load=LOAD), tmp_path / "at-once")
    runs = [{point.run for point in at_once.points if point.engine == one} for one in ("slow", "costly")]
    assert runs[0] == runs[1]
    assert {build.run for build in at_once.builds} == {(*next(iter(runs[0]))[:2], 0, next(iter(runs[0]))[3])}
    assert not any(APART in point.noted for point in at_once.points)

    run(plan_of("slow", load=LOAD), tmp_path / "later")
    later, _ = run(plan_of("slow", "costly", load=LOAD), tmp_path / "later")
    slow, costly = ([point for point in later.points if point.engine == one] for one in ("slow", "costly"))
    assert {point.group for point in later.points} == {1}
    assert {point.run for point in slow}.isdisjoint(point.run for point in costly)
    assert {build.run[3] for build in later.builds} == {point.run[3] for point in later.points}
    noted = {point.engine for point in later.points if APART in point.noted}
    assert len(noted) == 1
    assert "4 at another time than most of their group" in (tmp_path / "later/report/index.html").read_text()


def test_a_server_that_is_added_later_makes_no_pairs(tmp_path: Path) -> None:
    def measured(folder: Path, *plans: str) -> AnyServers:
        asked: dict[str, int] = {}

        def on(instance: fake_servers.FakeInstance, case: Case) -> dict[str, Any] | None:
            if case.name != fake_servers.CASES[0]:
                return None
            asked[instance.name] = asked.get(instance.name, -1) + 1
            return {"qps": DRIFT[asked[instance.name] % 3] * (1.1 if instance.name == "new" else 1.0)}

        for text in plans:
            results, _ = fake_servers.run(text, folder, fake_servers.FakeBench(on), fake_servers.FakeProduct())
        return results

    both, one = fake_servers.plan_of("old", "new", repeats=3), fake_servers.plan_of("old", repeats=3)
    ratios = {
        name: over(results, "postgres new", "postgres old", fake_servers.CASES[0])
        for name, results in {
            "at once": measured(tmp_path / "at-once", both),
            "later": measured(tmp_path / "later", one, both),
        }.items()
    }
    assert {name: found.said for name, found in ratios.items() if found} == {
        "at once": "higher", "later": "inconclusive",
    }  # fmt: skip
    later = measured(tmp_path / "later", both)
    assert len({one.server for one in later.measured if APART in one.noted}) == 1


def test_loads_of_other_times_make_no_pairs() -> None:
    def rates(*tokens: str) -> Any:
        loads: Any = [
            {"load_rows_per_s": rate, **({MEASURED_WITH: token} if token else {})}
            for rate, token in zip(DRIFT, tokens, strict=True)
        ]
        return _load_rates(ServerFacts("a", "1", {}, None, loads), "load_rows_per_s", 1)

    assert _over(rates("a", "b", "c"), rates("a", "b", "c")).said == "same"
    assert _over(rates("", "", ""), rates("", "", "")).said == "same"
    assert _over(rates("a", "b", "c"), rates("d", "e", "f")).said == "inconclusive"


def test_an_aim_compares_servers_of_other_times_without_pairs() -> None:
    def measured(server: str, token: str, scale: float = 1.0) -> list[Measured[CaseRecord]]:
        return [
            Measured(server, "c", at, 1.0, (), (), "", {"rows_per_s": scale * rate, MEASURED_WITH: f"{token}{at}"})
            for at, rate in enumerate(DRIFT)
        ]

    def said(other: list[Measured[CaseRecord]], *, is_counted: bool = False) -> str:
        aim = ServerAim("faster", "rows_per_s", "c", "a", "b", floor=1.0)
        found = server_aims._found(measured("a", "x", 1.1), other, aim, is_counted=is_counted, is_difference=False)
        assert found is not None
        return found.said

    assert said(measured("b", "x")) == "higher"
    assert said(measured("b", "y")) == "inconclusive"
    assert said(measured("b", "y"), is_counted=True) == "higher", "a count is the same at any time"


def test_kept_runs_have_no_tokens_and_their_pairs_as_before() -> None:
    kept = Path(__file__).parents[1] / "results/postgres-warm-20261127"
    assert not any(MEASURED_WITH in record.raw for record in RunFolder(kept).all("points"))
