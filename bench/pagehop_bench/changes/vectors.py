"""Rows for the measurements of changes: generated once into the data folder, mapped from there."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

import pagehop
from pagehop_bench import datasets, machine, truth
from pagehop_bench.changes.scale import Scale, files_of
from pagehop_bench.datasets import Dataset
from pagehop_bench.engines import Float32, Int64
from pagehop_bench.generate import Generator

GENERATED = "generated"
# Another curved surface altogether: what a change of the embedding model does.
OTHER_SEED = 2


def rows(scale: Scale, count: int, seed: int = 1) -> Float32:
    """The first `count` generated rows, mapped."""
    generator = Generator(scale.dim, seed)
    scale.folder.mkdir(parents=True, exist_ok=True)
    path = scale.folder / f"rows-{scale.dim}-{count}-{generator.recipe()}.npy"
    if not path.exists():
        generator.write_npy(path, count)
    mapped: Float32 = np.load(path, mmap_mode="r")
    return mapped


def queries(scale: Scale, count: int, seed: int = 1) -> Float32:
    """Queries of the same kind as the rows of that seed."""
    return Generator(scale.dim, seed).queries(0, count)


def with_truth(scale: Scale, name: str, base: Float32, asked: Float32) -> Dataset:
    """A set of these rows and queries; the exact neighbors are kept for the next time."""
    return Dataset(name, base, asked, truth.cached(base, asked, scale.folder / "truth", name))


def dataset(scale: Scale, name: str) -> Dataset:
    """A set of the rounds: generated to scale, or one of the sets that everything is measured on."""
    if name == GENERATED:
        asked = queries(scale, 4 * scale.checked)
        return with_truth(scale, f"{GENERATED}-{scale.dim}", rows(scale, scale.rows), asked)
    return datasets.load(name)


def built(scale: Scale, base: Float32) -> Path:
    """An index over `base` that measurements begin with; they change copies."""
    path = scale.new("built.pagehop")
    pagehop.build(path, base, threads=machine.cores(), overwrite=True).close()
    return path


def copied(source: Path, target: Path) -> Path:
    """`target` as a copy of the index at `source`, with all that lies beside it."""
    for old in files_of(target):
        old.unlink()
    for file in files_of(source):
        shutil.copyfile(file, target.with_name(target.name + file.name[len(source.name) :]))
    return target


def batches(first: int, stop: int, size: int) -> list[Int64]:
    """The ids from `first` to `stop`, `size` at a time."""
    return [np.arange(start, min(start + size, stop)) for start in range(first, stop, size)]
