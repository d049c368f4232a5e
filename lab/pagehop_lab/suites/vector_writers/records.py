"""The fields of raw files of writers, beside those of all suites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pagehop_lab.analysis.server_records import CaseRecord


class WritersRecord(CaseRecord, total=False):
    """A step with writers."""

    writers: int
    """Number of clients that write."""
    commit_ms: Mapping[str, float]
    """`p50`, `p95`, `p99` and `max` of the commits."""

    log_rows: int
    """Number of rows that the log has."""
    log_record_bytes: float
    """Bytes of records for a row, where the log was read again, as the next one."""
    log_image_bytes: float
    """Bytes of images of whole pages for a row."""

    idle_ms: Mapping[str, float]
    """`p50`, `p95`, `p99` and `max` of searches without writers, from when a search was due."""
    idle_sent_ms: Mapping[str, float]
    """Without writers, from when a search was sent."""
    sent_ms: Mapping[str, float]
    """Beside writers, from when a search was sent."""
    search_p50_ms: float
    """Beside writers, from when a search was due, as the next one."""
    search_p99_ms: float
    p50_over_idle: float
    """The latency beside writers over that without them, as the next one."""
    p99_over_idle: float

    rows_full_per_s: float
    """Rows at the full rate of the writers."""
    rows_before_per_s: float
    """Rows before autovacuum, beside it, and after it; None if it did not end."""
    rows_beside_per_s: float
    rows_after_per_s: float | None
    vacuum_s: float
    """Seconds for which autovacuum was seen at work."""
    vacuum_ended: bool
    """Whether it ended in that time. Older files lack it."""
    vacuum_share: float
    """The rate beside autovacuum over that before it."""

    recall_after: Sequence[float]
    """Recall after many writers, at each candidate list."""
    recall_built: Sequence[float]
    """The same of one build over these rows."""
    recall_gain: float
    """The first minus the second, at the list where it is least."""
    index_s: float
    """Seconds of CREATE INDEX for that build."""
