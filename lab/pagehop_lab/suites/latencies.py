"""Charts of latency by the share of the queries that had it or less: p50, p95 and p99."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from pagehop_lab.analysis.records import PointRecord
from pagehop_lab.analysis.settings import Setting
from pagehop_lab.suites.server_results import Measured, R
from pagehop_lab.suites.table import Chart, Mark, Series

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
# With fewer queries a percentile is their maximum.
_QUERIES_MIN = {"p95": 20, "p99": 100}

Repeat = tuple[Mapping[str, float], str]
"""Milliseconds by percentile, and the raw file."""


def percentiles(name: str, title: str, curves: Mapping[str, Sequence[Repeat]], note: str = "") -> Chart:
    """A line for each name, through the middle of its repeats at each percentile that they have."""
    series = []
    for curve, repeats in curves.items():
        marks = []
        for key, share in SHARES.items():
            figures = sorted((ms[key], file) for ms, file in repeats if ms.get(key))
            if figures:
                middle = statistics.median(figure for figure, _ in figures)
                file = figures[len(figures) // 2][1]
                marks.append(
                    Mark(share, middle, f"{key}: {middle:,.3g} ms", file, False, figures[0][0], figures[-1][0])
                )
        if marks:
            series.append(Series(curve, marks, [(mark.x, mark.y) for mark in marks]))
    note = f"0.99 is p99. Bars are from the least to the greatest repeat. {note}".strip()
    return Chart(name, title, "share of the queries that took no longer", "milliseconds", series, True, note)


def has(raw: PointRecord, name: str) -> bool:
    """Whether a measurement has enough queries for a percentile, or any other figure of latency."""
    return name not in _QUERIES_MIN or raw["count"] >= _QUERIES_MIN[name]


def of_setting(setting: Setting) -> list[Repeat]:
    """The latencies of an engine's setting."""
    return [
        ({key: latency[key] / 1e3 for key in SHARES if has(point.raw, key)}, point.file)
        for point in setting.points
        if (latency := point.raw["latency_us"])
    ]


def of_measured(found: Sequence[Measured[R]], of: Callable[[R], Mapping[str, float] | None]) -> list[Repeat]:
    """The latencies of a server's step, which its raw files may have in milliseconds."""
    return [(ms, one.file) for one in found if (ms := of(one.raw)) is not None]
