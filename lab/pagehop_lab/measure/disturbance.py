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
        """A look now, which takes less than a millisecond."""
        stolen = int((proc / "stat").read_text().split(maxsplit=9)[8])
        counters = [
            int(path.read_text())
            for kind in ("core", "package")
            for path in sys.glob(f"devices/system/cpu/cpu[0-9]*/thermal_throttle/{kind}_throttle_count")
        ]
        return Disturbance(time.monotonic(), stolen / os.sysconf("SC_CLK_TCK"), sum(counters) if counters else None)

    def since(self, before: Disturbance) -> dict[str, Any]:
        """What raw files have of it: of the whole stretch, preparations included."""
        throttled = None
        if self.throttled_count is not None and before.throttled_count is not None:
            throttled = self.throttled_count - before.throttled_count
        elapsed_s = max(self.at_s - before.at_s, 1e-9)
        return {"stolen_cores": (self.stolen_s - before.stolen_s) / elapsed_s, "throttled_count": throttled}
