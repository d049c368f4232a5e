"""The fields of raw files of log writes, beside those of all suites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from pagehop_lab.analysis.server_records import CaseRecord


class LogDevice(TypedDict):
    """Bytes that the disk of a log was given."""

    bytes: int
    writes: int
    """Number of requests."""


class LogRequests(TypedDict, total=False):
    """The kernel's trace of the requests to the disk of a log."""

    log_bytes: int
    """Bytes in the log's files."""
    log_writes: int
    """Number of requests in the log's files."""
    file_system_bytes: int
    """Bytes elsewhere."""
    least_write_bytes: int | None
    """The smallest write in the log's files; None if there is none."""
    lost: int
    """Number of events that did not fit into the trace."""


class LogRecord(TypedDict):
    """A log: figures that the server does not count, or that nothing traced, are None."""

    name: str
    sector_bytes: int
    page_bytes: int
    """The smallest write, by the server or the kernel."""
    logical_bytes: int
    """By how many bytes the log grew."""
    counted_bytes: int | None
    """Bytes that the server counts as written."""
    writes: int | None
    """Number that the server counts, as the next one."""
    syncs: int | None
    device: LogDevice | None
    """None if the log has no disk of its own."""
    requests: LogRequests | None


class PagesRecord(TypedDict):
    """Pages of tables and indexes that were written to their files."""

    bytes: int
    by: Mapping[str, int]
    """Number of pages by each kind of process."""
    doubled_bytes: int
    """Bytes in InnoDB's doublewrite buffer."""
    doubled_writes: int | None
    """Number of writes to that buffer."""
    images: int | None
    """Number of whole pages in PostgreSQL's log."""
    bytes_per_write: float | None
    """Mean size of a write to InnoDB's data files."""


class KernelRecord(TypedDict):
    """All files together, as the kernel counts them for the server's processes."""

    write_syscall_bytes: int
    """Bytes that were given to write()."""
    write_bytes: int
    """Bytes that were marked to be written to storage."""
    data_bytes: float | None
    """Bytes of tables and indexes, by the server's count."""


class CommitsRecord(CaseRecord, total=False):
    """Commits of one size, and what wrote how many bytes."""

    clients: int
    commit_bytes: int
    """Size of the row that a commit inserts."""
    payload_bytes: int
    """Size of all these rows."""
    logs: Sequence[LogRecord]
    own_counters: Mapping[str, float]
    """By how much the server's counters grew, by its own names."""
    pages: PagesRecord
    """Of measurements that lasted until all changed pages were in their files."""
    kernel: KernelRecord
