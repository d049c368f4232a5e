"""The work of the disk under a folder in a phase: requests, sizes, waiting and busy time.

The kernel counts for the whole device, so other users of it are counted, too. The size and place of
each request come from its trace, if there is one. For a folder that is not on a disk, there are no
figures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pagehop_lab.analysis.records import Disk, Phase
from pagehop_lab.measure import usage
from pagehop_lab.measure.tracing import Trace

_SECTOR_BYTES = 512


@dataclass(frozen=True)
class Counters:
    """The device's counters, as the kernel's documentation of block/stat names them."""

    reads: int
    read_sectors: int
    read_ms: int
    writes: int
    write_sectors: int
    write_ms: int
    busy_ms: int
    waiting_ms: int

    @staticmethod
    def of(folder: Path) -> Counters | None:
        """The counters now; None where the kernel does not say."""
        device = folder.stat().st_dev
        try:
            text = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text()
        except OSError:
            return None
        fields = list(map(int, text.split()))
        return Counters(fields[0], fields[2], fields[3], fields[4], fields[6], fields[7], fields[9], fields[10])


def profile(before: Counters, after: Counters, seconds: float) -> Disk:
    """The work of a device between two looks at its counters."""
    reads, writes = after.reads - before.reads, after.writes - before.writes
    waiting_s, busy_s = (after.waiting_ms - before.waiting_ms) / 1e3, (after.busy_ms - before.busy_ms) / 1e3
    read_bytes = (after.read_sectors - before.read_sectors) * _SECTOR_BYTES
    write_bytes = (after.write_sectors - before.write_sectors) * _SECTOR_BYTES
    return {
        "reads": reads,
        "writes": writes,
        "reads_per_s": reads / seconds,
        "writes_per_s": writes / seconds,
        "read_bytes_per_s": read_bytes / seconds,
        "write_bytes_per_s": write_bytes / seconds,
        "bytes_per_read": read_bytes / reads if reads else None,
        "bytes_per_write": write_bytes / writes if writes else None,
        "ms_per_read": (after.read_ms - before.read_ms) / reads if reads else None,
        "ms_per_write": (after.write_ms - before.write_ms) / writes if writes else None,
        "read_share": reads / (reads + writes) if reads + writes else None,
        "queue_depth": waiting_s / seconds,
        # Requests in flight while there are any: read-ahead raises this, whatever the CPU does in
        # between.
        "queue_depth_busy": waiting_s / busy_s if busy_s else None,
        "busy_share": min(busy_s / seconds, 1.0),
    }


class Phases:
    """Phases of some work, one after the other; each ends when the next begins."""

    def __init__(self, folder: Path, processes: Callable[[], Sequence[int]], traced: bool = False) -> None:
        """Watches the disk under `folder`, and the CPU of some processes.

        These are this process and `processes`, with their descendants.
        """
        self._folder, self._processes = folder, processes
        self._trace: Trace | None = None
        self._untraced: str | None = None
        if traced:
            try:
                self._trace = Trace(folder.stat().st_dev)
            except OSError as error:
                self._untraced = f"no trace of the disk: {error.strerror or error}"
        self._name: str | None = None
        self._begun = self._cpu_s = 0.0
        self._before: Counters | None = None
        self.told: list[Phase] = []

    def begin(self, name: str | None) -> None:
        """Ends the current phase, and begins another if it has a name."""
        if self._name is not None:
            self._end(self._name)
        self._name = name
        if self._trace is not None:
            if name is None:
                self._trace.close()
                return
            self._trace.clear()
        self._begun, self._before = time.perf_counter(), Counters.of(self._folder)
        self._cpu_s = usage.of_processes(self._processes()).cpu_s

    def _end(self, name: str) -> None:
        seconds = time.perf_counter() - self._begun
        after = Counters.of(self._folder)
        cpu_s = usage.of_processes(self._processes()).cpu_s - self._cpu_s
        disk = profile(self._before, after, seconds) if self._before and after else None
        if disk is not None and self._trace is not None:
            disk["requests"] = self._trace.read()
        elif disk is not None and self._untraced is not None:
            disk["untraced"] = self._untraced
        # A server that was started during the phase brings the CPU that it used before.
        self.told.append({"phase": name, "seconds": seconds, "cpu_s": max(cpu_s, 0.0), "disk": disk})
