"""Runs of fake servers with measured storage: reports, failures in a run, continued runs."""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from devserver import DevServerError, innodb
from fake_servers import FakeBench, FakeInstance, FakeProduct, run
from made_up import LOGS, READ_LOADED, READS, read, written
from pagehop_lab.analysis.case import Case
from pagehop_lab.measure.disturbance import Disturbance
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.run.servers import RunError
from pagehop_lab.store import RunFolder
from pagehop_lab.suites.point_reads import tables
from pagehop_lab.suites.point_reads.cases import ReadCase
from pagehop_lab.suites.point_reads.run import Embedded, start, with_cache
from pagehop_lab.suites.server_results import AnyServers


@pytest.fixture
def product(monkeypatch: pytest.MonkeyPatch) -> FakeProduct:
    # The host of a virtual machine may take a part of it while the tests run.
    monkeypatch.setattr(Disturbance, "since", lambda *_: {"stolen_cores": 0.0, "throttled_count": None})
    return FakeProduct()


def reading(on: Callable[[FakeInstance, Case], Mapping[str, Any] | None] | None = None, **more: Any) -> FakeBench:
    """A bench of reads. `on` is called before each figure, and may return fields or raise."""
    return FakeBench(lambda instance, case: read(case, **((on and on(instance, case)) or {})), READ_LOADED, **more)


def rows_of(folder: Path, table: str) -> list[list[str]]:
    told = json.loads((folder / "report/tables.json").read_text())
    tables = told["tables"] + [one for section in told["sections"] for one in section["tables"]]
    (found,) = [one for one in tables if one["name"] == table]
    return [[cell["text"] for cell in row] for row in found["rows"]]


def left(results: AnyServers, server: str) -> list[str]:
    there = {one.case for one in results.measured if one.server == server}
    return [case for case in results.groups if case not in there]


SMALL, LARGE, ROCKS = (
    "mariadb 11.8 page_bytes=4096 access=direct", "mariadb 11.8 page_bytes=16384 access=direct",
    "rocksdb page_bytes=4096 access=buffered compression=zstd",
)  # fmt: skip


def test_a_run_of_reads_says_what_a_read_takes_by_who_counted(tmp_path: Path, product: FakeProduct) -> None:
    results, said = run(READS, tmp_path / "run", reading(), product)
    assert results.sound
    assert results.names == [SMALL, LARGE, ROCKS]
    assert "[12/12]" in said
    rows = rows_of(tmp_path / "run", "reads")
    assert [row[:2] for row in rows[:2]] == [[SMALL, "clients=8 ahead=0"], [SMALL, "clients=32 ahead=0"]]
    # Reads and KiB per read of the disk, reads of the process, the server's report, ms, reads in
    # flight.
    assert rows[0][4:6] + rows[0][7:11] == ["0.90", "4.0", "3.6", "pages 0.90", "0.100", "4.0"]
    assert [row[5] for row in rows_of(tmp_path / "run", "loads")] == ["an ext4 of its own"] * 3
    assert {row[4] for row in rows_of(tmp_path / "run", "points-reads")} == {"96"}
    assert "Reads a second, ahead 128 KiB" in (tmp_path / "run/report/index.html").read_text()


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ({"settled": False}, "settling: rates still went one way after 6 s"),
        ({"disk": read(ReadCase("", "", "", 1))["disk"] | {"reads_per_query": 0.05}}, "cache: "),
        ({"client_share_of_core": 0.6}, "client: saturated, 60% of a core's time was its own"),
    ],
)
def test_reads_that_say_nothing_are_in_no_table_but_their_own(
    tmp_path: Path, product: FakeProduct, told: dict[str, Any], wrong: str
) -> None:
    bench = reading(lambda _, case: told if case.name == "clients=8 ahead=0" else None)
    results, said = run(READS, tmp_path / "run", bench, product)
    assert not results.sound
    assert f"INVALID {wrong}" in said
    assert len(rows_of(tmp_path / "run", "reads")) == 9
    invalid = rows_of(tmp_path / "run", "invalid")
    assert [row[:2] for row in invalid] == [[name, "clients=8 ahead=0"] for name in (SMALL, LARGE, ROCKS)]
    assert all(row[2].startswith(wrong) for row in invalid)
    # With retry, the same command measures them again, and the new points count.
    bench = reading()
    assert not run(READS, tmp_path / "run", bench, product)[0].sound
    assert not bench.asked
    results, _ = run(READS, tmp_path / "run", bench, product, retry=True)
    assert results.sound
    assert len(bench.asked) == 3
    assert len(list((tmp_path / "run/points").glob("*.json"))) == 12 + 3


def test_two_memories_and_handler_have_curves_of_their_own_and_the_best_is_shown(
    tmp_path: Path, product: FakeProduct
) -> None:
    def on(_: FakeInstance, case: Case) -> Mapping[str, Any]:
        assert isinstance(case, ReadCase)
        # HANDLER is faster, less memory is slower, and read-ahead of 128 KiB halves the rate.
        times = (
            (2 if case.statement == "handler" else 1) / (1 + (case.memory_mib == 64)) / (1 + case.read_ahead_kib / 128)
        )
        return {"qps": 1000.0 * case.clients * times}

    more = 'memory_mib = [128, 64]\nstatements = ["select", "handler"]\nrows'
    results, _ = run(READS.replace("rows", more, 1), tmp_path / "run", reading(on), product)
    assert results.sound
    charts = {chart.name: chart for chart in tables.sections(results)[0].charts}
    best = {series.name: series.line for series in charts["best"].series}
    assert best["mariadb 11.8"] == [(8, 8000.0), (32, 32000.0)]
    assert best["mariadb 11.8, HANDLER"] == [(8, 16000.0), (32, 64000.0)]
    assert best["mariadb 11.8, 64 MiB of memory, HANDLER"] == [(8, 8000.0), (32, 32000.0)]
    assert set(best) == {name for name in best if name.startswith("mariadb 11.8")} | {
        "rocksdb", "rocksdb, 64 MiB of memory",
    }  # fmt: skip
    (title,) = {charts[name].title for name in charts if name == "reads-ahead=0 memory=64 handler"}
    assert title == "Reads a second, ahead 0 KiB, 64 MiB of memory, HANDLER"
    assert len(charts["storage-requests"].series) == 2 * 4 + 2


@pytest.mark.parametrize("name", ["postgres", "mariadb", "store"])
def test_a_cache_is_as_large_as_the_memory_lets_it_be(name: str, tmp_path: Path) -> None:
    class Server:
        settings: dict[str, str] = {}  # noqa: RUF012

        def configure(self, settings: Mapping[str, str]) -> None:
            self.settings = dict(settings)

    class InnoDb(Server, innodb.Instance):
        def __init__(self) -> None: ...

    store = Embedded("lmdb", tmp_path, {"cache_mib": 24})
    server: Any = {"postgres": Server(), "mariadb": InnoDb(), "store": store}[name]
    with_cache(server, 12)
    assert {"postgres": {"shared_buffers": "12MB"}, "mariadb": {"innodb_buffer_pool_size": "12M"}}.get(name) == (
        None if name == "store" else server.settings
    )
    assert name != "store" or server.options == {"cache_mib": 12}


def test_a_server_that_does_not_start_with_a_small_cache_stays_for_the_other_sizes() -> None:
    class InnoDb(innodb.Instance):
        settings: dict[str, str] = {}  # noqa: RUF012
        starts: list[str] = []  # noqa: RUF012

        def __init__(self) -> None: ...

        def configure(self, settings: Mapping[str, str]) -> None:
            self.settings = dict(settings)

        def start(self) -> None:
            self.starts.append(self.settings["innodb_buffer_pool_size"])
            if self.starts[-1] == "12M":
                raise DevServerError("the server did not start; its log ends with: 65536 requires 20 MiB")

    server = InnoDb()
    with_cache(server, 12)
    with pytest.raises(DevServerError, match="65536 requires 20 MiB"):
        start(server, 24)
    assert server.starts == ["12M", "24M"]
    start(server, 24)
    assert server.starts == ["12M", "24M", "24M"]


def test_a_store_that_ends_loses_one_point_and_a_server_what_was_left(tmp_path: Path, product: FakeProduct) -> None:
    def on(instance: FakeInstance, case: Case) -> None:
        if case.name == "clients=32 ahead=0":
            # A store runs only during a request.
            instance.running = instance.name == ""
            raise MeasureError("mariadb: it was killed by SIGKILL and said nothing")

    results, said = run(READS, tmp_path / "run", reading(on), product)
    assert left(results, ROCKS) == ["clients=32 ahead=0"]
    assert left(results, SMALL) == left(results, LARGE) == list(results.groups)[1:]
    assert said.count("the server died: mariadb: it was killed by SIGKILL") == 2
    assert len(results.coverage.failed) == 3
    assert len(results.coverage.missing) == 4
    kept = {one.file: one.raw for one in results.measured}
    # The same command measures the missing points, and with retry the failed ones.
    bench = reading()
    results, _ = run(READS, tmp_path / "run", bench, product)
    assert len(bench.asked) == 4
    assert not results.coverage.missing
    results, _ = run(READS, tmp_path / "run", bench, product, retry=True)
    assert len(bench.asked) == 7
    assert results.sound
    assert {one.file: one.raw for one in results.measured}.items() >= kept.items()


def test_a_server_that_dies_while_it_is_loaded_is_loaded_again_by_the_same_command(
    tmp_path: Path, product: FakeProduct
) -> None:
    def on_load(instance: FakeInstance) -> None:
        if len(product.made) == 2:
            instance.running = False
            raise MeasureError("mariadb 11.8.6: (2013, 'Lost connection to server during query')")

    results, said = run(READS, tmp_path / "run", reading(on_load=on_load), product)
    assert left(results, LARGE) == list(results.groups)
    assert left(results, SMALL) == left(results, ROCKS) == []
    assert "the server died: mariadb 11.8.6: (2013, 'Lost connection" in said
    versions = {row[0]: row[1] for row in rows_of(tmp_path / "run", "servers")}
    assert "Lost connection" in versions[LARGE]
    assert all(one.removed for one in product.made)
    bench = reading()
    results, _ = run(READS, tmp_path / "run", bench, product)
    assert len(bench.asked) == len(results.groups)
    assert results.sound


def test_after_ctrl_c_the_same_command_measures_what_is_left(tmp_path: Path, product: FakeProduct) -> None:
    def interrupt(instance: FakeInstance, case: Case) -> None:
        if case.name == "clients=8 ahead=128" and instance.name == "":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(READS, tmp_path / "run", reading(interrupt), product)
    assert all(one.removed for one in product.made)
    kept = {record.file: record.raw for record in RunFolder(tmp_path / "run").all("points")}
    # Two tests of three servers, and the tests of the third one before the interrupt.
    assert len(kept) == 2 * 3 + 2
    bench = reading()
    results, _ = run(READS, tmp_path / "run", bench, product)
    assert len(bench.asked) == 12 - len(kept)
    assert results.sound
    assert {one.file: one.raw for one in results.measured}.items() >= kept.items()


@pytest.mark.parametrize(("text", "gigabytes"), [(READS, "8.5"), (LOGS, "4.6")], ids=["reads", "logs"])
def test_a_disk_that_is_too_small_is_said_with_what_is_needed(
    tmp_path: Path, product: FakeProduct, monkeypatch: pytest.MonkeyPatch, text: str, gigabytes: str
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10**10, 0, 10**9))
    with pytest.raises(RunError, match=rf"need {gigabytes} GB in .*, where 1\.0 are free: make room"):
        run(text, tmp_path / "run", reading(), product)
    assert not product.made


def test_a_version_that_is_nowhere_is_said_and_others_are_measured(tmp_path: Path, product: FakeProduct) -> None:
    results, said = run(LOGS.replace('"17"', '"lost"'), tmp_path / "run", FakeBench(written), product)
    assert "there is no postgres lost available here: there are old, new" in said
    assert len(results.coverage.failed) == 4
    assert len(results.measured) == 8
    assert not results.coverage.missing


def test_a_ledger_says_what_is_unexplained_and_where_nothing_is_known(tmp_path: Path, product: FakeProduct) -> None:
    results, _ = run(LOGS, tmp_path / "run", FakeBench(written), product)
    assert results.sound
    ledger = {tuple(row[:3]): row[3:] for row in rows_of(tmp_path / "run", "ledger")}
    test, mysql = "bytes=100 clients=1", "mysql 9 sync=buffered sector_bytes=512 binlog=True"
    # Bytes: row, log, written, their source, disk, in files, of the file system; and the
    # unexplained share.
    postgres = "postgres 18 sync=fdatasync sector_bytes=512"
    assert ledger[postgres, test, "wal"] == ["100", "300", "307", "server", "357", "307", "50", "+0.0%"]
    assert ledger[mysql, test, "binlog"][2:] == ["-", "-", "357", "307", "50", "-"]
    assert ledger["postgres 17 sync=fdatasync sector_bytes=512", test, "wal"][-1] == "no disk of its own"
    first = rows_of(tmp_path / "run", "amplification")[0]
    # Log bytes per commit and sync, page, least, expected, measured, with the file system.
    assert first[4:] == ["300", "600", "8192", "13.65", "14.65", "1.02", "1.19"]
    assert len(rows_of(tmp_path / "run", "kernel")) == len(results.measured) == 12
