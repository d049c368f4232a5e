"""`pagehop-lab import`: results of other benchmarks into the folder of a run, marked as foreign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pagehop_lab import report
from pagehop_lab.analysis.points import OptionValue
from pagehop_lab.published import sysbench
from pagehop_lab.published.foreign import Foreign, FormatError
from pagehop_lab.published.read import read
from pagehop_lab.store import RunFolder
from pagehop_lab.suites.foreign import USUAL_K
from pagehop_lab.suites.server_results import ServerResults


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


def qps_into(folder: Path, files: Sequence[Path], versions: Sequence[str], product: str | None) -> int:
    """Adds published QPS of the tests of a run of `oltp`, or none if a file cannot be read.

    Returns how many versions are new. `versions` are those of the columns, `product` is of them,
    where the run has several.
    """
    results = report.read(folder).results
    assert isinstance(results, ServerResults)
    there = list(dict.fromkeys(facts.name.partition(" ")[0] for facts in results.servers))
    if product is None and len(there) > 1:
        raise FormatError(f"{folder} has servers of {' and '.join(there)}: say of which the figures are, by --server")
    if product is not None and product not in there:
        raise FormatError(f"{folder} has no {product}, only {', '.join(there)}")
    found = {file.name: sysbench.read_qps(file, versions) for file in files}
    new = 0
    for name, by_version in found.items():
        if not any(case in results.groups for qps in by_version.values() for case in qps):
            raise FormatError(f"{name}: the run has none of its tests, such as {_first(by_version)}")
    with RunFolder.adding(folder) as run:
        for name, by_version in found.items():
            for version, qps in by_version.items():
                of = {"benchmark": sysbench.NAME, "source": name, "product": product or there[0], "version": version}
                before = run.get("foreign", of)
                if before is None or before.raw != {"qps": qps}:
                    run.add("foreign", f"{of['product']}.{version}", of, {"qps": qps})
                    new += 1
    return new


def _first(by_version: Mapping[str, Mapping[str, float]]) -> str:
    return next(case for qps in by_version.values() for case in qps)


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
