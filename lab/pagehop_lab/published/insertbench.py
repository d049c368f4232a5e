"""Results of the Insert Benchmark: the CSV that its summary script prints for a server.

The first line names the columns. Then each step has a line, in the order of the benchmark. A line
has no name of its step, and ends with the tag that the user gave to the server.
"""

from __future__ import annotations

import csv
from pathlib import Path

from pagehop_lab.published.foreign import FormatError, rate

NAME = "Insert Benchmark"
STEPS = (
    "l.i0", "l.x", "l.i1", "l.i2", *(f"{kind}{rate}" for rate in (100, 500, 1000) for kind in ("qr", "qp")),
)  # fmt: skip
"""The steps in the order of the lines."""
_COLUMNS = ("ips", "qps", "tag")


def read_rates(path: Path) -> dict[str, dict[str, float]]:
    """Rows, or queries, a second of each step by tag. FormatError names the line."""
    try:
        lines = list(csv.reader(path.read_text().splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    head = [cell.strip() for cell in lines[0]] if lines else []
    if missing := [name for name in _COLUMNS if head.count(name) != 1]:
        raise FormatError(f"{path.name}: its first line has no {', '.join(missing)}: it is no summary of the {NAME}")
    of_tags: dict[str, list[float]] = {}
    for at, cells in enumerate(lines[1:], start=2):
        if not cells:
            continue
        if len(cells) != len(head):
            raise FormatError(f"{path.name}, line {at}: {len(cells)} figures for {len(head)} columns")
        told = {name: cell.strip() for name, cell in zip(head, cells, strict=True)}
        rates = of_tags.setdefault(told["tag"], [])
        step = STEPS[min(len(rates), len(STEPS) - 1)]
        rates.append(rate(told["ips" if step.startswith("l.") else "qps"], path, at))
    for tag, rates in of_tags.items():
        if len(rates) != len(STEPS):
            raise FormatError(f"{path.name}: {tag} has {len(rates)} lines, and there are {len(STEPS)} steps")
    if not of_tags:
        raise FormatError(f"{path.name}: it has no line with figures")
    return {tag: dict(zip(STEPS, rates, strict=True)) for tag, rates in of_tags.items()}
