"""Write amplification of logs: whole pages for a few bytes, and a ledger of all writers.

Every commit may write the log up to its end, and in whole pages. Bytes after the last page boundary
are written with the rest of their page, and again with the bytes that come next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pagehop_lab.analysis.case import Case

UNEXPLAINED_MAX = 0.02


@dataclass(frozen=True)
class LogCase(Case):
    """A number of clients, each of which inserts a row of a number of bytes in a commit."""

    clients: int = 1
    commit_bytes: int = 100


def log_cases(commit_bytes: Iterable[int], sessions: Iterable[int]) -> tuple[LogCase, ...]:
    """Every size of a commit by every number of clients."""
    clients = list(sessions)
    return tuple(
        LogCase(f"bytes={size} clients={count}", f"clients={count}", "commits", size, clients=count, commit_bytes=size)
        for size in commit_bytes
        for count in clients
    )


def bytes_per_sync(written: int, syncs: int) -> float:
    """Bytes of log for each time that it was made safe."""
    return written / syncs


def least(per_sync: float, page: int) -> float:
    """Bytes written for each byte of log, at least: writes that begin at a page."""
    return page * math.ceil(per_sync / page) / per_sync


def expected(per_sync: float, page: int) -> float:
    """Bytes written for each byte of log, if writes begin at uniformly random bytes of pages."""
    return (page + per_sync - 1) / per_sync


@dataclass(frozen=True)
class Account:
    """Of one log, what the disk was given and what of that is accounted for, in bytes."""

    device: int
    log: float | None
    """As the server counts it, or by the formula from the writes that it counts."""
    by_formula: bool
    file_system: int
    """For the log's files, and not in them."""

    @property
    def unexplained(self) -> float | None:
        """Share of the disk's bytes without a known source.

        Negative if the sources count more than the disk.
        """
        if self.log is None or not self.device:
            return None
        return 1 - (self.log + self.file_system) / self.device

    @property
    def adds_up(self) -> bool:
        """Whether it does within what is allowed."""
        return self.unexplained is not None and abs(self.unexplained) <= UNEXPLAINED_MAX


def account(log: Mapping[str, Any]) -> Account | None:
    """The account of a log of a raw measurement; None where its disk is also others'."""
    if log["device"] is None:
        return None
    counted, grown = log["counted_bytes"], log["logical_bytes"]
    # Writes that are merged before a sync go to the disk once. Syncs are 0 if each write is
    # durable.
    writes = min(filter(None, (log["writes"], log["syncs"])), default=0)
    found: float | None = counted
    if counted is None and writes and grown:
        found = expected(grown / writes, log["page_bytes"]) * grown
    besides = (log["requests"] or {}).get("file_system_bytes", 0)
    return Account(log["device"]["bytes"], found, counted is None, besides)


def per_sync(log: Mapping[str, Any]) -> float | None:
    """Bytes of a log for each sync, or for each write where the server does not count syncs."""
    times = log["syncs"] or log["writes"]
    return bytes_per_sync(log["logical_bytes"], times) if times and log["logical_bytes"] else None
