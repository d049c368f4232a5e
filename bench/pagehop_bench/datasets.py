"""The sets that are measured: base rows, queries and truth, made or fetched once into the data folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pagehop_bench import fashion, truth
from pagehop_bench.generate import Generator
from pagehop_bench.truth import Truth

Float32 = npt.NDArray[np.float32]

DATA = Path(__file__).parents[2] / "data"


@dataclass(frozen=True)
class Dataset:
    """Vectors to index, vectors to ask for, and the right answers under L2."""

    name: str
    base: Float32
    queries: Float32
    truth: Truth
    path: Path | None = None
    """Where the base rows lie as `.npy`, if they do."""

    @property
    def dim(self) -> int:
        """Components of each vector."""
        return int(self.base.shape[1])

    def first_queries(self, count: int) -> Dataset:
        """The same set with its first queries only."""
        truth = Truth(self.truth.ids[:count], self.truth.distances[:count])
        return replace(self, queries=self.queries[:count], truth=truth)


def load(name: str) -> Dataset:
    """The set called `name`, from the data folder if it is there."""
    if (DATA / name / "about.json").exists():
        return _real(name)
    DATA.mkdir(parents=True, exist_ok=True)
    base, queries = _VECTORS[name]()
    path = Path(str(base.filename)) if isinstance(base, np.memmap) else None
    return Dataset(name, base, queries, truth.cached(base, queries, DATA / "truth", name), path)


def _real(name: str) -> Dataset:
    """A set that `./dev data` of the lab made; its files are described in lab/pagehop_lab/data/real/files.py."""
    folder = DATA / name
    base = np.load(folder / "rows.npy", mmap_mode="r")
    path = folder / "rows.npy" if base.dtype == np.float32 else None
    ids, distances = (np.load(folder / f"truth-l2-{part}.npy") for part in ("ids", "distances"))
    queries = np.load(folder / "queries.npy").astype(np.float32)
    base = base if path else base.astype(np.float32)
    return Dataset(name, base, queries, Truth(ids.astype(np.int64), distances), path)


def export(dataset: Dataset) -> Path:
    """Writes rows, queries and truth as `train.fbin`, `test.fbin` and `truth.ibin`, for the Rust experiments."""
    folder = DATA / dataset.name
    folder.mkdir(exist_ok=True)
    truth_ids = dataset.truth.ids.astype(np.int32)
    for name, rows in [("train.fbin", dataset.base), ("test.fbin", dataset.queries), ("truth.ibin", truth_ids)]:
        with (folder / name).open("wb") as file:
            np.array(rows.shape, dtype=np.int32).tofile(file)
            for start in range(0, len(rows), 4096):
                np.asarray(rows[start : start + 4096]).tofile(file)
    return folder


def _generated(dim: int, rows: int, queries: int) -> tuple[Float32, Float32]:
    generator = Generator(dim)
    path = DATA / f"generated-{dim}-{rows}-{generator.recipe()}.npy"
    if not path.exists():
        generator.write_npy(path, rows)
    return np.load(path, mmap_mode="r"), generator.queries(0, queries)


_VECTORS: dict[str, Callable[[], tuple[Float32, Float32]]] = {
    "fashion-mnist": lambda: fashion.load(DATA),
    "generated-384": lambda: _generated(384, 100_000, 4000),
    "generated-1536": lambda: _generated(1536, 100_000, 4000),
    "generated-768-1m": lambda: _generated(768, 1_000_000, 1000),
}

NAMES = tuple(_VECTORS)
