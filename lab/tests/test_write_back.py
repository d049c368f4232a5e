"""Pages and their copies, beside the logs: counters, the account, tables and plans."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import made_up
from devserver import innodb, postgres
from fake_servers import FakeBench, FakeInstance, FakeProduct, run
from pagehop_lab.analysis.case import Case
from pagehop_lab.plan.servers import CaseSpec
from pagehop_lab.suites.log_writes import log_counters
from pagehop_lab.suites.log_writes.cases import write_back
from pagehop_lab.suites.log_writes.log_counters import counters, written_back
from pagehop_lab.suites.log_writes.run import _write_back
from runs import read_servers

PLAN = made_up.LOGS.replace("[load]\n", "[load]\nwrite_back = true\n")


def test_innodbs_counters_are_pages_and_their_copies() -> None:
    told = {
        "Innodb_pages_written": 300, "Innodb_page_size": 16384, "Innodb_dblwr_pages_written": 280,
        "Innodb_dblwr_writes": 10, "Innodb_data_written": 10_000_000, "Innodb_data_writes": 1000,
    }  # fmt: skip
    server: Any = SimpleNamespace(
        program=SimpleNamespace(product="mariadb"), execute=lambda *_: [(name, str(one)) for name, one in told.items()]
    )
    own = counters(server)
    assert own["data bytes"] == (300 + 280) * 16384, "the counter of data bytes does not change"
    assert written_back(own) == {
        "bytes": 300 * 16384, "by": {}, "doubled_bytes": 280 * 16384, "doubled_writes": 10, "images": None,
        "bytes_per_write": 10_000.0,
    }  # fmt: skip


@pytest.mark.parametrize(("major", "images"), [(12, None), (15, 7), (18, 7)])
def test_postgres_says_who_wrote_pages_in_every_version(major: int, images: int | None) -> None:
    def execute(query: str) -> list[tuple[Any, ...]]:
        if "GROUP BY backend_type" in query:
            assert major >= 16
            return [("checkpointer", 40), ("client backend", 2)]
        if "pg_stat_bgwriter" in query:
            assert major < 16, "17 has no such columns"
            return [(40, 0, 2)]
        if "FILTER" in query:
            return [(1, 1, 1, 1, 1)]
        return [(7,)]

    server: Any = SimpleNamespace(server=SimpleNamespace(major=major), execute=execute)
    found = written_back(counters(server))
    assert found["by"] == {"checkpointer": 40, "client backend": 2}
    assert (found["bytes"], found["doubled_bytes"], found["images"]) == (42 * 8192, 0, images)


def test_logs_pages_and_copies_add_up_to_what_was_written() -> None:
    log = {
        "name": "redo", "page_bytes": 4096, "logical_bytes": 1000, "counted_bytes": 5000, "writes": 1, "syncs": 1,
        "device": None, "requests": None,
    }  # fmt: skip
    binlog = log | {"counted_bytes": None, "writes": None, "syncs": None, "logical_bytes": 700}
    raw: Any = {
        "logs": [log, binlog], "pages": {"bytes": 3000, "doubled_bytes": 2000},
        "kernel": {"write_bytes": 11_000},
    }  # fmt: skip
    found = write_back(raw)
    assert found is not None
    assert (found.logs, found.total) == (5700, 10_700)
    assert found.unexplained == pytest.approx(300 / 11_000)
    assert write_back({"logs": raw["logs"], "kernel": raw["kernel"]}) is None


def test_a_report_has_pages_and_copies_for_each_commit(tmp_path: Path) -> None:
    def on(instance: FakeInstance, case: Case) -> Mapping[str, Any]:
        raw = made_up.written(instance, case)
        grown = sum(log["counted_bytes"] or log["logical_bytes"] for log in raw["logs"])
        doubled = 400_000 if instance.name == "9" else 0
        pages = {
            "bytes": 500_000, "by": {} if doubled else {"checkpointer": 61}, "doubled_bytes": doubled,
            "doubled_writes": None, "images": None if doubled else 12, "bytes_per_write": 10240.0 if doubled else None,
        }  # fmt: skip
        return {**raw, "pages": pages, "kernel": raw["kernel"] | {"write_bytes": grown + 500_000 + doubled}}

    run(PLAN, tmp_path / "run", FakeBench(on), FakeProduct())
    told = json.loads((tmp_path / "run/report/tables.json").read_text())
    (table,) = [one for one in told["sections"][0]["tables"] if one["name"] == "pages"]
    shown = {(row[0]["text"].split()[0], row[1]["text"]): [cell["text"] for cell in row[2:]] for row in table["rows"]}
    ours, theirs = shown["postgres", "bytes=4000 clients=8"], shown["mysql", "bytes=4000 clients=8"]
    # 1,000 commits of 4,000 bytes: bytes of logs, pages and copies per commit; shares of pages and
    # copies; the sum relative to the 4,000 bytes.
    assert ours[:6] == ["4,207", "500", "0", "11%", "0%", "1.18"]
    assert ours[6:9] == ["-", "12", "checkpointer 61"]
    assert theirs[:3] == ["8,407", "500", "400"]
    assert theirs[6:9] == ["10.0", "-", "-"]
    assert {one[-1] for one in shown.values()} == {"+0.0%"}


def test_a_run_that_does_not_wait_for_pages_has_no_such_table(tmp_path: Path) -> None:
    run(made_up.LOGS, tmp_path / "run", FakeBench(made_up.written), FakeProduct())
    told = json.loads((tmp_path / "run/report/tables.json").read_text())
    assert "pages" not in [one["name"] for one in told["sections"][0]["tables"]]


def test_what_was_measured_before_is_the_same_measurement() -> None:
    old, new = read_servers(made_up.LOGS, "any"), read_servers(PLAN, "any")
    identities = [CaseSpec(plan.servers[0], plan.cases[0], 0).identity(plan, "here", "18.6") for plan in (old, new)]
    assert "write_back" not in identities[0]["load"]
    assert identities[1]["load"] == identities[0]["load"] | {"write_back": True}


def test_pages_are_written_without_a_vacuum() -> None:
    said: list[str] = []

    class Postgres(postgres.Instance):
        def __init__(self) -> None: ...

        def execute(self, *statements: str) -> list[Any]:
            said.extend(statements)
            return []

    class InnoDb(innodb.Instance):
        def __init__(self) -> None: ...

        def settle(self) -> None:
            said.append("settled")

    for server in (Postgres(), InnoDb()):
        _write_back(server)
    assert said == ["CHECKPOINT", "settled"]
    assert log_counters.POSTGRES_PAGE_BYTES == 8192
