"""A limit of the memory of processes, including the kernel's cache of their files: a control group.

Works with control groups of version 1, and of version 2 if the root group delegates memory. Both
need root. Memory that a process held before it joined the group stays with the old group, so caches
must be emptied before.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pagehop_lab.analysis import records
from pagehop_lab.engines.engine import EngineError

TOO_LITTLE = "of memory did not suffice"
"""Words of a failure for which the kernel killed a process within its limit."""
_MIB = 2**20
_ROOT, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


class MemoryLimit:
    """A control group with this amount of memory and no swap."""

    def __init__(self, mib: int, root: Path = _ROOT, own: Path = _OWN, name: str = "") -> None:
        """EngineError if the machine does not allow it.

        `name` distinguishes the limits of one process.
        """
        self.mib = mib
        try:
            self._parent, self._version = _place(root, own)
            self._group = self._parent / "-".join(filter(None, [f"{_PREFIX}{os.getpid()}", name]))
            self._group.mkdir(exist_ok=True)
            limit, swap = _LIMITS[self._version]
            (self._group / limit).write_text(str(mib * _MIB))
            with contextlib.suppress(OSError):
                (self._group / swap).write_text("0")
        except OSError as error:
            raise EngineError(f"memory cannot be limited here ({error.strerror}: {error.filename}): be root") from None

    def enter(self, processes: Sequence[int]) -> None:
        """Moves processes into the group; processes that they start later are in it, too."""
        _move(processes, self._group)

    def inside(self) -> list[int]:
        """The processes in the group."""
        with contextlib.suppress(OSError):
            return [int(one) for one in (self._group / "cgroup.procs").read_text().split()]
        return []

    def anonymous_bytes(self) -> int:
        """Memory that is in use now, without the kernel's cache of files; 0 if it is not known."""
        with contextlib.suppress(OSError):
            found = re.search(_ANONYMOUS[self._version], (self._group / "memory.stat").read_text(), re.MULTILINE)
            return int(found[1]) if found else 0
        return 0

    def told(self) -> records.MemoryLimit:
        """The limit and the most that was held, for the raw measurement.

        The kernel's cache of files counts. The most is None where the kernel does not keep it.
        """
        peak = _PEAKS[self._version]
        with contextlib.suppress(OSError, ValueError):
            return {"mib": self.mib, "peak_bytes": int((self._group / peak).read_text())}
        return {"mib": self.mib, "peak_bytes": None}

    def killed(self) -> int:
        """Processes that the kernel killed because they wanted more."""
        with contextlib.suppress(OSError):
            found = re.search(r"^oom_kill (\d+)$", (self._group / _KILLED[self._version]).read_text(), re.MULTILINE)
            return int(found[1]) if found else 0
        return 0

    def reason(self, failure: str, before: int = 0) -> str:
        """Why something failed: too little memory, if the kernel killed more than `before`
        processes.
        """
        killed = self.killed() - before
        if killed <= 0:
            return failure
        return f"{self.mib} MiB {TOO_LITTLE}: the kernel killed {killed} of its processes ({failure})"

    def close(self) -> None:
        """Moves all processes back to the group of this process, and removes the group."""
        with contextlib.suppress(OSError):
            _move(self.inside(), self._parent)
        with contextlib.suppress(OSError):
            self._group.rmdir()


@contextlib.contextmanager
def limited(mib: int) -> Iterator[MemoryLimit | None]:
    """A limit that ends with the context; none of 0 MiB."""
    if not mib:
        yield None
        return
    limit = MemoryLimit(mib)
    try:
        yield limit
    finally:
        limit.close()


def processes(root: Path = _ROOT, own: Path = _OWN) -> list[int]:
    """Processes, alive or not, that have a limit."""
    if not own.exists():
        return []
    names = [group.name.removeprefix(_PREFIX) for group in _parent(root, own).glob(f"{_PREFIX}*")]
    return [int(name.partition("-")[0]) for name in names]


def forget(process: int, root: Path = _ROOT, own: Path = _OWN) -> None:
    """Removes the limits of a process that has ended."""
    with contextlib.suppress(OSError):
        parent = _parent(root, own)
        for group in [parent / f"{_PREFIX}{process}", *parent.glob(f"{_PREFIX}{process}-*")]:
            with contextlib.suppress(OSError):
                group.rmdir()


_PREFIX = "pagehop-lab-"
_LIMITS = {1: ("memory.limit_in_bytes", "memory.swappiness"), 2: ("memory.max", "memory.swap.max")}
_KILLED = {1: "memory.oom_control", 2: "memory.events"}
_ANONYMOUS = {1: r"^total_rss (\d+)$", 2: r"^anon (\d+)$"}
_PEAKS = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}


def _parent(root: Path, own: Path) -> Path:
    """The parent of the lab's groups."""
    first = re.search(r"^\d+:(?:[^:\n]*,)?memory(?:,[^:\n]*)?:(.*)$", own.read_text(), re.MULTILINE)
    return root / "memory" / first[1].lstrip("/") if first and (root / "memory").is_dir() else root


def _place(root: Path, own: Path) -> tuple[Path, int]:
    """The same, ready to have groups in it, and the version of control groups."""
    parent = _parent(root, own)
    if parent != root:
        return parent, 1
    # In version 2, only the root may have both processes and groups below it.
    if "memory" not in (root / "cgroup.controllers").read_text().split():
        raise EngineError("memory cannot be limited here: control groups have no memory controller")
    (root / "cgroup.subtree_control").write_text("+memory")
    return root, 2


def _move(processes: Sequence[int], group: Path) -> None:
    for process in processes:
        # It may have ended since it was listed.
        with contextlib.suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(process))
