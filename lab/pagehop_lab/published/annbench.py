"""The text that plotting scripts of the ann-benchmarks family print, and tables of index builds beside it.

A `.plot` has one line for each configuration, `name(option=value, ...) recall QPS`, among lines of progress. A `.ddl`
has build seconds and sizes by M and ef_construction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pagehop_lab.analysis.points import Options, OptionValue, Point

_POINT = re.compile(r"\s*(?P<engine>\w+)\((?P<options>[^)]*)\)\s+(?P<recall>[\d.]+)\s+(?P<qps>[\d.]+)\s*$")
_PROGRESS = re.compile(r"\s*$|writing output to |Computing knn metrics|Found cached result")
_SEARCH = ("ef_search",)


class FormatError(Exception):
    """A line that none of the known kinds fits."""


def read_plot(path: Path, sessions: int = 1) -> list[Point]:
    """The points of a file; `sessions` is in its name, not in it."""
    points = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        found = _POINT.match(line)
        if found is None:
            if not _PROGRESS.match(line):
                raise FormatError(f"{path.name}, line {number}: {line!r} is neither a point nor progress")
            continue
        options = tuple(_options(found["options"]))
        build: Options = tuple(option for option in options if option[0] not in _SEARCH)
        search: Options = tuple(option for option in options if option[0] in _SEARCH)
        dataset = path.name.partition(".")[0]
        recall, qps = float(found["recall"]), float(found["qps"])
        points.append(Point(dataset, found["engine"], build, search, recall, qps, sessions, file=path.name))
    return points


def _options(text: str) -> Iterator[tuple[str, OptionValue]]:
    for option in filter(None, text.split(", ")):
        name, _, value = option.partition("=")
        yield name, int(value)


def read_builds(path: Path) -> dict[tuple[str, Options], tuple[float, int]]:
    """Seconds and MB of each index, by engine and build options."""
    builds: dict[tuple[str, Options], tuple[float, int]] = {}
    for line in path.read_text().splitlines():
        cells = line.split()
        if not cells or not all(cell.isdigit() for cell in cells):
            continue
        numbers = [int(cell) for cell in cells]
        if len(numbers) == 6:
            m, ef_construction, seconds, size, seconds_half, size_half = numbers
            options: Options = (("m", m), ("ef_construction", ef_construction))
            builds["PGVector", options] = (seconds, size)
            builds["PGVector_halfvec", options] = (seconds_half, size_half)
        elif len(numbers) == 3:
            builds["MariaDB", (("m", numbers[0]),)] = (numbers[1], numbers[2])
        else:
            raise FormatError(f"{path.name}: {line!r} has {len(numbers)} numbers")
    return builds
