"""The part of the load that all suites of servers share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class ServersLoad:
    """How tests are run, and the number of repeats."""

    in_cases: ClassVar[frozenset[str]] = frozenset({"repeats"})
    """Fields that the name or the repeat of a measurement has, so its identity leaves them out."""

    later: ClassVar[frozenset[str]] = frozenset({"rounds", "memory_mib"})
    """Fields that were added to plans later: with their default value the identity leaves them out,
    as older plans did.
    """

    rows: int = 100_000
    clients: int = 1
    seconds: float = 1.0
    warmup_s: float = 0.3
    repeats: int = 3
    """Number of repeats. Each has new servers and new data. Every other one goes in reverse order.
    """
    rounds: int = 1
    """In each round all servers run in turns, each for its part of `seconds`.

    With 1, one after another.
    """
    load_timeout_s: float = 600.0
    memory_mib: int = 0
    """All that a server may hold once it is loaded, the kernel's cache of its files included.

    0 means no limit.
    """

    def identity(self) -> dict[str, Any]:
        """The fields that decide figures and that the name of a measurement does not have."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in self.in_cases and not (name in self.later and value == getattr(type(self), name))
        }
