"""The fields of raw files of documents, beside those of all suites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from pagehop_lab.analysis.server_records import CaseRecord


class OutOfLine(TypedDict, total=False):
    """Values that are stored outside of the rows."""

    toast_bytes_per_row: float
    """Size of PostgreSQL's TOAST table; other servers lack it."""


class DocumentRecord(CaseRecord, OutOfLine, total=False):
    """Queries of one attribute of one document."""

    load_s: float
    """Seconds until the documents were in the table, and the server was settled."""
    bytes_per_row: float
    """Bytes on disk, with the key's index."""
    per_second: Mapping[str, Sequence[int]]
    """The number of queries in each second."""
