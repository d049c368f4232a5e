"""Writers of a vector index: plans, distinct rows, latency by a schedule, aims with verdicts."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_servers import FakeBench, FakeInstance, FakeProduct, run
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.intervals import Interval
from pagehop_lab.engines.pgvector_vector import PgvectorVector
from pagehop_lab.measure import crew
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.wires import int32s
from pagehop_lab.plan import PlanError
from pagehop_lab.plan.read import on_sets
from pagehop_lab.plan.servers import everything
from pagehop_lab.suites import server_aims
from pagehop_lab.suites.vector_writers import VectorWriters, beside, clients, tables
from pagehop_lab.suites.vector_writers.clients import Place
from pagehop_lab.suites.vector_writers.plan import FIGURES, compared, vacuum_s, vacuum_share
from pagehop_lab.suites.vector_writers.records import WritersRecord
from pagehop_lab.suites.vector_writers.servers import WriterServer, parts_of
from pagehop_lab.suites.vector_writers.vectors import Vectors, shuffled
from runs import read_servers

PLANS = Path(__file__).parents[1] / "plans"
PLAN = """
suite = "vector-writers"
once = ["log-rows"]
[load]
dataset = "generated-16"
repeats = 3
[[server]]
product = "pagehop-postgres"
[[server]]
product = "pgvector-halfvec"
cases = ["write-one", "log-rows"]
[[aim]]
what = "rows over halfvec"
figure = "rows_per_s"
case = "write-one"
server = "pagehop-postgres"
over = "pgvector-halfvec"
floor = 3
aim = 5
[[aim]]
what = "many over one"
figure = "rows_per_s"
case = "write-many"
server = "pagehop-postgres"
over_case = "write-one"
floor = 1.6
aim = 1.9
[[aim]]
what = "log over halfvec"
figure = "log_bytes"
case = "log-rows"
server = "pagehop-postgres"
over = "pgvector-halfvec"
floor = 1.1
[[aim]]
what = "recall"
figure = "recall_gain"
case = "recall"
server = "pagehop-postgres"
floor = -0.005
aim = 0
"""


def test_a_plan_says_which_cases_of_which_server_and_how_often() -> None:
    plan = read_servers(PLAN, "test")
    halfvec = [(one.case.name, one.repeat) for one in everything(plan) if one.server.product == "pgvector-halfvec"]
    assert halfvec == [("write-one", 0), ("log-rows", 0), ("write-one", 1), ("write-one", 2)]
    ours = [one.case.name for one in everything(plan) if one.server.product == "pagehop-postgres"]
    assert len(ours) == 3 * 8 - 2
    assert [aim.over for aim in plan.aims] == ["pgvector-halfvec 18", None, "pgvector-halfvec 18", None]


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('dataset = "generated-16"', 'dataset = "texts-38"', r"dataset = 'texts-38'.*did you mean texts-384"),
        ('once = ["log-rows"]', 'once = ["log-row"]', "did you mean log-rows"),
        ('cases = ["write-one", ', 'cases = ["write-on", ', "did you mean write-one"),
        ('figure = "log_bytes"', 'figure = "log_byte"', "did you mean log_bytes"),
        ('over_case = "write-one"', 'over_case = "write"', "over_case"),
        ('over = "pgvector-halfvec"', 'over = "pgvector"', "aim.*over = 'pgvector'"),
        ("floor = 3\naim = 5", "floor = 5\naim = 3", r"aim\[1\]: aim = 3 and floor = 5, and more .* is better"),
        ("floor = 3", "floor = inf", "floor = inf: it should be a number that is not infinite"),
        ("repeats = 3", "write_share = 1.5", "the most is 1"),
        ("repeats = 3", "log_second = 3", "did you mean log_seconds"),
    ],
)
def test_mistakes_are_named(right: str, wrong: str, said: str) -> None:
    assert right in PLAN
    with pytest.raises(PlanError, match=said):
        read_servers(PLAN.replace(right, wrong), "test")


def test_a_server_that_is_there_twice_is_named_in_full() -> None:
    twice = PLAN.replace('product = "pagehop-postgres"\n', 'product = "pagehop-postgres"\nlabel = "a"\n', 1)
    twice += '[[server]]\nproduct = "pagehop-postgres"\nlabel = "b"\n'
    with pytest.raises(PlanError, match="there are pagehop-postgres 18 a, pagehop-postgres 18 b"):
        read_servers(twice, "test")


def test_other_suites_of_servers_have_no_aims() -> None:
    with pytest.raises(PlanError, match="aim: there is no such key"):
        read_servers('suite = "inserts"\n[[server]]\nproduct = "postgres"\nversion = "18"\n[[aim]]\nwhat = "x"', "test")


def test_the_plan_of_the_requirements_is_on_any_set() -> None:
    text = (PLANS / "vector-writers.toml").read_text()
    load: Any = read_servers(on_sets(text, ["texts-384"]), "x").load
    assert (load.dataset, load.dataset_rows) == ("texts-384", 0)
    load = read_servers(on_sets(text, ["generated-384=200000"]), "x").load
    assert (load.dataset, load.dataset_rows) == ("generated-384", 200_000)
    with pytest.raises(PlanError, match="one set"):
        on_sets(text, ["texts-384", "tokens-384"])
    assert len(read_servers(text, "x").aims) == 10


def test_rows_come_in_a_random_order_and_none_comes_twice() -> None:
    random = np.random.default_rng(3)
    base = random.standard_normal((500, 7)).astype(np.float32)
    base[100:140] = base[:40]
    order = shuffled(base, 1)
    assert len(order) == 460
    assert len(np.unique(base[order], axis=0)) == 460
    assert (shuffled(base, 1) == order).all()
    assert (shuffled(base, 2) != order).any()


class _Stop:
    def __init__(self) -> None:
        self.on = False

    def is_set(self) -> bool:
        return self.on


class _Ready:
    def wait(self) -> None:
        pass


@dataclass
class _Shared:
    """State that clients share, within one process."""

    ready: _Ready = field(default_factory=_Ready)
    stop: _Stop = field(default_factory=_Stop)


class _Stalling:
    """A server that stalls once. Some time later, its clients are stopped."""

    def __init__(self, stop: _Stop) -> None:
        self._asked, self._stop = 0, stop

    def ask(self, _: int) -> list[int]:
        self._asked += 1
        if self._asked == clients._FIRST_QUERIES + 10:
            time.sleep(0.3)
        self._stop.on = self._asked == clients._FIRST_QUERIES + 100
        return []


def test_latency_counts_from_when_a_search_was_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared: Any = _Shared()
    monkeypatch.setattr(clients, "Searcher", lambda _: _Stalling(shared.stop))
    place = Place("", "vector", Vectors(tmp_path, tmp_path, tmp_path), {}, 10)
    clients.search(place, 100.0, tmp_path / "out.npy", shared)
    due, sent, done = np.load(tmp_path / "out.npy").T
    np.testing.assert_allclose(np.diff(due), 0.01, atol=1e-6)
    assert (sent >= due).all()
    # The search that stalled, and the later ones that were due during the stall, waited for its
    # end.
    late = done - due
    assert late[9] >= 0.3
    for after in range(1, 20):
        assert late[9 + after] >= 0.3 - 0.01 * after - 1e-3
    # After they were sent they took little time, except for some that a busy machine slowed down.
    assert np.median((done - sent)[10:30]) < late[10]


def test_searches_are_compared_from_when_they_were_due() -> None:
    def of(latency_ms: float, lateness_ms: float) -> np.ndarray[Any, Any]:
        due = np.arange(1000) / 100
        return np.stack([due, due + lateness_ms / 1e3, due + (lateness_ms + latency_ms) / 1e3], axis=1)

    said = beside.latencies(of(1.0, 0.0), of(1.0, 2.0))
    assert said["p99_over_idle"] == pytest.approx(3)
    assert said["sent_ms"]["p99"] == pytest.approx(1)
    with pytest.raises(MeasureError, match="50 searches have no 99th percentile"):
        beside.latencies(of(1.0, 0.0), of(1.0, 0.0)[:50])


def test_a_step_during_which_the_lab_was_stopped_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with crew.Crew([]) as no_clients:
        no_clients.wait(0.05)
        monkeypatch.setattr(crew, "_STILL_MAX_S", 0.0)
        with pytest.raises(MeasureError, match=r"stood still for .*: --retry it"):
            no_clients.wait(0.05)


def test_the_share_beside_autovacuum_has_one_base_whether_it_ended_or_not() -> None:
    # The second is an older file, whose own share is over the mean of before and after.
    rates: WritersRecord = {"rows_before_per_s": 1000.0, "rows_beside_per_s": 800.0, "vacuum_s": 40.0}
    assert vacuum_share(rates | {"rows_after_per_s": None}) == pytest.approx(0.8)
    assert vacuum_share(rates | {"rows_after_per_s": 600.0, "vacuum_share": 1.0}) == pytest.approx(0.8)
    [share] = [one for one in compared("vacuum") if one.unit == FIGURES["vacuum_share"].unit]
    assert share.of(rates | {"vacuum_share": 1.0}) == pytest.approx(0.8)


def test_an_autovacuum_that_was_watched_no_longer_did_not_end() -> None:
    older: WritersRecord = {"vacuum_s": 60.001, "rows_after_per_s": None}
    assert vacuum_s(older) == math.inf
    assert vacuum_s({"vacuum_s": 38.2, "rows_after_per_s": 900.0}) == 38.2
    assert vacuum_s({"vacuum_s": 12.0, "vacuum_ended": False, "rows_after_per_s": None}) == math.inf


def test_a_table_does_not_show_the_limit_as_the_time_of_autovacuum(tmp_path: Path) -> None:
    product = FakeProduct()

    def measured(instance: FakeInstance, case: Case) -> dict[str, Any]:
        after = None if instance is product.made[0] else 900.0
        return _measured(instance, case) | {"vacuum_s": 60.004 if after is None else 38.2, "rows_after_per_s": after}

    loaded = {"rows": 1000, "rows_different": 9000, "index_s": 1.0, "index_bytes": 100}
    text = PLAN.replace('cases = ["write-one", "log-rows"]', 'cases = ["vacuum"]')
    text = text[: text.index("[[aim]]")].replace("repeats = 3", "repeats = 1")
    results, _ = run(text, tmp_path / "run", FakeBench(measured, loaded), product)
    told = [(row[-1].text, row[-1].value) for row in tables.vacuum(results).rows]
    assert told == [(">60 (not ended)", None), ("38.2", 38.2)]


def test_differences_have_an_interval_around_their_mean() -> None:
    found = Interval.of_differences([-0.002, 0.0, 0.002])
    assert found.middle == pytest.approx(0)
    # Student's t with 2 degrees of freedom, times the standard error.
    assert found.high == -found.low == pytest.approx(4.30 * 0.002 / 3**0.5)
    assert Interval.of_differences([0.1]).low == -np.inf


def test_what_pg_waldump_says_is_split() -> None:
    said = (
        "WAL statistics between 0/1 and 0/2:\n"
        "Heap      2 ( 40.00)   114 ( 41.01)   0 (  0.00)   114 (  1.35)\n"
        "Total     5            278 [3.29%]    8176 [96.71%]         8454 [100%]\n"
    )
    assert parts_of(said) == (278, 8176)


def test_ids_are_taken_from_an_answer() -> None:
    def row(number: int) -> bytes:
        return b"D" + (14).to_bytes(4, "big") + b"\0\1" + (4).to_bytes(4, "big") + number.to_bytes(4, "big")

    bound, tag, ready = b"2\0\0\0\4", b"C\0\0\0\x0dSELECT 2\0", b"Z\0\0\0\5I"
    # This id has the same bytes as the end of an answer.
    assert int32s(bound + row(7) + row(0x5A000000) + tag + ready) == [7, 0x5A000000]


LATENCY = {"p50": 1.0, "p95": 2.0, "p99": 3.0, "max": 4.0}


def _measured(instance: FakeInstance, case: Case) -> dict[str, Any]:
    del instance
    return {
        "rows_per_s": {"write-many": 1800.0}.get(case.name, 1000.0), "log_bytes": 5000.0, "recall_gain": -0.001,
        "cpu_us": 10.0, "writers": case.range, "recall_after": [0.9] * 3, "recall_built": [0.9] * 3, "index_s": 1.0,
        "rows_before_per_s": 1.0, "rows_beside_per_s": 1.0, "rows_after_per_s": 1.0, "vacuum_share": 1.0,
        "vacuum_s": 1.0, "idle_ms": LATENCY, "latency_ms": LATENCY, "sent_ms": LATENCY, "p50_over_idle": 1.0,
        "p99_over_idle": 1.0, "rows_full_per_s": 1.0, "commit_ms": LATENCY, "log_rows": 10,
    }  # fmt: skip


def test_aims_have_verdicts_by_the_repeats(tmp_path: Path) -> None:
    loaded = {"rows": 1000, "rows_different": 9000, "index_s": 1.0, "index_bytes": 100}
    results, _ = run(PLAN, tmp_path / "run", FakeBench(_measured, loaded), FakeProduct())
    assert results.sound
    assert len(results.measured) == 3 * 8 - 2 + 3 + 1
    table = server_aims.table(results, FIGURES, ("recall_gain",))
    assert table is not None
    told = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert told["rows over halfvec"][:2] == ["1.00", "1.00 to 1.00"]
    assert told["rows over halfvec"][4] == "MISSED"
    assert told["many over one"][4] == "floor reached"
    assert told["log over halfvec"][4] == "floor reached", "a count needs only one repeat"
    assert told["recall"][:2] == ["-0.0010", "-0.0010 to -0.0010"]
    assert told["recall"][4] == "floor reached"
    page = (tmp_path / "run/report/index.html").read_text()
    assert "What was to be reached" in page
    assert "Recall after concurrent inserts" in page


def test_bytes_of_log_over_an_interval_depend_on_the_speed_so_one_repeat_does_not_tell(tmp_path: Path) -> None:
    loaded = {"rows": 1000, "rows_different": 9000, "index_s": 1.0, "index_bytes": 100}
    text = PLAN.replace("log-rows", "log-interval")
    results, _ = run(text, tmp_path / "run", FakeBench(_measured, loaded), FakeProduct())
    table = server_aims.table(results, FIGURES, ("recall_gain",))
    assert table is not None
    [row] = [row for row in table.rows if row[0].text == "log over halfvec"]
    assert [row[2].text, row[5].text] == ["one repeat", "floor inconclusive"]


def test_the_plan_of_the_requirements_can_tell_each_of_its_aims() -> None:
    plan = read_servers((PLANS / "vector-writers.toml").read_text(), "x")
    once = [aim for aim in plan.aims if aim.case in plan.once or aim.over_case in plan.once]
    assert [aim.what for aim in once if not FIGURES[aim.figure].counted(aim.case)] == []


def test_bytes_of_data_are_those_of_the_table_that_steps_begin_with(tmp_path: Path) -> None:
    class Ours:
        asked = ""

        def execute(self, statement: str) -> list[tuple[int]]:
            self.asked = statement
            return [(7,)]

    ours = Ours()
    assert WriterServer(ours, {}, PgvectorVector(tmp_path)).data_bytes() == 7
    assert ours.asked == "SELECT pg_database_size('loaded')"


def test_servers_that_only_count_log_have_no_chart_of_rates(tmp_path: Path) -> None:
    plan = PLAN[: PLAN.index("[[aim]]")].replace('once = ["log-rows"]', "")
    log_only = plan.replace('"pagehop-postgres"\n', '"pagehop-postgres"\ncases = ["log-rows"]\n')
    loaded = {"rows": 1000, "rows_different": 9000, "index_s": 1.0, "index_bytes": 100}
    results, _ = run(log_only, tmp_path / "one", FakeBench(_measured, loaded), FakeProduct())
    assert [series.name for series in tables.chart(results).series] == ["pgvector-halfvec 18"]
    neither = log_only.replace('cases = ["write-one", ', "cases = [")
    results, _ = run(neither, tmp_path / "neither", FakeBench(_measured, loaded), FakeProduct())
    assert tables.sections(results)[0].charts == []


@pytest.mark.parametrize("name", ["tokens-384", "tokens-384-1500000", "texts-384-ood"])
def test_the_room_for_rows_follows_the_dimensions_of_the_set(name: str) -> None:
    suite, text = VectorWriters(), (PLANS / "vector-writers.toml").read_text()
    sizes = [suite.needed_bytes(read_servers(on_sets(text, [one]), "x")) for one in (name, "generated-384")]
    assert sizes[0] == sizes[1] < 100e9
