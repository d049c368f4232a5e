"""Servers of a repeat whose memory is limited once they are loaded: their data do not fit.

Memory that a process held before it is limited is not counted. So a server is started again, with
none of its files in the kernel's cache, and limited before its first query.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from devserver import DevServerError
from devserver.volume import forget
from pagehop_lab.analysis.server_records import CaseRecord
from pagehop_lab.engines.engine import EngineError
from pagehop_lab.measure.limit import MemoryLimit
from pagehop_lab.measure.usage import family
from pagehop_lab.plan.servers import ServerSpec


@dataclass
class Memory:
    """Limits of MiB, the kernel's cache of a server's files included; none of 0 MiB."""

    mib: int
    _held: dict[ServerSpec, tuple[MemoryLimit, int]] = field(default_factory=dict)
    _killed: dict[ServerSpec, int] = field(default_factory=dict)
    """Number of processes that the kernel had killed before the running measurement."""

    def hold(self, server: ServerSpec, instance: Any, data_bytes: int, stack: ExitStack) -> None:
        """Starts a server again within its limit, which ends with the stack.

        DevServerError where memory cannot be limited, or the server does not start.
        """
        if not self.mib:
            return
        instance.stop()
        forget(instance.folder)
        instance.start()
        try:
            limit = MemoryLimit(self.mib, name=str(len(self._held)))
            stack.callback(limit.close)
            limit.enter(family(instance.pid))
        except EngineError as error:
            raise DevServerError(str(error)) from None
        self._held[server] = limit, data_bytes

    def begin(self, server: ServerSpec) -> None:
        """Called before each measurement: earlier kills are not the reason if it fails."""
        if server in self._held:
            self._killed[server] = self._held[server][0].killed()

    def told(self, server: ServerSpec) -> CaseRecord:
        """For the raw measurement: the limit, the most that was held since it began, which is in
        all measurements of a repeat together, and the size of the data.
        """
        if server not in self._held:
            return {}
        limit, data_bytes = self._held[server]
        return {"memory": limit.told(), "times_memory": data_bytes / (self.mib << 20)}

    def reason(self, server: ServerSpec, reason: str) -> str:
        """The reason why a measurement failed, with the limit if that may be the cause."""
        # The kernel counts from the start of the limit.
        return self._held[server][0].reason(reason, self._killed.get(server, 0)) if server in self._held else reason
