"""The cost of processes, including those that end during the measurement."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from devserver.processes import children
from pagehop_lab.analysis.records import Phase
from pagehop_lab.measure import processes
from pagehop_lab.measure.processes import ServerLook, other_cores
from pagehop_lab.suites.log_writes import measure as log_writes
from pagehop_lab.suites.results import Build

# A parent whose child works for some time. The parent waits for the child and continues to run.
PARENT = """
import subprocess, sys
child = "import time\\nwhile time.process_time() < 0.4: pass"
print(flush=True)
sys.stdin.readline()
subprocess.run([sys.executable, "-c", child])
print(flush=True)
sys.stdin.readline()
"""


def test_a_child_that_came_and_went_has_cost_what_it_did() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdout.readline()
        before = ServerLook(parent.pid)
        parent.stdin.write("\n")
        parent.stdin.flush()
        parent.stdout.readline()
        assert 0.35 < (ServerLook(parent.pid) - before).cpu_s < 1


# A child that works, reports, waits for a line, and works again.
CHILD = """
import sys, time
while time.process_time() < 0.2: pass
print(flush=True)
sys.stdin.readline()
while time.process_time() < 0.6: pass
"""


def test_a_child_that_ends_is_not_taken_off() -> None:
    with subprocess.Popen(
        ["sh", "-c", '"$0" -c "$1"; read line', sys.executable, CHILD],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as parent:  # fmt: skip
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdout.readline()
        before = ServerLook(parent.pid)
        parent.stdin.write("\n")
        parent.stdin.flush()
        late = time.monotonic() + 300
        # The shell adds the child's cost to its own when the child has ended.
        while children(parent.pid):
            assert time.monotonic() < late, "the child does not end"
            time.sleep(0.02)
        cost = ServerLook(parent.pid) - before
        parent.communicate("\n")
        # The child's cost before the first look is not subtracted from its cost after it.
        assert cost.cpu_s > 0.35
        assert cost.switches >= 0


# A server: for each line, a child uses the CPU for that number of seconds, and ends.
SERVER = """
import subprocess, sys
for line in sys.stdin:
    child = f"import time\\nwhile time.process_time() < {float(line)}: pass"
    subprocess.run([sys.executable, "-c", child])
    print(flush=True)
"""
# A client with a thousand commits.
COMMITS = "print('tell 0 1.0 0 0', 'tell 0 1.5 1000 1000', sep=chr(10))"


def test_what_is_written_back_after_the_commits_is_none_of_their_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy_s, kernel_s = [0.0], [1.0]
    monkeypatch.setattr(log_writes, "machine_busy_s", lambda: busy_s[0])
    monkeypatch.setattr(log_writes, "kernel_threads_s", lambda: {7: kernel_s[0]})
    counted = {"log": 0.0}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:

        def work(cpu_s: float) -> None:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(f"{cpu_s}\n")
            server.stdin.flush()
            server.stdout.readline()

        run = log_writes._run

        def commit(asked: log_writes.Asked) -> tuple[int, float, float]:
            # The server's process of the connection ends with the connection, as in PostgreSQL.
            work(0.3)
            found = run(asked)
            busy_s[0] += 0.3 + found[2]
            return found

        def write_back() -> None:
            work(0.6)
            busy_s[0] += 0.6 + 5.0
            kernel_s[0] += 3.0
            counted["log"] += 1000.0

        monkeypatch.setattr(log_writes, "_run", commit)
        place = log_writes.LogPlace("wal", tmp_path, 512, 8192, False, "log", None, None, None)
        raw: Any = log_writes.measure(
            log_writes.Asked(
                [sys.executable, "-c", COMMITS], {}, server.pid, [place], lambda: dict(counted), None, 1, 100, 1.0,
                write_back,
            )
        )  # fmt: skip
        server.communicate()
    assert raw["count"] == 1000
    assert 0.28 < raw["server_cpu_us_per_query"] * 1000 / 1e6 < 0.5
    assert raw["busy_cores"] * raw["elapsed_s"] == pytest.approx(0.3 + raw["client_cpu_us_per_query"] / 1000, abs=0.01)
    assert raw["other_busy_cores"] < 0.1
    assert raw["logs"][0]["logical_bytes"] == 1000, "the ledger includes the bytes that are written back"


def test_the_cpu_of_a_servers_build_is_that_of_its_index() -> None:
    def phase(name: str, cpu_s: float) -> Phase:
        return {"phase": name, "seconds": 1.0, "cpu_s": cpu_s, "disk": None}

    phases = [phase("start", 1.0), phase("load", 2.0), phase("index", 28.5)]
    server = Build("set", "pgvector", (), 0, "file", {"build_s": 18.2, "phases": phases})
    library = Build("set", "faiss-hnsw", (), 0, "file", {"build_s": 3.0, "build_cpu_s": 5.9, "phases": phases})
    elsewhere = Build("set", "pgvector", (), 0, "file", {"build_s": 1.0, "phases": [phase("index", 0.0)]})
    assert (server.cpu_s, library.cpu_s, elsewhere.cpu_s) == (28.5, 5.9, None)


def test_other_work_beside_a_disk_is_what_neither_server_nor_client_nor_the_kernel_did() -> None:
    assert other_cores(busy_s=3.0, own_s=1.0, kernel_s=0.5, elapsed_s=2.0) == 0.75
    assert other_cores(busy_s=1.0, own_s=1.0, kernel_s=0.5, elapsed_s=2.0) == 0.0
    assert other_cores(busy_s=3.0, own_s=1.0, kernel_s=None, elapsed_s=2.0) is None


def test_a_thread_of_the_kernel_that_ended_is_not_taken_off() -> None:
    before, after = {2: 1.0, 30: 50.0, 31: 4.0}, {2: 1.5, 31: 4.25, 32: 0.5}
    assert processes.kernel_s(before, after) == 1.25
    # A new thread may get the number of one that ended.
    assert processes.kernel_s({2: 1.0, 30: 50.0}, {2: 1.0, 30: 0.1}) == 0.0
    assert processes.kernel_s(None, after) is processes.kernel_s(before, None) is None


def test_a_container_does_not_take_its_second_process_for_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_THEIR_NAME", "no process is called so")
    assert processes.kernel_threads_s() is None
