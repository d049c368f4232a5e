"""The kernel's counters of processes."""

from __future__ import annotations

import os
import re
import resource
from pathlib import Path


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


def cpu_seconds() -> float:
    """CPU seconds of this process so far, user and system, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def io_counter(name: str, process: int | str = "self") -> int:
    """A counter of /proc/PID/io, such as `wchar` or `write_bytes`; 0 for a process that is gone."""
    try:
        counters = Path(f"/proc/{process}/io").read_text()
    except OSError:
        return 0
    return int(re.findall(rf"^{name}: (\d+)", counters, re.MULTILINE)[0])


def memory(field: str, process: int | str = "self") -> int:
    """Bytes of a field of /proc/PID/status, such as VmRSS, VmHWM or RssAnon."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)[0]) * 1024
