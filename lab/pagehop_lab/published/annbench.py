"""The output of plotting scripts of the ann-benchmarks family, and tables of index builds.

A `.plot` has one line for each configuration, `name(option=value, ...) recall QPS`, among lines of
progress. Values are numbers, words or lists in parentheses. There may be spaces around `=`, which
some scripts write to align columns. A `.ddl` has build seconds and sizes by M and ef_construction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pagehop_lab.analysis.points import Options, OptionValue, Point
from pagehop_lab.published.foreign import FormatError

_NUMBER = r"\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
_POINT = re.compile(rf"\s*(?P<engine>[^()=]+?)\s*\((?P<options>.*)\)\s+(?P<recall>{_NUMBER})\s+(?P<qps>{_NUMBER})\s*$")
_PROGRESS = re.compile(r"\s*$|writing output to |Computing knn metrics|Found cached result")
# Options of a search as the engines' modules call them; all others are those of a build.
_SEARCH = ("ef_search", "ef", "hnsw_ef", "efSearch", "nprobe", "n_probe", "search_k", "expansion_search", "itopk")
_NAMED = re.compile(r"(?P<name>\w+)\s*=(?P<value>.*)")
_OPEN, _CLOSE = "([{", ")]}"


def read_plot(path: Path, sessions: int = 1) -> list[Point]:
    """The points of a file; `sessions` is in its name, not in it."""
    return points_of(path.read_text().splitlines(), path.name, sessions)


def points_of(lines: Iterable[str], name: str, sessions: int = 1) -> list[Point]:
    """The points in the lines of a file, whose name begins with that of the set."""
    points = []
    for number, line in enumerate(lines, start=1):
        found = _POINT.match(line)
        if found is None:
            if not _PROGRESS.match(line):
                raise FormatError(f"{name}, line {number}: {line!r} is neither a point nor progress")
            continue
        options = tuple(_options(found["options"]))
        build: Options = tuple(option for option in options if option[0] not in _SEARCH)
        search: Options = tuple(option for option in options if option[0] in _SEARCH)
        dataset = name.partition(".")[0]
        recall, qps = float(found["recall"]), float(found["qps"])
        if recall > 1:
            raise FormatError(f"{name}, line {number}: recall is {recall:g}, the most is 1")
        points.append(Point(dataset, found["engine"], build, search, recall, qps, sessions, file=name))
    return points


def _options(text: str) -> Iterator[tuple[str, OptionValue]]:
    """Options in the order of the line; an option without a name gets its position, from 1, as its
    name.
    """
    for place, option in enumerate(_parts(_bare(text)), start=1):
        named = _NAMED.match(option)
        yield (named["name"], _value(named["value"])) if named else (f"{place}", _value(option))


def _bare(text: str) -> str:
    """A text without parentheses around all of it."""
    text = text.strip()
    while text.startswith("(") and _closing(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _closing(text: str) -> int:
    """The place of the parenthesis that closes the first one; -1 if none does."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if depth == 0:
            return place
    return -1


def _parts(text: str) -> Iterator[str]:
    """The parts between commas outside parentheses."""
    depth, part = 0, ""
    for letter in f"{text},":
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and depth <= 0:
            if part.strip():
                yield part.strip()
            part = ""
        else:
            part += letter


def _value(text: str) -> OptionValue:
    text = text.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text, text)


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
