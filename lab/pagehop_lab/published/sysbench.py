"""Published queries a second by test and version: a name, then a figure for each version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pagehop_lab.published.foreign import FormatError


def read_qps(path: Path, versions: Sequence[str]) -> dict[str, dict[str, float]]:
    """QPS of each test by version.

    The file has as many columns as versions; `#` begins a comment.
    """
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
