"""What a piece of work cost: the clock, the CPU, and bytes written by more than one account.

An engine says what it wrote: log and pages. The kernel says what it was handed (`wchar`, without what goes
through io_uring) and what it had to write (`write_bytes`). The latter is exact for direct writes and for growing
files, and too much where small parts of a cached file are written again and again: a kernel that caches in
large folios counts the whole folio each time (seen on Linux 6.18: 32 times, for 8 KiB at random). The disk's own
counter is told beside them; it counts what everyone writes.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pagehop
from pagehop_bench import machine


@dataclass(frozen=True)
class Spent:
    """Totals since some beginning; a difference of two is the cost of what lies between."""

    wall_s: float
    cpu_s: float
    logged_bytes: int
    """Bytes of log, as the engine says."""
    paged_bytes: int | None
    """Bytes of pages, as the engine says; None where it does not."""
    handed_bytes: int
    """Bytes given to write calls, of everything together; writes through io_uring are not among them."""
    written_bytes: int
    """`write_bytes` of the kernel, of everything together: an upper bound."""

    def since(self, before: Spent) -> Spent:
        """What was spent since `before`."""
        paged = None
        if self.paged_bytes is not None and before.paged_bytes is not None:
            paged = self.paged_bytes - before.paged_bytes
        return Spent(
            self.wall_s - before.wall_s,
            self.cpu_s - before.cpu_s,
            self.logged_bytes - before.logged_bytes,
            paged,
            self.handed_bytes - before.handed_bytes,
            self.written_bytes - before.written_bytes,
        )


def spent(index: pagehop.Index) -> Spent:
    """Totals of this process and of an index that it holds open for writing."""
    info = index.info()
    return Spent(
        time.perf_counter(),
        machine.cpu_seconds(),
        info.log_bytes_written,
        info.page_bytes_written,
        machine.io_counter("wchar"),
        machine.io_counter("write_bytes"),
    )


def percentiles(values: Any) -> dict[str, float]:
    """Middle, tail and end of many values of the same unit."""
    p50, p99, p999 = np.percentile(np.asarray(values, dtype=np.float64), [50, 99, 99.9])
    return {
        "p50": float(p50),
        "p99": float(p99),
        "p999": float(p999),
        "max": float(np.max(values)),
        "mean": float(np.mean(values)),
    }


def median_of(runs: list[dict[str, Any]], key: str) -> float:
    """The median of a figure over repeats; NaN without any."""
    figures = [float(run[key]) for run in runs if run.get(key) is not None]
    return statistics.median(figures) if figures else math.nan


def spread(runs: list[dict[str, Any]], key: str) -> str:
    """The range of a figure over repeats, in words."""
    figures = [float(run[key]) for run in runs if run.get(key) is not None]
    return f"{_short(min(figures))} to {_short(max(figures))}" if figures else "none"


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def disk_sync_ms(folder: Path, size: int = 256 * 1024, times: int = 50) -> dict[str, float]:
    """Milliseconds to append `size` bytes to a file and make them durable: the floor of a durable commit here."""
    folder.mkdir(parents=True, exist_ok=True)
    path, content, taken = folder / "sync-probe", os.urandom(size), []
    with path.open("wb", buffering=0) as file:
        for _ in range(times):
            start = time.perf_counter()
            file.write(content)
            os.fdatasync(file.fileno())
            taken.append(1e3 * (time.perf_counter() - start))
    path.unlink()
    return percentiles(taken) | {"bytes": size, "times": times}
