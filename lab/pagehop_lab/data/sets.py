"""Sets that are prepared once: rows, queries and truth, in a folder named after their source.

`fashion-mnist`, `generated-DIM`, `uniform-DIM` and the real sets of `./dev data` are known by name.
Any other set is a file in ann-benchmarks' HDF5 layout. The truth in a file is checked: some queries
are compared with every row.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pagehop_lab.data import fashion, files, real
from pagehop_lab.data.errors import DataError
from pagehop_lab.data.generated import Generator
from pagehop_lab.data.hdf5 import read_hdf5
from pagehop_lab.data.truth import check_truth, check_vectors, neighbors

Float32 = npt.NDArray[np.float32]
Say = Callable[[str], None]

VARIABLE = "PAGEHOP_LAB_DATA"
"""The environment variable for the folder of the sets.

The default is `data/lab` in the repository.
"""

NAMED = ("fashion-mnist", "generated-DIM", "uniform-DIM", *real.NAMES)
"""Sets that are known by name; DIM is a number."""

_GENERATED = "generated-"
# Uniform random rows mislead in many dimensions, where all are equally far. A published comparison
# uses them in six.
_UNIFORM = "uniform-"
_GENERATED_ROWS, _GENERATED_QUERIES = 100_000, 1000
_AT_ONCE = 16384
_UNFINISHED = ".unfinished-"
# A real set from this number of rows on is not on the disk twice: it is used as it is, in float16.
_LARGE_ROWS = 1 << 21


@dataclass(frozen=True)
class Facts:
    """The identity of a set, and its description for reports."""

    name: str
    metric: str
    rows: int
    queries: int
    dim: int
    checksum: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Dataset:
    """A set that is ready for use."""

    facts: Facts
    base: Float32
    """Shape [rows, dim], mapped from a file. Rows of a large real set may be float16."""
    queries: Float32
    """Shape [queries, dim]."""
    truth_ids: npt.NDArray[np.int64]
    """Shape [queries, DEPTH or as many rows as there are], nearest first."""
    truth_distances: npt.NDArray[np.float64]
    """The same shape, in the metric's own distance."""
    folder: Path
    """Has base.npy, queries.npy and truth.npz."""
    kept: npt.NDArray[np.bool_] | None = None
    """Whether a filter leaves each row. The truth is that of these rows. None without a filter."""
    samples: Float32 | None = None
    """More queries, for engines to learn from; none of them is measured."""


def known(name: str) -> bool:
    """Whether a set is known by its name."""
    kind, _, dim = name.partition("-")
    has_dim = f"{kind}-" in (_GENERATED, _UNIFORM) and dim.isdigit() and 0 < int(dim) <= 4096
    return has_dim or name == "fashion-mnist" or real_name(name)[0] in real.NAMES


def real_name(name: str) -> tuple[str, int | None]:
    """The real set that a name such as `tokens-384-100000` stands for, and its rows.

    None means all rows.
    """
    first, _, rows = name.rpartition("-")
    return (first, int(rows)) if first in real.NAMES and rows.isdigit() else (name, None)


def data_folder() -> Path:
    """Where sets are kept."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    # Imported here, because it takes a fifth of the start of an engine, which does not need it.
    from devserver.folder import REPOSITORY

    return REPOSITORY / "data" / "lab"


def prepare(
    name: str, path: str | None, rows: int | None, queries: int | None, metric: str | None, seed: int, say: Say,
    samples: int | None = None, queries_path: str | None = None, column: str | None = None,
) -> Dataset:  # fmt: skip
    """The set, from the data folder if it is there; made, checked and kept otherwise."""
    recipe = f"{name} {_source(name, path)} {rows} {queries} {metric} {seed if _is_generated(name, path) else ''} v1"
    recipe += f" samples {samples}" if samples is not None else ""
    recipe += f" queries {_source(name, queries_path)}" if queries_path is not None else ""
    recipe += f" column {column}" if column is not None else ""
    folder = data_folder() / f"{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    if not folder.exists():
        say(f"{name}: making the set and its exact neighbors")
        _make(folder, lambda scratch: _fill(scratch, name, path, rows, queries, metric, seed, queries_path, column))
    if samples is not None and not (folder / "samples.npy").exists():
        if real_name(name)[0] not in real.NAMES:
            raise DataError(f"{name} has no samples: only real sets have")
        more = np.load(_real_folder(name) / "queries.npy")[queries:][:samples]
        if len(more) < samples:
            raise DataError(f"{name}: after {queries} queries there are {len(more)} more, and not {samples} samples")
        unfinished = folder / f"{_UNFINISHED}{os.getpid()}-samples.npy"
        np.save(unfinished, more.astype(np.float32))
        unfinished.replace(folder / "samples.npy")
    found = load(folder, name)
    # A set that was made before it was checked may have fewer.
    _check_counts(name, rows, queries, len(found.base), len(found.queries))
    return found


def _check_counts(name: str, rows: int | None, queries: int | None, rows_there: int, queries_there: int) -> None:
    """A set with less than a plan says would be measured as if it had that much."""
    for key, wanted, there in (("rows", rows, rows_there), ("queries", queries, queries_there)):
        if wanted is not None and wanted > there:
            raise DataError(f"{name}: {key} = {wanted}, and there are {there}: say {there} at most, or leave {key} out")


def load(folder: Path, name: str) -> Dataset:
    """A set that was made before."""
    base = np.load(folder / "base.npy", mmap_mode="r")
    queries = np.load(folder / "queries.npy")
    with np.load(folder / "truth.npz") as file:
        ids, distances, about = file["ids"], file["distances"], {n: str(file[n]) for n in ["metric", "checksum"]}
    facts = Facts(name, about["metric"], len(base), len(queries), int(base.shape[1]), about["checksum"])
    samples = folder / "samples.npy"
    more = np.load(samples) if samples.exists() else None
    return Dataset(facts, base, queries, ids, distances, folder, samples=more)


def filtered(dataset: Dataset, kept: npt.NDArray[np.bool_], name: str) -> Dataset:
    """The set after a filter, with the truth of the remaining rows, which is kept under `name`."""
    path = dataset.folder / f"truth-{name}.npz"
    if not path.exists():
        rows = np.flatnonzero(kept)
        if not len(rows):
            raise DataError(f"{dataset.facts.name}: the filter {name} leaves no row")
        among, distances = neighbors(np.asarray(dataset.base[rows]), dataset.queries, dataset.facts.metric)
        unfinished = path.with_name(f"{_UNFINISHED}{os.getpid()}-{path.name}")
        np.savez(unfinished, ids=rows[among], distances=distances)
        unfinished.replace(path)
    with np.load(path) as file:
        return replace(dataset, kept=kept, truth_ids=file["ids"], truth_distances=file["distances"])


def _is_generated(name: str, path: str | None) -> bool:
    return path is None and name.startswith((_GENERATED, _UNIFORM))


def _source(name: str, path: str | None) -> str:
    """The source of a set in its present state."""
    if path is None:
        if not known(name):
            raise DataError(f"there is no set {name}: {', '.join(NAMED)}, or give a path to an HDF5 file")
        if real_name(name)[0] in real.NAMES:
            return str(_about_real(name)["checksum"])
        return Generator(1).recipe() if _is_generated(name, path) else ""
    try:
        about = Path(path).stat()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    return f"{Path(path).resolve()} {about.st_size} {about.st_mtime_ns}"


def _about_real(name: str) -> dict[str, Any]:
    """The content of the about.json of a real set."""
    try:
        found: dict[str, Any] = json.loads((_real_folder(name) / "about.json").read_text())
    except OSError:
        (of, rows) = real_name(name)
        command = f"./dev data {of}" + (f" --rows {rows}" if rows else "")
        raise DataError(f"the set {name} is not there: {command} makes it") from None
    if found["rows"] < (real_name(name)[1] or 0):
        raise DataError(f"{found['name']} has {found['rows']:,} rows, which is less than {name} says")
    return found


def _real_folder(name: str) -> Path:
    """Where a real set is; one of fewer rows is the beginning of the whole one."""
    exact = data_folder().parent / name
    return exact if exact.exists() else exact.with_name(real_name(name)[0])


def _real(name: str, rows: int | None, queries: int | None, metric: str) -> tuple[Any, Any, Any]:
    """Rows and queries of a real set, and its truth for this metric and all rows, if it has one."""
    folder, rows = _real_folder(name), rows or real_name(name)[1]
    base, asked = np.load(folder / "rows.npy", mmap_mode="r"), np.load(folder / "queries.npy")
    given, its = None, {"euclidean": "l2", "ip": "ip"}.get(metric)
    if its in _about_real(name)["metrics"] and (rows is None or rows >= len(base)):
        ids, distances = (np.load(folder / f"truth-{its}-{part}.npy")[:queries] for part in ("ids", "distances"))
        given = ids.astype(np.int64), np.sqrt(distances) if its == "l2" else distances
    return base[:rows], asked[:queries].astype(np.float32), given


def _fill(
    folder: Path, name: str, path: str | None, rows: int | None, queries: int | None, metric: str | None, seed: int,
    queries_path: str | None, column: str | None,
) -> None:  # fmt: skip
    given: tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]] | None = None
    base: Any
    if path is not None and Path(path).suffix in files.ENDINGS:
        base, asked = files.read_files(Path(path), Path(queries_path) if queries_path else None, column, rows, queries)
    elif path is not None:
        base, asked, found_metric, given = read_hdf5(Path(path), rows, queries)
        if metric not in (None, found_metric):
            raise DataError(f"{path}: its distance is {found_metric}, the plan says {metric}")
        metric = found_metric
    elif real_name(name)[0] in real.NAMES:
        metric = metric or {"l2": "euclidean", "ip": "ip"}[_about_real(name)["metrics"][0]]
        base, asked, given = _real(name, rows, queries, metric)
        file = _real_folder(name) / "rows.npy"
        if len(base) >= _LARGE_ROWS and len(base) == len(np.load(file, mmap_mode="r")):
            _link(file, folder / "base.npy")
    elif name == "fashion-mnist":
        try:
            base, asked = fashion.load(data_folder().parent)
        except fashion.NoData as error:
            raise DataError(str(error)) from None
        base, asked = base[:rows], asked[:queries]
    elif name.startswith(_UNIFORM):
        dim, streams = int(name.removeprefix(_UNIFORM)), np.random.default_rng(seed).spawn(2)
        base = streams[0].random((rows or _GENERATED_ROWS, dim), dtype=np.float32)
        asked = streams[1].random((queries or _GENERATED_QUERIES, dim), dtype=np.float32)
    else:
        generator = Generator(int(name.removeprefix(_GENERATED)), seed)
        generator.write_npy(folder / "base.npy", rows or _GENERATED_ROWS)
        base = np.load(folder / "base.npy", mmap_mode="r")
        asked = generator.queries(0, queries or _GENERATED_QUERIES)
    _check_counts(name, rows, queries, len(base), len(asked))
    metric = metric or "euclidean"
    if not (folder / "base.npy").exists():
        base = _write(folder / "base.npy", base)
    check_vectors(name, base, asked)
    ids, distances = given or neighbors(base, asked, metric)
    check_truth(name, base, asked, ids, distances, metric)
    np.save(folder / "queries.npy", asked)
    checksum = _checksum(base, asked, metric)
    np.savez(folder / "truth.npz", ids=ids, distances=distances, metric=metric, checksum=checksum)


def _write(path: Path, rows: Any) -> Float32:
    """Rows as a file, a part at a time."""
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=tuple(rows.shape))
    for start in range(0, len(rows), _AT_ONCE):
        out[start : start + _AT_ONCE] = rows[start : start + _AT_ONCE]
    out.flush()
    return np.asarray(np.load(path, mmap_mode="r"))


def _link(file: Path, path: Path) -> None:
    """Another name of a file, which may lose its own; a copy on another file system."""
    try:
        os.link(file, path)
    except OSError:
        shutil.copyfile(file, path)


def _checksum(base: Float32, queries: Float32, metric: str) -> str:
    digest = hashlib.sha256(metric.encode())
    for rows in (base, queries):
        digest.update(str(rows.shape).encode())
        for start in range(0, len(rows), _AT_ONCE):
            # Of a large set as of others, whose rows are kept as float32.
            digest.update(np.ascontiguousarray(rows[start : start + _AT_ONCE], dtype=np.float32).data)
    return digest.hexdigest()[:16]


def _make(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fills a folder that gets its name when everything is in it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _clear(folder.parent)
        scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{_UNFINISHED}{os.getpid()}-"))
        try:
            fill(scratch)
            scratch.chmod(0o755)
            if not folder.exists():
                scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise DataError(f"cannot keep the set in {folder.parent}: {error.strerror or error}") from error


def _clear(parent: Path) -> None:
    """Removes the unfinished folders of killed processes."""
    for scratch in parent.glob(f"{_UNFINISHED}*"):
        process = scratch.name.removeprefix(_UNFINISHED).partition("-")[0]
        if process.isdigit() and not Path("/proc", process).exists():
            shutil.rmtree(scratch, ignore_errors=True)
