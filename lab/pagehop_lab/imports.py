"""`pagehop-lab import`: results of other benchmarks into the folder of a run, marked as foreign."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pagehop_lab import report
from pagehop_lab.analysis.points import OptionValue
from pagehop_lab.published import insertbench, sysbench
from pagehop_lab.published.foreign import Foreign, FormatError
from pagehop_lab.published.read import read
from pagehop_lab.store import RunFolder, checksum
from pagehop_lab.suites.foreign import USUAL_K
from pagehop_lab.suites.server_results import AnyServers, ServerResults

Say = Callable[[str], None]


@dataclass(frozen=True)
class Found:
    """A foreign record that a file has."""

    file: Path
    words: str
    identity: Mapping[str, object]
    raw: Mapping[str, object]


def into(folder: Path, files: Sequence[Path], truth: Path | None, dataset: str | None, say: Say) -> int:
    """Adds the points of all files, or none if one cannot be read. Returns how many are new.

    `dataset` is the set of the run that they are shown with, if its name differs.
    """
    points = [(file, point) for file in files for point in read(file, truth)]
    return _add(
        folder,
        [
            Found(file, f"{one.dataset}.{one.engine}", _identity(one, dataset or one.dataset), _raw(one))
            for file, one in points
        ],
        say,
    )


def qps_into(folder: Path, files: Sequence[Path], versions: Sequence[str], product: str | None, say: Say) -> int:
    """Adds published QPS of the tests of a run of `oltp`, or none if a file cannot be read.

    Returns how many versions are new. `versions` are those of the columns, `product` is of them,
    where the run has several.
    """
    results = report.read(folder).results
    assert isinstance(results, ServerResults)
    product = _product(folder, results, product)
    found = []
    for file in files:
        by_version = sysbench.read_qps(file, versions)
        if not any(case in results.groups for qps in by_version.values() for case in qps):
            raise FormatError(f"{file.name}: the run has none of its tests, such as {_first(by_version)}")
        for version, qps in by_version.items():
            of = {"benchmark": sysbench.NAME, "source": file.name, "product": product, "version": version}
            found.append(Found(file, f"{product}.{version}", of, {"qps": qps}))
    return _add(folder, found, say)


def rates_into(folder: Path, files: Sequence[Path], versions: Sequence[str], product: str | None, say: Say) -> int:
    """Adds results of the Insert Benchmark to a run of `inserts`, or none if a file cannot be read.

    Returns how many versions are new. `versions` has one for each tag of the files, in their order.
    The files of a call are one study.
    """
    results = report.read(folder).results
    assert isinstance(results, ServerResults)
    product = _product(folder, results, product)
    tagged = [(file, tag, rates) for file in files for tag, rates in insertbench.read_rates(file).items()]
    tags, source = [tag for _, tag, _ in tagged], " and ".join(dict.fromkeys(file.name for file in files))
    if len(versions) != len(tags) or len(set(versions)) < len(versions):
        raise FormatError(
            f"{source}: say by --versions V,V which version each tag is, none of them twice: {', '.join(tags)}"
        )
    found = []
    for version, (file, tag, rates) in zip(versions, tagged, strict=True):
        of = {"benchmark": insertbench.NAME, "source": source, "product": product, "version": version}
        found.append(Found(file, f"{product}.{version}", of, {"qps": rates, "tag": tag}))
    return _add(folder, found, say)


def _product(folder: Path, results: AnyServers, asked: str | None) -> str:
    """The product that foreign figures are of: the one that a user names, or the only one."""
    there = list(dict.fromkeys(facts.name.partition(" ")[0] for facts in results.servers))
    if asked is None and len(there) > 1:
        raise FormatError(f"{folder} has servers of {' and '.join(there)}: say of which the figures are, by --server")
    if asked is not None and asked not in there:
        raise FormatError(f"{folder} has no {asked}, only {', '.join(there)}")
    return asked or there[0]


def _add(folder: Path, found: Sequence[Found], say: Say) -> int:
    """Adds what is new, and says which files have other figures than before under their name."""
    first: dict[str, Found] = {}
    for one in found:
        other = first.setdefault(checksum(one.identity), one)
        if other.raw == one.raw:
            continue
        if other.file == one.file:
            raise FormatError(f"{one.file}: it has two figures of one configuration of {one.words}")
        raise FormatError(
            f"{other.file} and {one.file} have one name and different figures of {one.words}: rename one of them"
        )
    new, replaced = 0, dict[str, int]()
    with RunFolder.adding(folder) as run:
        for one in first.values():
            before = run.get("foreign", one.identity)
            if before is not None and before.raw == one.raw:
                continue
            if before is not None:
                replaced[one.file.name] = replaced.get(one.file.name, 0) + 1
            run.add("foreign", one.words, one.identity, one.raw)
            new += 1
    for name, count in replaced.items():
        say(f"{name}: {count} other figures of this name, imported before, are replaced; rename the file to have both")
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
