"""Results of other benchmarks, one point for each configuration, with where they are from.

A foreign figure was measured elsewhere, by another client, on another machine. It is shown beside
ours, with its source, and never compared with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pagehop_lab.analysis.points import Options


class FormatError(Exception):
    """A file that is of no known kind, or is incomplete; the text says how."""


@dataclass(frozen=True)
class Foreign:
    """One configuration that was measured elsewhere."""

    benchmark: str
    """The benchmark with this format: `ann-benchmarks`, `VectorDBBench`, `VIBE`."""
    source: str
    """The name of the file."""
    dataset: str
    engine: str
    build: Options
    search: Options
    k: int
    recall: float
    recall_of: str
    """The kind of recall, in a few words."""
    qps: float
    sessions: int = 1
    matching: float = 1.0
    """Share of the rows that meet the filter."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Other values of the file: build seconds, latencies."""


def number(value: object, name: str, path: Path, least: float = 0.0) -> float:
    """A figure of a file, checked: bytes from elsewhere are not trusted."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least or value == float("inf"):
        raise FormatError(f"{path.name}: {name} is {value!r}, it should be a number of at least {least:g}")
    return float(value)


def rate_above_0(value: object, path: Path) -> float:
    """Queries a second, checked: a rate of 0 measured nothing."""
    found = number(value, "qps", path)
    if found == 0:
        raise FormatError(f"{path.name}: qps is 0")
    return found


def rate(text: str, path: Path, at: int) -> float:
    """A rate in a line of a table of text, checked: it is above 0."""
    try:
        found = number(float(text), f"the figure of line {at}", path)
    except ValueError:
        raise FormatError(f"{path.name}, line {at}: {text!r} is not a figure") from None
    if found == 0:
        raise FormatError(f"{path.name}, line {at}: 0 a second")
    return found


def share(value: float, path: Path) -> float:
    """A recall, checked: it is a share."""
    if value > 1:
        raise FormatError(f"{path.name}: recall is {value:g}, the most is 1")
    return value
