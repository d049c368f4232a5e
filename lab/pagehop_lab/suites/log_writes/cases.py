"""Write amplification of logs: whole pages for a few bytes, and a ledger of all writers.

Every commit may write the log up to its end, and in whole pages. Bytes after the last page boundary
are written with the rest of their page, and again with the bytes that come next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pagehop_lab.analysis.case import Case
from pagehop_lab.suites.log_writes.records import CommitsRecord, LogRecord

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
    """Bytes of log per sync."""
    return written / syncs


def least(per_sync: float, page: int) -> float:
    """Least number of bytes written per byte of log: each write begins at a page."""
    return page * math.ceil(per_sync / page) / per_sync


def expected(per_sync: float, page: int) -> float:
    """Bytes written per byte of log if writes begin at uniformly random bytes of pages."""
    return (page + per_sync - 1) / per_sync


@dataclass(frozen=True)
class Account:
    """For one log, the bytes that the disk received, and their known sources."""

    device: int
    log: float | None
    """Bytes of the log as the server counts them, or by the formula from the server's count of
    writes.
    """
    by_formula: bool
    file_system: int
    """Bytes for the log's files that are not in them."""

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
        """Whether the unexplained share is within the limit."""
        return self.unexplained is not None and abs(self.unexplained) <= UNEXPLAINED_MAX


@dataclass(frozen=True)
class WriteBack:
    """Bytes by kind, of a measurement that lasted until all changed pages were in their files."""

    logs: float
    """Bytes of all logs as written: counted, or by the formula, or by the growth of the logs."""
    pages: int
    doubled: int
    """Bytes of the same pages in the doublewrite buffer."""
    written: int
    """Bytes that the kernel counts for disks, for the server's processes."""

    @property
    def total(self) -> float:
        """All that is accounted for."""
        return self.logs + self.pages + self.doubled

    @property
    def unexplained(self) -> float | None:
        """Share of the written bytes that is of no known kind; negative if the kinds sum up to
        more.
        """
        return 1 - self.total / self.written if self.written else None


def write_back(raw: CommitsRecord) -> WriteBack | None:
    """The bytes of a raw measurement by kind; None if it did not wait for the pages."""
    pages = raw.get("pages")
    if pages is None:
        return None
    logs = sum(_log_bytes(log) for log in raw["logs"])
    return WriteBack(logs, pages["bytes"], pages["doubled_bytes"], raw["kernel"]["write_bytes"])


def _log_bytes(log: LogRecord) -> float:
    """Bytes of the log as the server counts them, or by the formula, or by the log's growth."""
    found = account({**log, "device": log["device"] or {"bytes": 0, "writes": 0}})
    return float(log["logical_bytes"]) if found is None or found.log is None else found.log


def account(log: LogRecord) -> Account | None:
    """The account of a log of a raw measurement; None if its disk is shared."""
    if log["device"] is None:
        return None
    counted, grown = log["counted_bytes"], log["logical_bytes"]
    # Writes that are merged before a sync go to the disk once. Syncs are 0 if each write is
    # durable.
    writes = min(filter(None, (log["writes"], log["syncs"])), default=0)
    found: float | None = counted
    if counted is None and writes and grown:
        found = expected(grown / writes, log["page_bytes"]) * grown
    besides = log["requests"]["file_system_bytes"] if log["requests"] else 0
    return Account(log["device"]["bytes"], found, counted is None, besides)


def per_sync(log: LogRecord) -> float | None:
    """Bytes of a log per sync, or per write if the server does not count syncs."""
    times = log["syncs"] or log["writes"]
    return bytes_per_sync(log["logical_bytes"], times) if times and log["logical_bytes"] else None
