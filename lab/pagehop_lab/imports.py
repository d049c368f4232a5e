"""`pagehop-lab import`: results of other benchmarks into the folder of a run, marked as foreign."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pagehop_lab.analysis.points import OptionValue
from pagehop_lab.published.foreign import Foreign
from pagehop_lab.published.read import read
from pagehop_lab.store import RunFolder
from pagehop_lab.suites.foreign import USUAL_K


def into(folder: Path, files: Sequence[Path], truth: Path | None, dataset: str | None) -> int:
    """Adds the points of all files, or none if one cannot be read. Returns how many are new.

    `dataset` is the set of the run that they are shown with, if its name differs.
    """
    points = [point for file in files for point in read(file, truth)]
    new = 0
    with RunFolder.adding(folder) as run:
        for point in points:
            identity, raw = _identity(point, dataset or point.dataset), _raw(point)
            before = run.get("foreign", identity)
            if before is None or before.raw != raw:
                run.add("foreign", f"{point.dataset}.{point.engine}", identity, raw)
                new += 1
    return new


def _identity(point: Foreign, dataset: str) -> dict[str, object]:
    batch = [option for option in point.search if option[0] == "batch"]
    asked: list[tuple[str, OptionValue]] = [("k", point.k)] if point.k != USUAL_K else []
    asked += [("matching", point.matching)] if point.matching != 1 else []
    return {
        "benchmark": point.benchmark,
        "source": point.source,
        "set": dataset,
        "engine": point.engine,
        "build": [list(option) for option in point.build],
        "search": [list(option) for option in point.search if option not in batch],
        "asked": [list(option) for option in [*asked, *batch]],
        "sessions": point.sessions,
    }


def _raw(point: Foreign) -> dict[str, object]:
    return {
        "recall": point.recall,
        "recall_of": point.recall_of,
        "qps": point.qps,
        "source": point.source,
        "set_of_the_file": point.dataset,
        **point.more,
    }
