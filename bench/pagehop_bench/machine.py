"""What a measurement ran on, and what the kernel says of this process."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """CPU, cores, memory, kernel: what decides a figure, and nothing that names the machine."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.*)", cpuinfo)
    flags = re.search(r"flags\s*:\s*(.*)", cpuinfo)
    wide = [
        flag for flag in ["avx2", "avx512f", "avx512_vpopcntdq", "avx512_vnni"] if flags and flag in flags[1].split()
    ]
    return {
        "cpu": model[1].strip() if model else platform.machine(),
        "simd": wide,
        "cores": cores(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
    }


def kind() -> str:
    """A short name for machines like this one, for file names."""
    about = describe()
    cpu = re.sub(r"[^a-z0-9]+", "-", about["cpu"].lower()).strip("-")
    return f"{cpu}-{about['cores']}c-{about['memory_gib']:.0f}g"


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


def cpu_seconds() -> float:
    """CPU seconds of this process so far, user and system, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def bytes_read() -> int:
    """Bytes this process made storage deliver."""
    return int(re.findall(r"^read_bytes: (\d+)", Path("/proc/self/io").read_text(), re.MULTILINE)[0])


def io_counter(name: str, process: int | str = "self") -> int:
    """A counter of /proc/PID/io, such as `wchar` or `write_bytes`; 0 for a process that is gone."""
    try:
        counters = Path(f"/proc/{process}/io").read_text()
    except OSError:
        return 0
    return int(re.findall(rf"^{name}: (\d+)", counters, re.MULTILINE)[0])


def device_bytes_read(folder: Path) -> int | None:
    """Bytes that the disk under `folder` gave to all processes together; None where the kernel does not say."""
    return _device_bytes(folder, 2)


def device_bytes_written(folder: Path) -> int | None:
    """Bytes that all processes together made the disk under `folder` take; None where the kernel does not say."""
    return _device_bytes(folder, 6)


def _device_bytes(folder: Path, field: int) -> int | None:
    device = folder.stat().st_dev
    try:
        fields = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text().split()
    except OSError:
        return None
    # Sectors, of 512 bytes whatever the disk has.
    return 512 * int(fields[field])


@contextmanager
def pinned() -> Iterator[None]:
    """Keeps this thread on one core, the last one: the first is where interrupts go."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def limited(count: int) -> Iterator[None]:
    """Keeps this thread, and threads and processes it starts, on the last `count` cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[-count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def memory(field: str, process: int | str = "self") -> int:
    """Bytes of a field of /proc/PID/status, such as VmRSS, VmHWM or RssAnon."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)[0]) * 1024


def forget_peak_memory() -> None:
    """Makes VmHWM start again from what is resident now."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def drop_page_cache(path: Path) -> None:
    """Asks the kernel to forget what it holds of a file."""
    with path.open("rb") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
