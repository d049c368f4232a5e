"""What every load of servers says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class ServersLoad:
    """How tests are asked and how often."""

    in_cases: ClassVar[frozenset[str]] = frozenset({"repeats"})
    """What the name of a measurement says, or its repeat: it is not said again in its identity."""

    later: ClassVar[frozenset[str]] = frozenset({"rounds", "memory_mib"})
    """What plans have had since some day: with the usual value it is not said, as it was not."""

    rows: int = 100_000
    clients: int = 1
    seconds: float = 1.0
    warmup_s: float = 0.3
    repeats: int = 3
    """Each has new servers and new data. Every other one goes in reverse order."""
    rounds: int = 1
    """In each round all servers run in turns, each for its part of `seconds`.

    With 1, one after another.
    """
    load_timeout_s: float = 600.0
    memory_mib: int = 0
    """All that a server may hold once it is loaded, the kernel's cache of its files included.

    0 is no limit.
    """

    def identity(self) -> dict[str, Any]:
        """What decides figures and is not said by the name of a measurement."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in self.in_cases and not (name in self.later and value == getattr(type(self), name))
        }
