"""Point reads of data larger than memory: measured, with storage, after the rate has settled."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pagehop_lab.analysis.server_records import DiskReads
from pagehop_lab.measure.oltp import Deadline, lines
from pagehop_lab.measure.processes import (
    Cost,
    client_share,
    cost,
    kernel_s,
    kernel_threads_s,
    machine_busy_s,
    other_cores,
)
from pagehop_lab.measure.storage import Counters
from pagehop_lab.suites.point_reads.cases import WINDOW_S, settled
from pagehop_lab.suites.point_reads.records import ReadRecord

_SILENCE_MAX_S = 60.0


@dataclass(frozen=True)
class Asked:
    """The client of a measurement of reads."""

    command: Sequence[str]
    """The command of the client. It prints the same lines as `oltp.lua`."""
    who: str
    """What it is called."""
    env: Mapping[str, str]
    folder: Path
    """Where the data are."""
    seconds: float
    settle_max_s: float
    members: Callable[[int], Sequence[int]]
    """The working processes, given that of the command."""
    counters: Callable[[], dict[str, float]]
    """The engine's own counters, by its own names."""
    client_us: float | None = None
    """The client's CPU per read, if it cannot be separated from the engine's."""
    started: Callable[[int], None] = lambda _: None
    """Called with the process of the command before it begins to work."""


@dataclass(frozen=True)
class _Look:
    at_s: float
    wall_s: float
    work: Cost
    client: Cost
    busy_s: float
    kernel_s: Mapping[int, float] | None
    """Of each of its threads."""
    disk: Counters | None
    own: dict[str, float]
    """What the engine counts itself."""


@dataclass
class _Told:
    """The progress that each client reported."""

    lines: dict[int, tuple[float, int]] = field(default_factory=dict)

    def total(self) -> int:
        return sum(queries for _, queries in self.lines.values())


def measure(asked: Asked) -> ReadRecord:
    """Reads a second, and the work of processes and disk per read. MeasureError if it fails."""
    process = subprocess.Popen(
        asked.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **asked.env},
        start_new_session=True,
    )  # fmt: skip
    try:
        asked.started(process.pid)
        return _watch(process, asked)
    finally:
        # All processes of its group: clients may be processes.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _watch(process: subprocess.Popen[bytes], asked: Asked) -> ReadRecord:
    begun = time.monotonic()
    late = Deadline(begun + asked.settle_max_s + asked.seconds + _SILENCE_MAX_S)
    told, rates, reads = _Told(), [], []
    members: Sequence[int] = ()
    window: tuple[float, int, Counters | None] | None = None
    for now in _ticks(process, asked.who, told, late):
        if not members:
            members = asked.members(process.pid)
        disk = Counters.of(asked.folder)
        if window is not None and now - window[0] >= WINDOW_S:
            seconds, before = now - window[0], window[2]
            rates.append((told.total() - window[1]) / seconds)
            reads.append((disk.reads - before.reads) / seconds if disk and before else 0.0)
            window = None
            is_settled = settled(rates) and settled(reads)
            if is_settled or now - begun > asked.settle_max_s:
                break
        window = window or (now, told.total(), disk)
    settle_s = time.monotonic() - begun
    first, before_lines = _look(asked, members, process.pid), dict(told.lines)
    for now in _ticks(process, asked.who, told, late):
        moved = all(told.lines[thread][0] > at_s for thread, (at_s, _) in before_lines.items())
        if now - first.at_s >= asked.seconds and moved:
            break
    last = _look(asked, members, process.pid)
    qps = sum(
        (told.lines[thread][1] - queries) / (told.lines[thread][0] - at_s)
        for thread, (at_s, queries) in before_lines.items()
    )
    count = sum(told.lines[thread][1] - queries for thread, (_, queries) in before_lines.items())
    is_own = process.pid in members
    return _raw(first, last, qps, count, asked.client_us if is_own else None, len(before_lines)) | {
        "settled": is_settled, "settle_s": settle_s, "windows_qps": [round(rate, 1) for rate in rates],
        "windows_reads": [round(rate, 1) for rate in reads],
    }  # fmt: skip


def _ticks(process: subprocess.Popen[bytes], who: str, told: _Told, late: Deadline) -> Iterator[float]:
    """The time of each progress report of a client."""
    for thread, at_s, _, queries in lines(process, late, who):
        told.lines[thread] = (at_s, queries)
        yield time.monotonic()


def _look(asked: Asked, members: Sequence[int], client: int) -> _Look:
    own = asked.counters()
    disk = Counters.of(asked.folder)
    busy_s, threads_s = machine_busy_s(), kernel_threads_s()
    return _Look(time.monotonic(), time.time(), cost(members), cost([client]), busy_s, threads_s, disk, own)


def _raw(first: _Look, last: _Look, qps: float, count: int, client_us: float | None, clients: int) -> ReadRecord:
    """Figures for each read."""
    elapsed_s, cores = last.at_s - first.at_s, os.cpu_count() or 1
    work, client = last.work - first.work, last.client - first.client
    reads = qps * elapsed_s
    # If the client runs in the engine's process, its own cost was measured before.
    client_cpu_s = client.cpu_s if client_us is None else client_us * reads / 1e6
    server_cpu_s = work.cpu_s if client_us is None else max(work.cpu_s - client_cpu_s, 0.0)
    own_s = work.cpu_s + (client.cpu_s if client_us is None else 0.0)
    disk: DiskReads | None = None
    if first.disk and last.disk:
        requests, sectors = last.disk.reads - first.disk.reads, last.disk.read_sectors - first.disk.read_sectors
        disk = {
            "reads": requests, "bytes": sectors * 512, "reads_per_query": requests / reads,
            "bytes_per_read": sectors * 512 / requests if requests else None,
            "ms_per_read": (last.disk.read_ms - first.disk.read_ms) / requests if requests else None,
            "busy_share": min((last.disk.busy_ms - first.disk.busy_ms) / 1e3 / elapsed_s, 1.0),
            "in_flight": (last.disk.waiting_ms - first.disk.waiting_ms) / 1e3 / elapsed_s,
        }  # fmt: skip
    busy_s = last.busy_s - first.busy_s
    return {
        "errors": 0, "count": count, "elapsed_s": elapsed_s, "qps": qps,
        "server_cpu_us_per_query": server_cpu_s / reads * 1e6,
        "client_cpu_us_per_query": client_cpu_s / reads * 1e6,
        "server_switches_per_query": work.switches / reads,
        "bytes_read_per_query": work.bytes_read / reads,
        "bytes_written_per_query": work.bytes_written / reads,
        # Reads from storage are expected here, so they need no verdict.
        "storage_reads_per_query": None,
        "disk": disk,
        "own_counters": {name: (value - first.own.get(name, 0)) / reads for name, value in last.own.items()},
        "client_share_of_machine": client_cpu_s / elapsed_s / cores,
        "client_share_of_core": client_share(client_cpu_s, elapsed_s, clients),
        "other_busy_cores": other_cores(busy_s, own_s, kernel_s(first.kernel_s, last.kernel_s), elapsed_s),
        "busy_cores": busy_s / elapsed_s,
        "clock_jump_s": (last.wall_s - first.wall_s) - elapsed_s,
        "slowed": 0.0,
    }  # fmt: skip
