"""The cost of processes so far, in nanoseconds: ticks are too coarse for one second of work."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pagehop_lab.machine import counters
from pagehop_lab.measure.usage import ended_cpu_s, family, ticks_s

_PR_SET_PDEATHSIG = 1
# The parent of the kernel's threads; in a container the second process is another one.
_KERNEL_THREADS, _THEIR_NAME = 2, "kthreadd"


@dataclass(frozen=True)
class Cost:
    """The cost of processes; differences are between two looks at the same processes."""

    cpu_s: float
    switches: int
    bytes_read: int
    """From storage."""
    bytes_written: int
    """To storage."""

    def __sub__(self, before: Cost) -> Cost:
        return Cost(
            self.cpu_s - before.cpu_s, self.switches - before.switches,
            self.bytes_read - before.bytes_read, self.bytes_written - before.bytes_written,
        )  # fmt: skip


def total(costs: Sequence[Cost]) -> Cost:
    """Several costs together."""
    return Cost(
        sum(one.cpu_s for one in costs), sum(one.switches for one in costs),
        sum(one.bytes_read for one in costs), sum(one.bytes_written for one in costs),
    )  # fmt: skip


def cost(processes: Iterable[int]) -> Cost:
    """The cost of processes with all of their threads; threads that have ended no longer count."""
    cpu_s, switches, bytes_read, bytes_written = 0.0, 0, 0, 0
    for process in processes:
        cpu_s += cpu_seconds(process)
        switches += _switches(process)
        bytes_read += counters.io_counter("read_bytes", process)
        bytes_written += counters.io_counter("write_bytes", process)
    return Cost(cpu_s, switches, bytes_read, bytes_written)


class ServerLook:
    """The cost of a server so far, including processes that come and go, such as cleaners."""

    def __init__(self, server: int) -> None:
        """`server` is the first process, the parent of the others."""
        living = family(server)
        self._cpu_s = sum(map(cpu_seconds, living)) + ended_cpu_s(server)
        # The parent takes over these counters from a child that ends, but not its context switches.
        self._bytes = [sum(counters.io_counter(name, one) for one in living) for name in ("read_bytes", "write_bytes")]
        self._switches = {one: _switches(one) for one in living}

    def __sub__(self, before: ServerLook) -> Cost:
        known = before._switches
        switches = sum(count - known.get(one, 0) for one, count in self._switches.items())
        read, written = (now - then for now, then in zip(self._bytes, before._bytes, strict=True))
        return Cost(self._cpu_s - before._cpu_s, switches, read, written)


def end_with_parent(by: signal.Signals) -> None:
    """Has the kernel send this process a signal when its parent ends, however that is."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)


def cpu_seconds(process: int) -> float:
    """CPU seconds of a process, by its own clock; 0 once it is gone."""
    try:
        # clock_getcpuclockid(3), which Python has for threads only.
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        return 0.0


def _switches(process: int) -> int:
    total = 0
    for status in Path(f"/proc/{process}/task").glob("*/status"):
        try:
            total += sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", status.read_text())))
        except OSError:
            continue
    return total


def client_share(cpu_s: float, elapsed_s: float, clients: int) -> float:
    """The share of a core for which each client was busy.

    At most one client per core runs at once.
    """
    return cpu_s / elapsed_s / min(clients, os.cpu_count() or 1)


def kernel_threads_s() -> Mapping[int, float] | None:
    """CPU seconds of each of the kernel's own threads, which serve disks; None if they are not
    visible.

    A container does not see them. They are counted in ticks.
    """
    try:
        name = Path(f"/proc/{_KERNEL_THREADS}/comm").read_text().strip()
    except OSError:
        return None
    return {one: ticks_s(one) for one in family(_KERNEL_THREADS)} if name == _THEIR_NAME else None


def kernel_s(before: Mapping[int, float] | None, after: Mapping[int, float] | None) -> float | None:
    """What the kernel's threads took between two looks; None where they are not seen.

    A thread that ended in between takes its seconds with it, so the difference of two sums would be
    too small, or below 0.
    """
    if before is None or after is None:
        return None
    return sum(max(taken - before.get(one, 0.0), 0.0) for one, taken in after.items())


def other_cores(busy_s: float, own_s: float, kernel_s: float | None, elapsed_s: float) -> float | None:
    """Cores that were busy with something else, where the disk's work is the kernel's.

    `own_s` is the CPU of server and clients. None if the CPU of the kernel is not known: then its
    work for the disk cannot be separated from the work of other processes.
    """
    return None if kernel_s is None else max((busy_s - own_s - kernel_s) / elapsed_s, 0.0)


def machine_busy_s() -> float:
    """Busy seconds of all cores together."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
