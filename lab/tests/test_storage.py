"""The work of a disk and the memory limit, from files of the kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pagehop_lab.engines.engine import EngineError
from pagehop_lab.measure import tracing
from pagehop_lab.measure.limit import MemoryLimit
from pagehop_lab.measure.storage import Phases
from pagehop_lab.measure.tracing import requests

TRACE = """\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
        postgres-612     [001] ..... 10.000001: block_rq_issue: 254,0 R 8192 () 1000 + 16 none,0,0 [postgres]
        postgres-612     [001] ..... 10.000002: block_rq_issue: 254,0 RA 131072 () 1016 + 256 none,0,0 [postgres]
        postgres-613     [000] ..... 10.000003: block_rq_issue: 254,0 R 8192 () 5000 + 16 none,0,0 [postgres]
        postgres-612     [001] ..... 10.000004: block_rq_issue: 254,0 R 8192 () 1272 + 16 none,0,0 [postgres]
     jbd2/vda-8-99       [000] ..... 10.000005: block_rq_issue: 254,0 FF 0 () 0 + 0 none,0,0 [jbd2/vda-8]
     kworker/0:1-7       [000] ..... 10.000006: block_rq_issue: 254,0 WS 12288 () 16 + 24 none,0,0 [kworker/0:1]
     kworker/0:1-7       [000] ..... 10.000007: block_rq_issue: 254,0 DS 4096 () 16 + 8 none,0,0 [kworker/0:1]
"""


def test_requests_are_told_by_size_and_place() -> None:
    told = requests(TRACE.splitlines())
    assert told["reads"] == {"sizes": {"8192": 3, "131072": 1}, "random_share": 0.5}
    assert told["writes"] == {"sizes": {"8192": 1}, "random_share": 1.0}
    assert requests([])["reads"] == {"sizes": {}, "random_share": None}


def test_a_read_that_the_disk_got_is_in_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1 << 20))
    with path.open("rb", buffering=0) as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        phases = Phases(tmp_path, list, traced=True)
        phases.begin("reading")
        for page in range(0, 256, 32):
            os.pread(file.fileno(), 4096, page * 4096)
        phases.begin(None)
    (told,) = phases.told
    disk = told["disk"]
    if disk is None or "untraced" in disk or not disk["reads"]:
        pytest.skip("this disk is not traced or not read here")
    assert disk["requests"]["reads"]["sizes"].get("4096", 0) >= 8
    assert disk["requests"]["lost"] == 0
    assert not list(Path("/sys/kernel/tracing/instances").glob(f"pagehop-lab-{os.getpid()}"))


def test_who_may_not_look_at_traces_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(tracing.TRACEFS))

    monkeypatch.setattr(Path, "glob", refused)
    assert tracing.processes() == []


def test_a_limit_is_written_where_this_kernel_has_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("4:cpu,memory:/mine\n0::/\n")
    (tmp_path / "memory/mine").mkdir(parents=True)
    limit = MemoryLimit(64, tmp_path, own)
    group = tmp_path / f"memory/mine/pagehop-lab-{os.getpid()}"
    assert (group / "memory.limit_in_bytes").read_text() == str(64 << 20)
    limit.enter([123])
    assert (group / "cgroup.procs").read_text() == "123"
    assert limit.killed() == 0
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert limit.killed() == 2
    (group / "memory.stat").write_text("rss 1\ntotal_cache 5\ntotal_rss 3\n")
    assert limit.anonymous_bytes() == 3
    limit.close()
    assert (tmp_path / "memory/mine/cgroup.procs").read_text() == "123", "the process is moved back to its group"

    own.write_text("0::/user.slice\n")
    for name in ("cgroup.controllers", "cgroup.subtree_control"):
        (tmp_path / name).write_text("cpu memory\n")
    limit = MemoryLimit(64, tmp_path, own)
    group = tmp_path / f"pagehop-lab-{os.getpid()}"
    (group / "memory.events").write_text("low 0\noom 3\noom_kill 1\noom_group_kill 0\n")
    (group / "memory.stat").write_text("anon 4\nfile 5\n")
    assert (limit.killed(), limit.anonymous_bytes()) == (1, 4)
    assert limit.told() == {"mib": 64, "peak_bytes": None}, "this kernel does not keep the most"
    assert (group / "memory.max").read_text() == str(64 << 20)
    assert (group / "memory.swap.max").read_text() == "0"


def test_where_memory_cannot_be_limited_the_reason_is_told(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/\n")
    with pytest.raises(EngineError, match=r"cannot be limited here \(No such file"):
        MemoryLimit(64, tmp_path, own)
    (tmp_path / "cgroup.controllers").write_text("cpu io\n")
    with pytest.raises(EngineError, match="no memory controller"):
        MemoryLimit(64, tmp_path, own)
