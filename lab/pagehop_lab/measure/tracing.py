"""Every request to a disk, with size and place, from the kernel's trace. Counters have neither.
Needs root and a kernel with tracefs, which is mounted at its usual place if it is not. The trace
has a buffer of its own (an instance), so that it does not disturb others. Requests of every process
that uses the disk count.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from pagehop_lab.analysis.records import Requests, Traced

TRACEFS = Path("/sys/kernel/tracing")
_PREFIX = "pagehop-lab-"
_BUFFER_KIB = 16384
_SECTOR_BYTES = 512
# A request is sequential if it begins where one of the last few ended. Several streams can be
# sequential at once.
_STREAMS = 32
ISSUED = re.compile(r"block_rq_issue: \d+,\d+ (?P<kind>\S+) (?P<bytes>\d+) \(.*?\) (?P<sector>\d+) \+ (?P<count>\d+) ")


class Trace:
    """The requests to one disk, from `clear` to `read`."""

    def __init__(self, device: int, name: str = "") -> None:
        """OSError if the kernel or our rights do not allow it. `device` is a number as in `st_dev`.

        Traces of one process have names.
        """
        if not (TRACEFS / "instances").is_dir():
            subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACEFS], check=False, capture_output=True)
        self._folder = _instance(os.getpid(), name)
        self._folder.mkdir(exist_ok=True)
        event = self._folder / "events/block/block_rq_issue"
        # In the kernel's form, which differs from that of user space.
        number = os.major(device) << 20 | os.minor(device)
        (self._folder / "buffer_size_kb").write_text(str(_BUFFER_KIB))
        (event / "filter").write_text(f"dev == {number}")
        (event / "enable").write_text("1")

    def clear(self) -> None:
        """Forgets what there was."""
        (self._folder / "trace").write_text("")

    def read(self) -> Traced:
        """The result of `requests` for all events since then, and the number of lost events."""
        with self.lines() as lines:
            told = requests(lines)
        return {"reads": told["reads"], "writes": told["writes"], "lost": self.lost()}

    def lines(self) -> TextIO:
        """The requests in the kernel's format."""
        return (self._folder / "trace").open()

    def lost(self) -> int:
        """How many did not fit."""
        lost = 0
        for stats in self._folder.glob("per_cpu/cpu*/stats"):
            lost += sum(map(int, re.findall(r"^overrun: (\d+)", stats.read_text(), re.MULTILINE)))
        return lost

    def close(self) -> None:
        """Ends the trace."""
        _end(self._folder)


def forget(process: int) -> None:
    """Ends the traces of a process that cannot do it itself."""
    for folder in (TRACEFS / "instances").glob(f"{_PREFIX}{process}*"):
        if re.fullmatch(rf"{_PREFIX}{process}(-.*)?", folder.name):
            _end(folder)


def _end(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def processes() -> list[int]:
    """Processes, alive or not, that have a trace."""
    try:
        folders = [folder.name for folder in (TRACEFS / "instances").glob(f"{_PREFIX}*")]
    except PermissionError:
        # Only root may look there, and only root can have left a trace.
        return []
    named = (re.match(rf"{_PREFIX}(\d+)", folder) for folder in folders)
    return sorted({int(found[1]) for found in named if found})


def _instance(process: int, name: str = "") -> Path:
    return TRACEFS / "instances" / f"{_PREFIX}{process}{name and '-'}{name}"


def requests(lines: Iterable[str]) -> dict[str, Requests]:
    """Requests by size in bytes, and the share that is not sequential, for `reads` and `writes`.

    Sizes are rounded down to powers of two. They are texts, as keys of JSON are.
    """
    sizes: dict[str, Counter[int]] = {"reads": Counter(), "writes": Counter()}
    random = dict.fromkeys(sizes, 0)
    ends: dict[str, deque[int]] = {kind: deque(maxlen=_STREAMS) for kind in sizes}
    for line in lines:
        found = ISSUED.search(line)
        if found is None or not int(found["count"]):
            continue
        kind = "reads" if "R" in found["kind"] else "writes" if "W" in found["kind"] else None
        if kind is None:
            continue
        sector, count = int(found["sector"]), int(found["count"])
        sizes[kind][1 << ((count * _SECTOR_BYTES).bit_length() - 1)] += 1
        random[kind] += sector not in ends[kind]
        ends[kind].append(sector + count)
    return {
        kind: {
            "sizes": {str(size): sizes[kind][size] for size in sorted(sizes[kind])},
            "random_share": random[kind] / sizes[kind].total() if sizes[kind] else None,
        }
        for kind in sizes
    }
