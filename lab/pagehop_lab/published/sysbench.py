"""Published queries a second by test and version: a name, then a figure for each version.

The archive's files have no heading: the reader says which versions its columns are. A file
may also begin with a line `test,VERSION,VERSION`. `#` begins a comment.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pagehop_lab.published.foreign import FormatError, rate

NAME = "sysbench"


def read_qps(path: Path, versions: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    """QPS of each test by version.

    `versions` are those of the columns if the file does not say. FormatError names the line.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    found: dict[str, dict[str, float]] = {}
    for at, line in enumerate(lines, start=1):
        if line.startswith("#") or not line.strip():
            continue
        name, *figures = (cell.strip() for cell in line.split(","))
        if not found:
            if name == "test":
                versions = figures
                found = {version: {} for version in versions}
                continue
            found = {version: {} for version in versions}
        if not versions:
            raise FormatError(
                f"{path.name}: it does not say which versions its {len(figures)} columns are: --versions {{V,V,...}}"
            )
        if (double := next((one for one in versions if versions.count(one) > 1), None)) is not None:
            raise FormatError(f"{path.name}: two columns are of the version {double!r}")
        if len(figures) != len(versions):
            raise FormatError(f"{path.name}, line {at}: {len(figures)} figures for {len(versions)} versions")
        if name in found[versions[0]]:
            raise FormatError(f"{path.name}, line {at}: a line before it is of the test {name}, too")
        for version, figure in zip(versions, figures, strict=True):
            found[version][name] = rate(figure, path, at)
    if not any(found.values()):
        raise FormatError(f"{path.name}: it has no line with figures")
    return found
