"""The fields of raw files of vector inserts, beside those of other inserts."""

from __future__ import annotations

from pagehop_lab.analysis.server_records import StepRecord


class VectorStepRecord(StepRecord, total=False):
    """A step on a table of vectors."""

    index_bytes: int
    """Size of the index after the step."""
    recall_judged: int
    """Number of queries of which recall is the mean."""
