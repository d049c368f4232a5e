"""Warnings that searches of an index may find less than their recall."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from pagehop.errors import RecallWarning
from pagehop.reports import RecallReport

_CALLER = 3
"""Frames from `warnings.warn` to the code that called a method of `Index`."""


class RecallWarnings:
    """The warnings of one open index, at `path`."""

    __slots__ = ("_given", "_path")

    def __init__(self, path: str) -> None:
        self._given: set[tuple[object, ...]] = set()
        self._path = path

    def of_plan(
        self,
        k: int,
        recall: float | None,
        uncalibrated: bool,
        best: float | None,
        outdated: tuple[int, int, bool] | None,
        calibration: int,
    ) -> None:
        """Warns of each once, there may be millions of searches: until the next calibration, by
        which call or process ever; of a recall out of reach, for each `k` and recall.
        """
        for name, what in _of_plan(k, recall, uncalibrated, best, outdated):
            this = (calibration, name, k, recall) if name == "best" else (calibration, name)
            if this not in self._given:
                self._given.add(this)
                warnings.warn(f"{self._path}: {what}", RecallWarning, stacklevel=_CALLER)

    def of_audit(self, report: RecallReport, by_queries: bool) -> None:
        """Warns that an audit found less than the recall that it was given."""
        advice = "calibrate() measures again what it takes"
        if by_queries:
            advice = "calibrate(queries) measures what it takes for queries like these"
        warnings.warn(
            f"{self._path}: searches for {report.k} rows with recall={report.target:g} find {report.recall:.4f} +- "
            f"{report.half_interval:.4f}; {advice}",
            RecallWarning,
            stacklevel=_CALLER,
        )


def _of_plan(
    k: int, recall: float | None, uncalibrated: bool, best: float | None, outdated: tuple[int, int, bool] | None
) -> Iterator[tuple[str, str]]:
    """The warnings about a plan: a name for each kind, and the text."""
    if uncalibrated:
        yield (
            "uncalibrated",
            f"the index was never calibrated, so the settings for recall={recall:g} are not known; calibrate() "
            "measures them, for an index opened with write=True",
        )
    if best is not None:
        yield (
            "best",
            f"recall={recall:g} is above the highest recall that the calibration reached for {k} rows, which is "
            f"{best:.4f}; searches use the settings of its longest search. recall=1 is exact",
        )
    if outdated is not None:
        changes, rows, longer_rows = outdated
        what, risk = f"{changes} rows were added or deleted", "find less than their recall"
        if longer_rows:
            what, risk = "rows longer than all earlier ones were added", "take longer than they need"
        yield (
            "outdated",
            f"{what} since the index was calibrated at {rows} rows, so searches may {risk}; calibrate() measures again",
        )
