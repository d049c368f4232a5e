"""The reads a second that the disk gives to fio, where a search has just read.

fio reads the same file, at random places, past the kernel's cache, with requests of the same mean
size, as many at once as the search had in flight. So a search is compared with what its disk gives
at that moment, at equal depth.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pagehop_lab.analysis.records import DiskCeiling, Phase, last_disk
from pagehop_lab.engines.engine import EngineError

_BLOCK_BYTES = 4096
_RAMP_MS = 200
_START_S = 30.0


def asked(phases: Sequence[Phase]) -> tuple[int, int] | None:
    """The size of a request in bytes, whole blocks, and the requests in flight, of the last phase.

    None if it read nothing from a disk, or for so short a time that the kernel counted none.
    """
    disk = last_disk(phases)
    if disk is None:
        return None
    size, depth = disk.get("bytes_per_read"), disk.get("queue_depth_busy")
    if not size or not depth:
        return None
    return max(1, round(size / _BLOCK_BYTES)) * _BLOCK_BYTES, max(1, round(depth))


def measure(fio: Sequence[str], file: Path, request_bytes: int, depth: int, seconds: float) -> DiskCeiling:
    """Random reads of a file by fio; EngineError if it fails."""
    command = [
        *fio, "--name=ceiling", f"--filename={file}", "--readonly", "--rw=randread", "--direct=1",
        "--ioengine=io_uring" if _has_io_uring() else "--ioengine=libaio", f"--bs={request_bytes}",
        f"--iodepth={depth}", "--time_based", f"--runtime={round(seconds * 1000)}ms", f"--ramp_time={_RAMP_MS}ms",
        "--norandommap", "--output-format=json",
    ]  # fmt: skip
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + _START_S)
        reads = json.loads(told.stdout[told.stdout.index("{") :])["jobs"][0]["read"]
        return {"request_bytes": request_bytes, "depth": depth, "reads_per_s": float(reads["iops"])}
    except subprocess.CalledProcessError as error:
        raise EngineError(f"fio: {(error.stderr or error.stdout).strip()[-300:]}") from None
    except (OSError, subprocess.TimeoutExpired, ValueError, LookupError) as error:
        raise EngineError(f"fio: {error}") from None


def _has_io_uring() -> bool:
    """Whether the kernel allows it to all processes."""
    try:
        return Path("/proc/sys/kernel/io_uring_disabled").read_text().strip() == "0"
    except OSError:
        return False
