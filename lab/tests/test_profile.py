"""Where the time goes for chosen numbers of sessions: plans, the output of perf, and the table."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pagehop_lab import report
from pagehop_lab.analysis.points import Point
from pagehop_lab.analysis.records import PointRecord
from pagehop_lab.analysis.settings import settings_of
from pagehop_lab.engines.engine import Float32, Ids
from pagehop_lab.measure import in_process, profile, served, usage
from pagehop_lab.measure.load import Ask
from pagehop_lab.plan import PlanError, read_text
from pagehop_lab.suites.concurrency import tables
from pagehop_lab.suites.results import Results
from runs import QUICK, fake_engines, plan_of, run

LOAD = QUICK + "repeats = 1\nsessions = [1, 2]\nprofile_sessions = [2]\n"


def test_a_plan_says_with_which_sessions_to_look(tmp_path: Path) -> None:
    with fake_engines(tmp_path):
        plan = read_text(plan_of("honest", load=LOAD, more='suite = "concurrency"'), "x")
        assert plan.load.profile_sessions == (2,)
        with pytest.raises(PlanError, match=r"profile_sessions = '3'.*there are 1, 2"):
            read_text(plan_of("honest", load=LOAD.replace("[2]", "[3]"), more='suite = "concurrency"'), "x")
        with pytest.raises(PlanError, match="the suite phases has none, concurrency has"):
            read_text(plan_of("honest", load=LOAD, more='suite = "phases"'), "x")


def test_only_points_with_these_sessions_are_looked_at_and_their_figures_are_as_before(tmp_path: Path) -> None:
    with fake_engines(tmp_path / "data"):
        text = plan_of("honest", load=LOAD, more='suite = "concurrency"') + "search = { ef = 10 }\n"
        results, _ = run(text, tmp_path / "run")
    by_sessions: dict[int, list[Point]] = {}
    for point in results.points:
        by_sessions.setdefault(point.sessions, []).append(point)
    assert sorted(by_sessions) == [1, 2]
    assert all("profile" not in point.raw for point in by_sessions[1])
    for point in by_sessions[2]:
        assert point.valid, point.wrong
        assert point.raw["profile"] or point.raw["no_profile"]
        # The queries for the profile are not counted in the figures.
        assert point.raw["elapsed_s"] < 1
    page = (tmp_path / "run" / report.PAGE).read_text()
    assert "Where the time goes, by sessions" in page


def test_perf_sees_the_function_that_works() -> None:
    if (reason := profile.missing()) is not None:
        pytest.skip(reason)

    def work() -> None:
        late = time.monotonic() + 1
        while time.monotonic() < late:
            sum(range(10_000))

    found = profile.during([os.getpid()], work)["profile"]
    assert 1 <= len(found) <= 12
    assert 20 < sum(percent for percent, _, _ in found) <= 100.5
    assert any("python" in library or "kernel" in library for _, library, _ in found)


def test_of_a_server_that_runs_already_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert profile.during([], lambda: pytest.fail("it sent a query")) == {"profile": [], "no_profile": profile.NOT_OURS}
    engine: Any = SimpleNamespace(pid=lambda: None)
    question: Any = None
    dataset: Any = None
    ask = Ask(10, 2, None, 1.0, 60.0, 0.1, False, profile_s=2.0)
    assert served._profile(engine, question, dataset, ask)["no_profile"] == profile.NOT_OURS
    # The processes of the lab's own server are sampled during that time of queries.
    told: list[Any] = []
    monkeypatch.setattr(usage, "family", lambda pid: [pid, 8])
    monkeypatch.setattr(served, "_run", lambda *given: told.append(given[-1]))
    monkeypatch.setattr(
        profile,
        "during",
        lambda processes, work: {"profile": [(float(one), "", "") for one in processes], "work": work()},
    )
    engine = SimpleNamespace(pid=lambda: 7)
    assert served._profile(engine, question, dataset, ask)["profile"] == [(7.0, "", ""), (8.0, "", "")]
    assert told == [["--seconds", "2", "--warmup", "0"]]
    served._profile(engine, question, dataset, replace(ask, rate=250.0))
    assert told[1] == ["--seconds", "2", "--warmup", "0", "--rate", "250"], "the rate is that of the measurement"


def test_a_library_is_asked_at_the_rate_of_the_measurement_while_it_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def search(row: Float32) -> Ids:
        asked.append(len(row))
        return np.zeros((1, 10), dtype=np.int64)

    monkeypatch.setattr(profile, "during", lambda processes, work: work() and {"profile": processes})
    ask = Ask(10, 1, 20.0, 1.0, 60.0, 0.1, False, profile_s=0.3)
    in_process._profile([search], [np.zeros((1, 4), dtype=np.float32)], [], ask)
    # Six queries are due in this time. One more may be sent that was waiting when the time ended.
    assert 1 <= len(asked) <= 7


def test_functions_are_side_by_side_by_sessions() -> None:
    def point(sessions: int, repeat: int, **more: Any) -> Point:
        raw = cast(PointRecord, more)
        return Point("set", "engine", (), (), 0.9, 100.0, sessions, repeat=repeat, file="f", raw=raw)

    points = [
        point(1, 0),
        point(2, 0, profile=[[40.0, "server", "distance"], [5.0, "kernel", "futex"]]),
        point(2, 1, profile=[[99.0, "server", "other"]]),
        point(48, 0, profile=[[30.0, "kernel", "futex"], [20.0, "server", "distance"], [2.0, "server", "lock"]]),
    ]
    results = cast(Results, SimpleNamespace(title=str, load={"profile_sessions": (2, 48)}))
    curves = tables._curves(settings_of(points))
    table = tables.profiles(results, curves, "set")
    assert table.columns[-2:] == ("% at 2", "% at 48")
    assert [[cell.text for cell in row[3:]] for row in table.rows] == [
        ["server", "distance", "40.0", "20.0"], ["kernel", "futex", "5.0", "30.0"], ["server", "lock", "-", "2.0"],
    ]  # fmt: skip
    missing = [point(2, 0, profile=[], no_profile="perf is not here")]
    table = tables.profiles(results, tables._curves(settings_of(missing)), "set")
    assert table.rows == []
    assert "engine: perf is not here." in table.note
