"""Commits of one size, and a ledger of the writes of each log: by server, kernel, disk and request.

Counting begins before the clients connect and ends after they are gone, because servers report some
counters only at the end of a connection. Each log has a file system of its own, so its disk sees
nothing else. CPU is counted only until the clients have ended: the write-back of their pages is not
part of their time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pagehop_lab.machine import counters
from pagehop_lab.measure.oltp import MeasureError, reason
from pagehop_lab.measure.processes import (
    ServerLook,
    client_share,
    kernel_s,
    kernel_threads_s,
    machine_busy_s,
    other_cores,
)
from pagehop_lab.measure.storage import Counters
from pagehop_lab.measure.tracing import ISSUED, Trace
from pagehop_lab.measure.usage import family
from pagehop_lab.suites.log_writes.log_counters import written_back
from pagehop_lab.suites.log_writes.records import CommitsRecord, LogDevice, LogRecord, LogRequests

SCRIPT = Path(__file__).with_name("commits.lua")
_SECTOR_BYTES = 512
_GRACE_S = 60.0
# FS_IOC_FIEMAP of linux/fiemap.h: the places of a file's bytes on its disk.
_FIEMAP, _SYNC, _HEAD, _EXTENT = 0xC020660B, 1, struct.Struct("=QQLLLL"), struct.Struct("=QQQQQLLLL")
_EXTENTS_MAX = 512


@dataclass(frozen=True)
class LogPlace:
    """The place of a log, and the names of the server's counters of it; None if it has none."""

    name: str
    folder: Path
    sector_bytes: int
    page_bytes: int
    """The smallest write: the server or the kernel rounds to it."""
    own_disk: bool
    logical: str
    """By how many bytes it grew."""
    written: str | None
    """Bytes that were written, rounded."""
    writes: str | None
    syncs: str | None


@dataclass(frozen=True)
class Asked:
    """The clients, and what they commit."""

    command: Sequence[str]
    env: Mapping[str, str]
    pid: int
    logs: Sequence[LogPlace]
    counters: Callable[[], Mapping[str, float]]
    """The server's counters, by name; they only grow."""
    data_written: str | None
    """The counter of bytes of data, not of logs."""
    clients: int
    commit_bytes: int
    seconds: float
    write_back: Callable[[], None] | None = None
    """Writes all changed pages to their files, and they are counted. If None, they are not counted.
    """


def measure(asked: Asked) -> CommitsRecord:
    """Commits a second, and the ledger. MeasureError if the measurement fails."""
    with contextlib.ExitStack() as stack:
        traces = {log.name: _trace(log, stack) for log in asked.logs if log.own_disk}
        before = _look(asked)
        for trace in traces.values():
            if trace is not None:
                trace.clear()
        begun = time.monotonic()
        wall = time.time()
        commits, qps, client_cpu_s = _run(asked)
        ended = _Spent.so_far(asked.pid)
        elapsed_s = time.monotonic() - begun
        jump_s = time.time() - wall - elapsed_s
        if asked.write_back is not None:
            asked.write_back()
        os.sync()
        after = _look(asked)
        logs = [_log(log, before, after, traces.get(log.name)) for log in asked.logs]
    own = {name: value - before.own.get(name, 0) for name, value in after.own.items()}
    work, moved = ended.server - before.spent.server, after.spent.server - before.spent.server
    busy_s = ended.busy_s - before.spent.busy_s
    others = other_cores(busy_s, work.cpu_s + client_cpu_s, kernel_s(before.spent.kernel_s, ended.kernel_s), elapsed_s)
    return {
        "errors": 0, "count": commits, "elapsed_s": elapsed_s, "qps": qps, "clients": asked.clients,
        "commit_bytes": asked.commit_bytes, "payload_bytes": commits * asked.commit_bytes, "logs": logs,
        "own_counters": own,
        **({} if asked.write_back is None else {"pages": written_back(own)}),
        "kernel": {
            "write_syscall_bytes": after.syscall_bytes - before.syscall_bytes, "write_bytes": moved.bytes_written,
            "data_bytes": None if asked.data_written is None else own[asked.data_written],
        },
        "server_cpu_us_per_query": work.cpu_s / commits * 1e6, "client_cpu_us_per_query": client_cpu_s / commits * 1e6,
        "server_switches_per_query": None, "bytes_read_per_query": moved.bytes_read / commits,
        "bytes_written_per_query": moved.bytes_written / commits, "storage_reads_per_query": None,
        "client_share_of_machine": client_cpu_s / elapsed_s / (os.cpu_count() or 1),
        "client_share_of_core": client_share(client_cpu_s, elapsed_s, asked.clients),
        "other_busy_cores": others, "busy_cores": busy_s / elapsed_s,
        "clock_jump_s": jump_s, "slowed": 0.0,
    }  # fmt: skip


@dataclass(frozen=True)
class _Spent:
    """The cost of server and machine so far."""

    server: ServerLook
    busy_s: float
    kernel_s: Mapping[int, float] | None

    @staticmethod
    def so_far(server: int) -> _Spent:
        return _Spent(ServerLook(server), machine_busy_s(), kernel_threads_s())


@dataclass(frozen=True)
class _Look:
    own: Mapping[str, float]
    spent: _Spent
    syscall_bytes: int
    disks: Mapping[str, Counters | None]


def _look(asked: Asked) -> _Look:
    # The server's own counters come first: reading them costs the clients nothing.
    own = asked.counters()
    return _Look(
        own, _Spent.so_far(asked.pid), sum(counters.io_counter("wchar", one) for one in family(asked.pid)),
        {log.name: Counters.of(log.folder) for log in asked.logs},
    )  # fmt: skip


def _run(asked: Asked) -> tuple[int, float, float]:
    """Commits, commits a second once all clients commit, and the CPU seconds of the clients."""
    used = os.times()
    process = subprocess.Popen(
        asked.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **asked.env}, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        said, complaints = process.communicate(timeout=asked.seconds + _GRACE_S)
    except subprocess.TimeoutExpired:
        raise MeasureError("it hung: the clients did not end in time") from None
    finally:
        process.kill()
        process.communicate()
    lines: dict[int, list[tuple[float, int]]] = {}
    for found in re.finditer(r"^tell (\d+) ([\d.]+) (\d+) \d+$", said, re.MULTILINE):
        lines.setdefault(int(found[1]), []).append((float(found[2]), int(found[3])))
    if process.returncode or len(lines) < asked.clients:
        told = "\n".join(line for line in said.splitlines() if not line.startswith("tell "))
        raise MeasureError(f"sysbench: {reason(complaints + told, process.returncode)}")
    commits = sum(theirs[-1][1] for theirs in lines.values())
    qps = sum(
        (theirs[-1][1] - theirs[0][1]) / (theirs[-1][0] - theirs[0][0])
        for theirs in lines.values()
        if theirs[-1][0] > theirs[0][0]
    )
    now = os.times()
    client_cpu_s = now.children_user + now.children_system - used.children_user - used.children_system
    return commits, qps, client_cpu_s


def _log(log: LogPlace, before: _Look, after: _Look, trace: Trace | None) -> LogRecord:
    """What one log took."""

    def grown(name: str) -> int:
        return int(after.own[name] - before.own[name])

    def grown_if_any(name: str | None) -> int | None:
        return None if name is None else grown(name)

    first, last = before.disks[log.name], after.disks[log.name]
    device: LogDevice | None = None
    if log.own_disk and first and last:
        device = {
            "bytes": (last.write_sectors - first.write_sectors) * _SECTOR_BYTES, "writes": last.writes - first.writes,
        }  # fmt: skip
    return {
        "name": log.name, "sector_bytes": log.sector_bytes, "page_bytes": log.page_bytes,
        "logical_bytes": grown(log.logical), "counted_bytes": grown_if_any(log.written),
        "writes": grown_if_any(log.writes), "syncs": grown_if_any(log.syncs), "device": device,
        "requests": None if trace is None else by_place(trace, extents_under(log.folder)),
    }  # fmt: skip


def _trace(log: LogPlace, stack: contextlib.ExitStack) -> Trace | None:
    """A trace of the log's disk, if there can be one."""
    try:
        trace = Trace(log.folder.stat().st_dev, log.name)
    except OSError:
        return None
    stack.callback(trace.close)
    return trace


def by_place(trace: Trace, extents: Sequence[tuple[int, int]]) -> LogRequests:
    """Bytes written to the extents of the log's files and elsewhere, and the smallest write."""
    with trace.lines() as lines:
        return split(lines, extents) | {"lost": trace.lost()}


def split(lines: Iterable[str], extents: Sequence[tuple[int, int]]) -> LogRequests:
    """The same from the lines of a trace.

    An extent is its first byte, and the byte after its last one.
    """
    within = elsewhere = writes = 0
    least: int | None = None
    for line in lines:
        found = ISSUED.search(line)
        if found is None or "W" not in found["kind"] or not int(found["count"]):
            continue
        start, size = int(found["sector"]) * _SECTOR_BYTES, int(found["count"]) * _SECTOR_BYTES
        if any(first <= start < end for first, end in extents):
            within, writes = within + size, writes + 1
            least = size if least is None else min(least, size)
        else:
            elsewhere += size
    return {"log_bytes": within, "log_writes": writes, "file_system_bytes": elsewhere, "least_write_bytes": least}


def extents_under(folder: Path) -> list[tuple[int, int]]:
    """The places on the disk of the files in a folder; adjacent ones are joined."""
    places: list[tuple[int, int]] = []
    for path in folder.rglob("*"):
        if path.is_file():
            with contextlib.suppress(OSError), path.open("rb") as file:
                places += _extents(file.fileno())
    joined: list[tuple[int, int]] = []
    for first, end in sorted(places):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    return joined


def _extents(file: int) -> list[tuple[int, int]]:
    buffer = bytearray(_HEAD.size + _EXTENTS_MAX * _EXTENT.size)
    _HEAD.pack_into(buffer, 0, 0, (1 << 64) - 1, _SYNC, 0, _EXTENTS_MAX, 0)
    fcntl.ioctl(file, _FIEMAP, buffer)
    mapped = _HEAD.unpack_from(buffer)[3]
    found = [_EXTENT.unpack_from(buffer, _HEAD.size + number * _EXTENT.size) for number in range(mapped)]
    return [(one[1], one[1] + one[2]) for one in found]
