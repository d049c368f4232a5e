"""Disturbance of a measurement by the machine: cores that its host gave to others, and heat."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from pagehop_lab.analysis.records import Disturbed

_PROC, _SYS = Path("/proc"), Path("/sys")


@dataclass(frozen=True)
class Disturbance:
    """The counters so far; the difference of two is the disturbance between them."""

    at_s: float
    stolen_s: float
    """Seconds, over all cores, in which a virtual machine could have run and its host ran others.
    """
    throttled_count: int | None
    """Number of times that heat slowed a processor; None if it is not counted, as in a virtual
    machine.
    """

    @staticmethod
    def so_far(proc: Path = _PROC, sys: Path = _SYS) -> Disturbance:
        """The counters now; reading them takes less than a millisecond."""
        stolen = int((proc / "stat").read_text().split(maxsplit=9)[8])
        return Disturbance(time.monotonic(), stolen / os.sysconf("SC_CLK_TCK"), _throttled(sys))

    def since(self, before: Disturbance) -> Disturbed:
        """The fields of the raw file, for the whole time, preparations included."""
        throttled = None
        if self.throttled_count is not None and before.throttled_count is not None:
            throttled = self.throttled_count - before.throttled_count
        elapsed_s = max(self.at_s - before.at_s, 1e-9)
        return {"stolen_cores": (self.stolen_s - before.stolen_s) / elapsed_s, "throttled_count": throttled}


def _throttled(sys: Path) -> int | None:
    """How often heat slowed a core or a package, together.

    Each CPU of a core, and each of a package, counts the same event.
    """
    found: dict[tuple[str, ...], int] = {}
    for cpu in sys.glob("devices/system/cpu/cpu[0-9]*"):
        package, core = (_number(cpu / "topology" / name, cpu) for name in ("physical_package_id", "core_id"))
        for kind, of in (("core", (package, core)), ("package", (package,))):
            path = cpu / f"thermal_throttle/{kind}_throttle_count"
            if path.exists():
                key = (kind, *of)
                found[key] = max(found.get(key, 0), int(path.read_text()))
    return sum(found.values()) if found else None


def _number(path: Path, cpu: Path) -> str:
    """The number of a CPU's core or package; if it is not known, each CPU is its own."""
    return path.read_text().strip() if path.exists() else cpu.name
