"""Queries a second by test and version, as published: a name and a figure for each version in a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pagehop_lab.published.foreign import FormatError


def read_qps(path: Path, versions: Sequence[str]) -> dict[str, dict[str, float]]:
    """QPS of each test by version; the file has no names of versions, only as many columns. `#` begins a comment."""
    found: dict[str, dict[str, float]] = {version: {} for version in versions}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if line.startswith("#"):
            continue
        name, *figures = line.split(",")
        if len(figures) != len(versions):
            raise FormatError(f"{path.name}, line {number}: {len(figures)} figures for {len(versions)} versions")
        for version, figure in zip(versions, figures, strict=True):
            found[version][name] = float(figure)
    return found
