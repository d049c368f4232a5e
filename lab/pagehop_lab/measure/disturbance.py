"""What the machine itself took from a measurement: cores that its host gave to others, and heat."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROC, _SYS = Path("/proc"), Path("/sys")


@dataclass(frozen=True)
class Disturbance:
    """What was taken so far; a difference of two is what was taken between them."""

    at_s: float
    stolen_s: float
    """Of all cores together, in which a virtual machine would run and its host ran others."""
    throttled_count: int | None
    """How often heat slowed a processor; None where it is not counted, as in a virtual machine."""

    @staticmethod
    def so_far(proc: Path = _PROC, sys: Path = _SYS) -> Disturbance:
        """The counters now; reading them takes less than a millisecond."""
        stolen = int((proc / "stat").read_text().split(maxsplit=9)[8])
        return Disturbance(time.monotonic(), stolen / os.sysconf("SC_CLK_TCK"), _throttled(sys))

    def since(self, before: Disturbance) -> dict[str, Any]:
        """The fields of the raw file, of the whole stretch, preparations included."""
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
    """The number of a CPU's core or package; where it is not told, each CPU is its own."""
    return path.read_text().strip() if path.exists() else cpu.name
