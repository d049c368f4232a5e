"""What this process and an engine's have cost so far, including ended ones, such as connections.

Ended processes are counted in ticks only, which is enough for a measurement of a second. For
processes that all live, processes.py counts more, in nanoseconds.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pagehop_lab.machine import counters

PAGE_BYTES = 4096


@dataclass(frozen=True)
class Usage:
    """What this process has cost."""

    cpu_s: float
    switches: int
    bytes_read: int
    """Bytes that storage delivered."""

    def __add__(self, more: Usage) -> Usage:
        return Usage(self.cpu_s + more.cpu_s, self.switches + more.switches, self.bytes_read + more.bytes_read)

    def __sub__(self, before: Usage) -> Usage:
        return Usage(self.cpu_s - before.cpu_s, self.switches - before.switches, self.bytes_read - before.bytes_read)


def of_this_process() -> Usage:
    """The usage of this process with all of its threads, those that ended included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(counters.cpu_seconds(), used.ru_nvcsw + used.ru_nivcsw, counters.io_counter("read_bytes"))


def of_processes(processes: Sequence[int]) -> Usage:
    """The usage of this process and of others, with all that descends from them."""
    own = of_this_process()
    others = [one for process in processes for one in family(process)]
    cpu_s = sum(map(ticks_s, others)) + sum(map(ended_cpu_s, processes))
    return Usage(
        own.cpu_s + cpu_s, own.switches, own.bytes_read + sum(counters.io_counter("read_bytes", one) for one in others)
    )


def bytes_read(process: int) -> int:
    """Bytes that storage delivered to a process and its descendants, those that ended included."""
    return sum(counters.io_counter("read_bytes", one) for one in family(process))


def ended_cpu_s(process: int) -> float:
    """CPU seconds of those children of a process that ended, such as a server's connections."""
    return _ticks_s(process, 13, 15)


def ticks_s(process: int) -> float:
    """CPU seconds of a process in ticks; 0 once it is gone."""
    return _ticks_s(process, 11, 13)


def _ticks_s(process: int, first: int, end: int) -> float:
    """Some of fields 14 to 17 of proc(5), which count ticks: coarse, but a measurement has many."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[first:end])) / os.sysconf("SC_CLK_TCK")


def family(process: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        parents.setdefault(parent, []).append(int(stat.parent.name))
    found, left = [], [process]
    while left:
        found.append(left.pop())
        left += parents.get(found[-1], [])
    return found


def memory_bytes(process: int) -> int | None:
    """Memory of a process and its descendants.

    A shared page counts once. None if it cannot be read.
    """
    total = 0
    for one in family(process):
        try:
            found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{one}/smaps_rollup").read_text(), re.MULTILINE)
        except PermissionError:
            return None
        except OSError:
            # It ended since it was listed.
            continue
        total += int(found[1]) * 1024 if found else 0
    return total
