"""A run of every suite with fake engines and servers, whose reports have all charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fake_servers import FakeBench, FakeInstance, FakeProduct
from fake_servers import plan_of as oltp_plan
from fake_servers import run as run_servers
from pagehop_lab import report
from pagehop_lab.analysis.case import Case
from pagehop_lab.suites.log_writes.cases import LogCase
from pagehop_lab.suites.point_reads.cases import ReadCase
from pagehop_lab.suites.table import Section
from runs import QUICK, fake_engines, plan_of, run

PAGE = 4096
MS = {"p50": 1.0, "p95": 2.0, "p99": 3.0, "max": 4.0}
READS = """suite = "point-reads"
[load]
rows = 2_200_000
row_bytes = 512
sessions = [8, 32]
read_ahead_kib = [0, 128]
[[server]]
product = "mariadb"
version = ["11.8"]
options = { page_bytes = [4096, 16384], access = "direct" }
[[server]]
product = "rocksdb"
options = { compression = "zstd" }
"""
LOGS = """suite = "log-writes"
[load]
commit_bytes = [100, 4000]
[configuration]
durability = "commit"
[[server]]
product = "postgres"
version = ["18", "17"]
[[server]]
product = "mysql"
version = "9"
options = { binlog = true }
"""
READ_LOADED = {"file_system": "an ext4 of its own", "client_us": None}


def read(case: Case, **more: Any) -> Mapping[str, Any]:
    """Figures with one read of a page for each query, by several clients."""
    assert isinstance(case, ReadCase)
    disk = {
        "reads": 900, "bytes": 900 * PAGE, "reads_per_query": 0.9, "bytes_per_read": float(PAGE), "ms_per_read": 0.1,
        "busy_share": 0.9, "in_flight": 4.0,
    }  # fmt: skip
    return {
        "settled": True, "settle_s": 6.0, "clients": case.clients, "read_ahead_kib": case.read_ahead_kib,
        "times_memory": 8.5, "memory": {"mib": 128, "peak_bytes": 96 << 20}, "disk": disk, "busy_cores": 1.5,
        "own_counters": {"pages": 0.9}, "bytes_read_per_query": 0.9 * PAGE, "storage_reads_per_query": None,
        "other_busy_cores": None,
    } | more  # fmt: skip


def written(instance: FakeInstance, case: Case) -> Mapping[str, Any]:
    """Figures of 1,000 commits. 18 reports the writes of its log, 9 does not for its binary log,
    and 17 shares a disk.
    """
    assert isinstance(case, LogCase)
    grown = 1000 * (case.commit_bytes + 200)
    log = {
        "name": "wal", "sector_bytes": 512, "page_bytes": 8192, "logical_bytes": grown, "counted_bytes": grown + 7000,
        "writes": 1000, "syncs": 500, "device": {"bytes": grown + 57000, "writes": 1010},
        "requests": {"log_bytes": grown + 7000, "file_system_bytes": 50000, "lost": 0},
    }  # fmt: skip
    untold = log | {"name": "binlog", "counted_bytes": None, "writes": None, "syncs": None}
    logs = {"17": [log | {"device": None, "requests": None}], "18": [log], "9": [log, untold]}[instance.name]
    return {
        "clients": case.clients, "commit_bytes": case.commit_bytes, "payload_bytes": 1000 * case.commit_bytes,
        "logs": logs, "kernel": {"write_syscall_bytes": 1, "write_bytes": 2, "data_bytes": None},
        "storage_reads_per_query": None, "other_busy_cores": None,
    }  # fmt: skip


def documents(_: FakeInstance, case: Case) -> Mapping[str, Any]:
    """Figures with a hundredth of a microsecond for each attribute."""
    return {
        "server_cpu_us_per_query": 10.0 + case.range / 100, "bytes_per_row": 9.0, "per_second": {},
        "rows_short_count": 0, "index_used": True,
    }  # fmt: skip


def steps(_: FakeInstance, case: Case) -> Mapping[str, Any]:
    """Figures in which the latency of queries grows with the writes beside them."""
    moved: dict[str, Any] = {
        "rows_per_s": 1000.0, "deleted_per_s": 1000.0, "per_second": {"rows": [100, 90]}, "commit_ms": MS,
    }  # fmt: skip
    if case.group == "queries":
        slower = 1 + case.range / 1000
        latency = {name: figure * slower for name, figure in MS.items()}
        moved |= {"write_target": case.range, "rows_per_s": float(case.range), "latency_ms": latency}
        moved |= {"rows_per_answer": 10.0, "recall": 0.95, "index_bytes": 1 << 20}
    return moved


def many_writers(_: FakeInstance, case: Case) -> Mapping[str, Any]:
    """Figures with 1,000 rows per second by one writer, and 1,800 by several."""
    return {
        "rows_per_s": {"write-many": 1800.0}.get(case.name, 1000.0), "log_bytes": 5000.0, "recall_gain": -0.001,
        "cpu_us": 10.0, "writers": case.range, "recall_after": [0.9] * 3, "recall_built": [0.9] * 3, "index_s": 1.0,
        "rows_before_per_s": 1.0, "rows_beside_per_s": 1.0, "rows_after_per_s": 1.0, "vacuum_share": 1.0,
        "vacuum_s": 1.0, "idle_ms": MS, "latency_ms": MS, "sent_ms": MS, "p50_over_idle": 1.0,
        "p99_over_idle": 1.0, "rows_full_per_s": 1.0, "commit_ms": MS, "log_rows": 10,
    }  # fmt: skip


INDEX = {"rows": 1000, "rows_different": 9000, "index_s": 1.0, "index_bytes": 100}
_STEPS = {"load_rows_per_s": 9000.0, "load_client_share": 0.1, "index_s": 1.0, "index_bytes": 1 << 20}


def _versions(suite: str, product: str, *versions: str, more: str = "") -> str:
    listed = ", ".join(f'"{version}"' for version in versions)
    return f'suite = "{suite}"\n{more}[[server]]\nproduct = "{product}"\nversion = [{listed}]\n'


_ENGINES: Mapping[str, str] = {
    "equal-recall": plan_of("honest", "slow", more="targets = [0.99, 0.05]"),
    "concurrency": plan_of(
        "honest", "slow", load=QUICK + "repeats = 1\nsessions = [1, 2, 3]\n", more='suite = "concurrency"'
    ),
    "cold": plan_of(
        "cold", load=QUICK + 'repeats = 1\ncold_queries = 20\ncaches = ["hot", "cold"]\n',
        more='suite = "cold"',
    ),
    "phases": plan_of("slow", load=QUICK + "repeats = 1\nsessions = [1, 3]\n", more='suite = "phases"'),
    "calibration": plan_of("honest", more='suite = "calibration"'),
}  # fmt: skip
_SERVERS: Mapping[str, tuple[str, Callable[[FakeInstance, Case], Mapping[str, Any] | None], Mapping[str, Any]]] = {
    "oltp": (oltp_plan("old", "new", repeats=3), lambda *_: None, {}),
    "inserts": (_versions("inserts", "postgres", "old", "new"), steps, _STEPS),
    "vector-inserts": (
        'suite = "vector-inserts"\n[load]\ndataset = "generated-16"\n[[server]]\nproduct = "pgvector"\n', steps, _STEPS,
    ),
    "vector-writers": (
        'suite = "vector-writers"\n[load]\ndataset = "generated-16"\n[[server]]\nproduct = "pgvector-halfvec"\n',
        many_writers, INDEX,
    ),
    "attributes": (_versions("attributes", "postgres", "old"), documents, {}),
    "point-reads": (READS, lambda _, case: read(case), READ_LOADED),
    "log-writes": (LOGS, written, {}),
}  # fmt: skip


def sections(folder: Path) -> dict[str, list[Section]]:
    """The sections of the reports of all suites. Each suite runs in a folder of its own."""
    with fake_engines(folder / "data"):
        for suite, plan in _ENGINES.items():
            run(plan, folder / suite)
        for suite, (plan, on, loaded) in _SERVERS.items():
            run_servers(plan, folder / suite, FakeBench(on, loaded), FakeProduct())
        return {suite: list(report.read(folder / suite).sections) for suite in (*_ENGINES, *_SERVERS)}
