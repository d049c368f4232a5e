"""The sets, with their first queries, and the files that the load generator reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pagehop_bench import datasets, truth
from pagehop_bench.datasets import DATA, Dataset
from pagehop_bench.engines import Float32
from pagehop_bench.generate import Generator
from pagehop_bench.postgres.scale import Scale

FASHION = "fashion-mnist"
GENERATED_ROWS = 100_000

_GENERATED = "generated-"


@dataclass(frozen=True)
class Files:
    """Queries, and the truth about them."""

    queries: Path
    truth: Path


def known(name: str) -> bool:
    """Whether there is such a set."""
    return name == FASHION or (name.startswith(_GENERATED) and name.removeprefix(_GENERATED).isdigit())


def load(name: str, scale: Scale) -> Dataset:
    """The set called `name`, with as many rows and queries as `scale` says."""
    if name == FASHION:
        whole = datasets.load(name)
        if scale.rows is None or scale.rows >= len(whole.base):
            return whole.first_queries(scale.queries)
        return _with_truth(name, whole.base[: scale.rows], whole.queries[: scale.queries])
    rows = GENERATED_ROWS if scale.rows is None else scale.rows
    generator = Generator(int(name.removeprefix(_GENERATED)))
    return _with_truth(name, _generated(generator, rows, scale.folder), generator.queries(0, scale.queries))


def export(dataset: Dataset, scale: Scale, k: int) -> Files:
    """Writes the queries and their `k` nearest rows."""
    scale.folder.mkdir(parents=True, exist_ok=True)
    files = Files(scale.folder / f"{dataset.name}-queries.npy", scale.folder / f"{dataset.name}-truth.npy")
    np.save(files.queries, np.ascontiguousarray(dataset.queries, dtype=np.float32))
    np.save(files.truth, np.ascontiguousarray(dataset.truth.ids[:, :k], dtype=np.int32))
    return files


def export_rows(name: str, rows: Float32, scale: Scale) -> Path:
    """Writes rows that are to be inserted."""
    scale.folder.mkdir(parents=True, exist_ok=True)
    path = scale.folder / f"{name}-rows.npy"
    np.save(path, np.ascontiguousarray(rows, dtype=np.float32))
    return path


def _generated(generator: Generator, rows: int, folder: Path) -> Float32:
    # The data folder may have more rows than are wanted: any first part is the same.
    name = f"generated-{generator.dim}-{{}}-{generator.recipe()}.npy"
    for path in [DATA / name.format(GENERATED_ROWS), folder / name.format(rows)]:
        if path.exists():
            mapped: Float32 = np.load(path, mmap_mode="r")
            if len(mapped) >= rows:
                return mapped[:rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    generator.write_npy(path, rows)
    made: Float32 = np.load(path, mmap_mode="r")
    return made


def _with_truth(name: str, base: Float32, queries: Float32) -> Dataset:
    return Dataset(name, base, queries, truth.cached(base, queries, DATA / "truth", f"{name}-{len(base)}"))
