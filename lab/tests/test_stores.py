"""Reads of real stores and commits to real servers, each on a separate file system if possible."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devserver import DevServerError, mariadb, postgres, sysbench
from devserver.processes import ended
from devserver.volume import Volume, forget
from pagehop_lab.engines.engine import EngineError
from pagehop_lab.measure.limit import MemoryLimit
from pagehop_lab.measure.oltp import MeasureError
from pagehop_lab.measure.storage import Counters
from pagehop_lab.measure.usage import family
from pagehop_lab.run import environments
from pagehop_lab.suites.catalog import OF_SERVERS
from pagehop_lab.suites.log_writes.cases import account
from pagehop_lab.suites.point_reads import embedded
from pagehop_lab.suites.point_reads.measure import Asked, measure
from pagehop_lab.suites.point_reads.plan import EMBEDDED, usual_options
from pagehop_lab.suites.point_reads.rows import client_us, load_embedded
from pagehop_lab.suites.point_reads.run import within
from runs import read_servers

ROWS = 2000


def volume(size: int, sector: int) -> Volume:
    try:
        return Volume(size, sector)
    except DevServerError as error:
        pytest.skip(str(error))


def test_a_limit_of_memory_that_does_not_suffice_is_why_a_measurement_failed(tmp_path: Path) -> None:
    """A store that needs 200 MiB with a limit of 32 MiB."""
    try:
        limit = MemoryLimit(32)
    except EngineError as error:
        pytest.skip(str(error))
    greedy = [sys.executable, "-c", "import time; time.sleep(0.5); kept = bytearray(b'x') * (200 << 20)"]
    wanted = Asked(greedy, "greedy", {}, tmp_path, 0.2, 0.6, family, dict, 0.5, lambda pid: limit.enter([pid]))
    try:
        with pytest.raises(MeasureError, match=r"32 MiB of memory did not suffice: the kernel killed 1 .*SIGKILL"):
            within(limit, wanted)
    finally:
        limit.close()


@pytest.mark.parametrize("sector", [512, 4096])
def test_a_file_system_of_its_own_counts_nothing_else(sector: int) -> None:
    made = volume(64 << 20, sector)
    try:
        made.read_ahead(16)
        assert (Path("/sys/block") / made.device.name / "queue/logical_block_size").read_text().strip() == str(sector)
        file = made.path / "file"
        file.write_bytes(b"x" * (1 << 20))
        forget(made.path)
        before = Counters.of(made.path)
        assert len(file.read_bytes()) == 1 << 20
        after = Counters.of(made.path)
        assert before is not None
        assert after is not None
        assert (after.read_sectors - before.read_sectors) * 512 >= 1 << 20
    finally:
        made.remove()
    assert not made.path.exists()
    assert str(made.path) not in Path("/proc/mounts").read_text()


def command(what: str, folder: Path, *more: int, store: str = "sqlite") -> list[str]:
    program = sys.executable if store == "sqlite" else str(environments.place("stores") / "bin/python")
    if not Path(program).exists():
        pytest.skip(f"{store} is not installed here: a plan that names it installs it")
    options = json.dumps({**usual_options(store), "cache_mib": 24})
    return [program, embedded.__file__, what, store, str(folder), options, *map(str, more)]


def asked(folder: Path, rows: int = ROWS, store: str = "sqlite") -> Asked:
    """Two clients for a short time, whose figures are not a measurement."""
    reads = command("read", folder, rows, 2, 1, store=store)
    return Asked(reads, store, {}, folder, 0.2, 0.6, family, dict, 0.5)


@pytest.mark.parametrize("store", EMBEDDED)
def test_a_store_is_filled_and_read(tmp_path: Path, store: str) -> None:
    assert load_embedded(command("load", tmp_path, ROWS, 128, store=store), 60) > 0
    raw = measure(asked(tmp_path, store=store))
    assert raw["qps"] > 10
    assert raw["count"] > 3
    # A settled rate needs ten windows of half a second.
    assert raw["settled"] is False
    assert raw["settle_s"] >= 0.6
    assert (raw["server_cpu_us_per_query"] or 0) > 0
    assert 0 < client_us(command("ceiling", tmp_path, ROWS, 1, 1, store=store)) < 1000
    # This store gets a request for a row that does not exist.
    with pytest.raises(MeasureError, match=rf"{store}: row \d+ is not there"):
        measure(asked(tmp_path, 10**9, store))


# Clients that are processes, of a store that has every row.
FORKED = "import embedded; embedded.read(lambda: lambda key: key, 1000, 3, 1, False)"


@pytest.mark.parametrize("ending", ["a client is killed", "no process listens any more"])
def test_clients_that_are_processes_end_together(ending: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FORKED], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        cwd=Path(embedded.__file__).parent, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"tell")
        clients = [one for one in family(process.pid) if one != process.pid]
        assert len(clients) == 3
        if ending == "a client is killed":
            os.kill(clients[0], signal.SIGKILL)
            assert b"a client ended: it was killed, or its memory did not suffice" in process.communicate(timeout=60)[1]
        else:
            process.stdout.close()
            process.wait(60)
        late = time.monotonic() + 60
        while not all(map(ended, clients)):
            assert time.monotonic() < late, "some processes still run"
            time.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_what_is_there_already_is_not_loaded_over(tmp_path: Path) -> None:
    load_embedded(command("load", tmp_path, ROWS, 128), 60)
    with pytest.raises(MeasureError, match=r"could not be loaded.*already exists"):
        load_embedded(command("load", tmp_path, ROWS, 128), 60)


def test_a_store_that_is_killed_is_said_at_once(tmp_path: Path) -> None:
    load_embedded(command("load", tmp_path, ROWS, 128), 60)
    begun = time.monotonic()
    killed = replace(asked(tmp_path), started=lambda pid: os.kill(pid, signal.SIGKILL))
    with pytest.raises(MeasureError, match="sqlite: it was killed by SIGKILL and said nothing"):
        measure(killed)
    assert time.monotonic() - begun < 30


PLAN = """suite = "log-writes"
[load]
commit_bytes = 300
sessions = 2
seconds = 0.5
[configuration]
durability = "commit"
cache_mib = 32
[[server]]
product = "postgres"
version = "18"
options = { sector_bytes = 512 }
[[server]]
product = "mariadb"
version = "11.8"
options = { sector_bytes = 4096, sync = "direct", binlog = true }
"""


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.long)], ids=["postgres", "mariadb"])
def test_what_a_log_costs_adds_up(number: int) -> None:
    pytest.importorskip("psycopg")
    pytest.importorskip("pymysql")
    volume(64 << 20, 512).remove()
    plan = read_servers(PLAN, "test")
    server, (case,) = plan.servers[number], plan.cases
    try:
        sysbench.install()
        _ = postgres.install("18") if number == 0 else mariadb.of_version("11.8")
    except DevServerError as error:
        pytest.skip(str(error))
    suite = OF_SERVERS[plan.suite]
    bench, instance = suite.bench(plan), suite.servers(plan)[server.product].new(server, plan.configuration)
    try:
        instance.start()
        bench.load(instance)
        raw: Any = bench.measure(instance, case, 0.0)
    finally:
        instance.remove()
    assert raw["qps"] > 1
    assert raw["payload_bytes"] == raw["count"] * 300
    assert [log["name"] for log in raw["logs"]] == (["wal"] if number == 0 else ["redo", "binlog"])
    for log in raw["logs"]:
        assert log["logical_bytes"] > raw["payload_bytes"]
        assert log["device"]["bytes"] > log["logical_bytes"]
        if log["requests"] is not None:
            found = account(log)
            assert found is not None
            assert found.unexplained is not None
            # A few dozen commits on a busy machine may differ from the formula, which is for many.
            assert abs(found.unexplained) < (0.001 if number == 0 else 0.1)
