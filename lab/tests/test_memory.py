"""Servers with data larger than memory: plans, limits, expected reads, and tables by memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import made_up
from fake_servers import HONEST, FakeBench, FakeInstance, FakeProduct, plan_of
from fake_servers import run as run_servers
from pagehop_lab.analysis import records
from pagehop_lab.analysis.case import Case
from pagehop_lab.analysis.load_verdicts import judge_load
from pagehop_lab.analysis.server_records import OltpRecord
from pagehop_lab.engines.engine import EngineError
from pagehop_lab.measure import limit as limits
from pagehop_lab.measure.limit import MemoryLimit
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.plan import PlanError
from pagehop_lab.plan.servers import CaseSpec, ServerSpec
from pagehop_lab.run import memory
from pagehop_lab.suites.inserts.run import Inserts
from pagehop_lab.suites.oltp.cases import BY_NAME, READS_ROWS
from pagehop_lab.suites.oltp.run import Sysbench
from runs import read_servers

LIMITED = plan_of("old", "new").replace("[load]\n", "[load]\nmemory_mib = 512\n")
INSERTS = 'suite = "inserts"\n{more}[[server]]\nproduct = "postgres"\nversion = ["old", "new"]\n'


class Restarted(FakeInstance):
    """A server that records the operations on it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.done: list[str] = []
        self.folder = Path("/nowhere")

    def start(self) -> None:
        super().start()
        self.done.append("start")

    def stop(self) -> None:
        self.running = False
        self.done.append("stop")


class Product(FakeProduct):
    def new(self, server: ServerSpec, configuration: Any) -> FakeInstance:
        del configuration
        self.made.append(Restarted(server.version))
        return self.made[-1]


class FakeLimit(MemoryLimit):
    """A control group that does not exist."""

    made: list[FakeLimit] = []  # noqa: RUF012
    killed_count = 0

    def __init__(self, mib: int, name: str) -> None:
        self.mib, self.name, self.entered, self.closed = mib, name, [0], False
        FakeLimit.made.append(self)

    def enter(self, processes: Sequence[int]) -> None:
        self.entered = list(processes)

    def told(self) -> records.MemoryLimit:
        return {"mib": self.mib, "peak_bytes": 7}

    def killed(self) -> int:
        return self.killed_count

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def fake_limits(monkeypatch: pytest.MonkeyPatch) -> list[FakeLimit]:
    monkeypatch.setattr(memory, "MemoryLimit", FakeLimit)
    monkeypatch.setattr(memory, "family", lambda pid: [pid, 99])
    monkeypatch.setattr(FakeLimit, "made", [])
    return FakeLimit.made


def reading(_: FakeInstance, case: Case) -> Mapping[str, Any]:
    """Figures with about one read of a page for each query, or none."""
    reads = 0.9 if case.script != "insert" else 0.0
    return {
        "storage_reads_per_query": reads, "bytes_read_per_query": reads * 4096,
        "expects_reads": case.script in READS_ROWS,
    }  # fmt: skip


def run(folder: Path, bench: FakeBench, product: FakeProduct, text: str = LIMITED) -> Any:
    return run_servers(text, folder, bench, product, limits=True)[0]


def test_a_loaded_server_is_started_again_within_its_limit(tmp_path: Path, fake_limits: list[FakeLimit]) -> None:
    product = Product()
    results = run(tmp_path / "run", FakeBench(reading), product)
    assert results.sound, [one.wrong for one in results.measured]
    assert [one.done for one in product.made if isinstance(one, Restarted)] == [["start", "stop", "start"]] * 2
    assert [(one.mib, one.name, one.entered, one.closed) for one in fake_limits] == [
        (512, "0", [1, 99], True), (512, "1", [1, 99], True),
    ]  # fmt: skip
    raw = results.measured[0].raw
    assert raw["memory"] == {"mib": 512, "peak_bytes": 7}
    assert raw["times_memory"] == 1000 / (512 << 20)
    told = json.loads((tmp_path / "run/report/tables.json").read_text())
    tables = {one["name"]: one for section in told["sections"] for one in section["tables"]}
    assert [row[2]["text"] for row in tables["reads"]["rows"]] == ["3,686", "3,686", "3,686", "0"]


def test_without_a_limit_nothing_is_started_again(tmp_path: Path, fake_limits: list[FakeLimit]) -> None:
    product = Product()
    run(tmp_path / "run", FakeBench(), product, plan_of("old"))
    assert [one.done for one in product.made if isinstance(one, Restarted)] == [["start"]]
    assert fake_limits == []


@pytest.mark.parametrize("rounds", [1, 8])
def test_a_server_that_the_kernel_killed_is_said_to_lack_memory_and_later_failures_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_limits: list[FakeLimit], rounds: int
) -> None:
    # The kernel killed five processes of connections before the measurement. Repeats continue this
    # count.
    monkeypatch.setattr(FakeLimit, "killed_count", 5)

    def on(instance: FakeInstance, case: Case) -> Mapping[str, Any]:
        if case.script == "update-index" and instance.name == "new":
            monkeypatch.setattr(FakeLimit, "killed_count", 7)
            raise MeasureError("the connection was lost")
        if case.script == "insert" and instance.name == "new":
            raise MeasureError("the table is full")
        return reading(instance, case)

    text = LIMITED.replace("[load]\n", f"[load]\nrounds = {rounds}\n")
    results = run(tmp_path / "run", FakeBench(on), Product(), text)
    assert len(fake_limits) == 2
    assert sorted(results.coverage.failed.values()) == [
        "512 MiB of memory did not suffice: the kernel killed 2 of its processes (the connection was lost)",
        "the table is full",
    ]


def test_where_memory_cannot_be_limited_no_server_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(mib: int, name: str) -> None:
        raise EngineError(f"memory cannot be limited here (no {mib}, {name}): be root")

    monkeypatch.setattr(memory, "MemoryLimit", refused)
    results = run(tmp_path / "run", FakeBench(), Product())
    assert results.measured == []
    assert all("cannot be limited here" in reason for reason in results.coverage.failed.values())


def test_limits_of_one_process_have_names_and_end_with_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("4:memory:/mine\n")
    (tmp_path / "memory/mine").mkdir(parents=True)
    made = [MemoryLimit(mib, tmp_path, own, name) for mib, name in ((64, ""), (32, "0"), (16, "1"))]
    names = sorted(path.name for path in (tmp_path / "memory/mine").iterdir() if path.is_dir())
    assert [name.rpartition("lab-")[2].partition("-")[2] for name in names] == ["", "0", "1"]
    (process,) = set(limits.processes(tmp_path, own))
    assert [one.mib for one in made] == [64, 32, 16]
    for group in (tmp_path / "memory/mine").iterdir():
        for file in group.iterdir():
            file.unlink()
    limits.forget(process, tmp_path, own)
    assert list((tmp_path / "memory/mine").iterdir()) == []


def test_reads_are_expected_of_what_reads_rows_and_forgiven_where_memory_is_limited() -> None:
    limited: Any = {**HONEST, "memory": {"mib": 64, "peak_bytes": 1}, "times_memory": 9.0}
    assert not judge_load(limited | {"storage_reads_per_query": 0.9}).wrong
    assert judge_load(HONEST | {"storage_reads_per_query": 0.9}).wrong[0].startswith("cache: declared hot")
    (wrong,) = judge_load(limited | {"storage_reads_per_query": 0.1, "expects_reads": True}).wrong
    assert wrong == "cache: declared larger than memory, but only 0.100 reads of 4 KiB a query"
    assert not judge_load(limited | {"storage_reads_per_query": 0.1, "expects_reads": False}).wrong
    assert judge_load(limited | {"times_memory": 2.0}).noted[0].startswith("size: ")
    assert {case.script for case in BY_NAME.values()} >= READS_ROWS


def test_the_identity_of_what_was_measured_before_is_the_same() -> None:
    for suite, text, name in (
        ("oltp", plan_of("old"), "memory_mib"),
        ("inserts", INSERTS.format(more=""), "commit_rows"),
    ):
        plan = read_servers(text, "any")
        assert name not in plan.load.identity(), suite
        assert "repeats" not in plan.load.identity()
    changed = read_servers(INSERTS.format(more="[load]\ncommit_rows = 50\nmemory_mib = 512\n"), "any")
    identity = CaseSpec(changed.servers[0], changed.cases[0], 0).identity(changed, "here", None)
    assert (identity["load"]["commit_rows"], identity["load"]["memory_mib"]) == (50, 512)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LIMITED.replace("512", "256"), "memory_mib = 256: a server with configuration.cache_mib = 256 needs more"),
        (LIMITED + '[[server]]\nproduct = "mysql"\nurl = "mysql://a@b/c"\n', "mysql by-url runs already"),
        (INSERTS.format(more="[load]\ncommit_rows = 0\n"), "commit_rows = 0: the least is 1"),
        (
            'suite = "attributes"\n[load]\nmemory_mib = 512\n[[server]]\nproduct = "postgres"\nversion = "18"\n',
            "memory_mib: there is no such key",
        ),
    ],
)
def test_mistakes_are_named(text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        read_servers(text, "any")


def test_benches_say_of_which_tests_reads_are_expected() -> None:
    def expected(text: str) -> dict[str, OltpRecord]:
        plan = read_servers(text, "any")
        return {case.script: Sysbench(plan)._expected(case) for case in plan.cases}

    assert expected(plan_of("old")) == {"point-query": {}, "update-index": {}, "insert": {}}
    limited = expected(LIMITED)
    assert limited["point-query"] == {"expects_reads": True}
    assert limited["insert"] == {"expects_reads": False}


def test_rows_of_a_commit_beside_queries_are_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    from pagehop_lab.suites.inserts import sales

    told: list[tuple[Any, ...]] = []

    def query(*given: Any) -> dict[str, Any]:
        told.append(given)
        return {}

    monkeypatch.setattr(sales, "query", query)
    plan = read_servers(INSERTS.format(more="[load]\ncommit_rows = 50\nmemory_mib = 512\n"), "any")
    bench, instance = Inserts(plan), object()
    bench._states[id(instance)] = None  # type: ignore[assignment]
    found = {case.name: bench.measure(instance, case, 0.0) for case in plan.cases if case.group == "queries"}
    assert {given[-1] for given in told} == {50}
    assert found["qp100"] == {"expects_reads": True}
    assert found["qr100"] == {"expects_reads": False}


def test_inserts_have_three_tables_of_steps_by_servers(tmp_path: Path) -> None:
    def on(instance: FakeInstance, case: Case) -> Mapping[str, Any]:
        raw = dict(made_up.steps(instance, case))
        # One server does not reach the highest rate of writes.
        if instance.name == "new" and case.range == 1000:
            raw["rows_per_s"] = 900.0
        return raw

    loaded = {"load_rows_per_s": 9000.0, "load_client_share": 0.1, "index_s": 2.0, "index_bytes": 1 << 20}
    run_servers(INSERTS.format(more=""), tmp_path / "run", FakeBench(on, loaded), FakeProduct())
    told = json.loads((tmp_path / "run/report/tables.json").read_text())
    tables = {
        one["name"]: {row[0]["text"]: [cell["text"] for cell in row[1:]] for row in one["rows"]}
        for one in told["sections"][0]["tables"]
    }
    steps = ["l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100", "qr500", "qp500", "qr1000", "qp1000"]
    assert list(tables["absolute"]) == list(tables["relative"]) == steps
    assert tables["absolute"]["l.i0"] == ["9,000", "9,000"]
    assert tables["absolute"]["l.x"] == ["100,000", "100,000"]
    assert tables["absolute"]["qr1000"][1] == "-", "a step that failed has no rate"
    assert list(tables["sustained"]) == steps[4:]
    assert tables["sustained"]["qr500"] == ["1.00", "1.00"]
    assert tables["sustained"]["qr1000"] == ["1.00", "0.90"]
