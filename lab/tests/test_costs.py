"""The cost of processes, those that end during the measurement included."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from devserver.processes import children
from pagehop_lab.measure import processes
from pagehop_lab.measure.processes import ServerLook, other_cores
from pagehop_lab.suites.results import Build

# A parent that has a child work for some time, waits for it, and stays. Both work before they
# report.
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
        # The shell takes what it cost over when it has ended.
        while children(parent.pid):
            assert time.monotonic() < late, "the child does not end"
            time.sleep(0.02)
        cost = ServerLook(parent.pid) - before
        parent.communicate("\n")
        # What it cost before is not taken off what it cost since.
        assert cost.cpu_s > 0.35
        assert cost.switches >= 0


def test_the_cpu_of_a_servers_build_is_that_of_its_index() -> None:
    phases = [{"phase": "start", "cpu_s": 1.0}, {"phase": "load", "cpu_s": 2.0}, {"phase": "index", "cpu_s": 28.5}]
    server = Build("set", "pgvector", (), 0, "file", {"build_s": 18.2, "phases": phases})
    library = Build("set", "faiss-hnsw", (), 0, "file", {"build_s": 3.0, "build_cpu_s": 5.9, "phases": phases})
    elsewhere = Build("set", "pgvector", (), 0, "file", {"build_s": 1.0, "phases": [{"phase": "index", "cpu_s": 0.0}]})
    assert (server.cpu_s, library.cpu_s, elsewhere.cpu_s) == (28.5, 5.9, None)


def test_other_work_beside_a_disk_is_what_neither_server_nor_client_nor_the_kernel_did() -> None:
    assert other_cores(busy_s=3.0, own_s=1.0, kernel_s=0.5, elapsed_s=2.0) == 0.75
    assert other_cores(busy_s=1.0, own_s=1.0, kernel_s=0.5, elapsed_s=2.0) == 0.0
    assert other_cores(busy_s=3.0, own_s=1.0, kernel_s=None, elapsed_s=2.0) is None


def test_a_container_does_not_take_its_second_process_for_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_THEIR_NAME", "no process is called so")
    assert processes.kernel_threads_s() is None
