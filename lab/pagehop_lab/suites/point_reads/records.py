"""The fields of raw files of point reads, beside those of all suites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pagehop_lab.analysis.server_records import CaseRecord


class ReadRecord(CaseRecord, total=False):
    """Point reads by a number of clients."""

    clients: int
    read_ahead_kib: int | None
    """How far the kernel reads ahead; None if the data have no file system of their own."""
    own_counters: Mapping[str, float]
    """The server's own counts of reads for each query, by its own names."""
    windows_qps: Sequence[float]
    """Queries a second in each window until the rates came to rest."""
    windows_reads: Sequence[float]
    """Reads a second by the disk, in the same windows."""
