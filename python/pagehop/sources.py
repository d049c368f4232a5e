"""Sources of vectors for a build: anything that can be read more than once, a chunk at a time.

A build reads its source several times and holds one chunk of it. So a source may be larger than
memory if it lies on disk: a memory-mapped array, an HDF5 dataset, a Parquet column.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from pagehop.arrays import Float32, PathLike, UInt64, as_array, as_float32
from pagehop.errors import ArgumentError, DimensionError, IoError
from pagehop.ids import RowIds, are_texts, as_ids, as_text_ids

Chunk: TypeAlias = tuple[npt.ArrayLike | None, npt.ArrayLike]

# Components in a chunk: 8 MiB of float32.
_CHUNK_COMPONENTS = 2 << 20


@runtime_checkable
class VectorSource(Protocol):
    """Vectors that can be read more than once, always in the same order."""

    @property
    def dim(self) -> int:
        """Components of each vector."""

    def chunks(self) -> Iterator[Chunk]:
        """All rows from the start, as pairs of ids (or None: numbered from 0) and a 2-d array."""


class Checked:
    """A source with its chunks checked and converted: the form that the engine reads."""

    def __init__(self, source: VectorSource, *, strict: bool = False) -> None:
        self._strict = strict
        self._texts = False
        self.dim = operator.index(source.dim)
        if self.dim < 1:
            raise ArgumentError(f"vectors have {self.dim} dimensions, they must have at least 1")
        self._source = source
        # A build that has no room for as many rows is refused before it reads any, unless ids may
        # be texts: those are read first.
        self.rows: int | None = None
        if isinstance(source, ArraySource | Hdf5Source | ParquetSource):
            self.rows = source.rows

    def text_ids(self) -> list[str] | None:
        """The ids of all rows, if they are texts: whether the first is."""
        if isinstance(self._source, Hdf5Source):
            return None
        texts: list[str] = []
        for given, _ in self._source.chunks():
            if not texts and not (given is not None and are_texts(given)):
                return None
            texts.extend(as_text_ids([] if given is None else given))
        self._texts = bool(texts)
        return texts or None

    def chunks(self) -> Iterator[tuple[UInt64, Float32]]:
        row = 0
        for given, vectors in self._source.chunks():
            array = as_array("vectors", vectors)
            if array.ndim != 2:
                raise ArgumentError(f"a chunk of vectors has {array.ndim} dimensions, it must have two")
            if array.shape[1] != self.dim:
                what = f"a chunk of vectors has {array.shape[1]} columns, the source says {self.dim}"
                raise DimensionError(what, self.dim, array.shape[1])
            positions = given is None or self._texts
            ids = np.arange(row, row + len(array), dtype=np.uint64) if positions else as_ids(given)
            if len(ids) != len(array):
                raise ArgumentError(f"a chunk has {len(ids)} ids for {len(array)} vectors")
            yield ids, as_float32("vectors", array, row, strict=self._strict)
            row += len(array)


class ArraySource:
    """Rows of a 2-d array, in memory or memory-mapped, contiguous or not."""

    def __init__(self, vectors: Any, ids: Any = None) -> None:
        self._vectors = as_array("vectors", vectors)
        if self._vectors.ndim != 2:
            raise ArgumentError(f"vectors has {self._vectors.ndim} dimensions, it must have two")
        self._ids: RowIds | None = None
        if ids is not None:
            self._ids = as_text_ids(ids) if are_texts(ids) else as_ids(ids)
        if self._ids is not None and len(self._ids) != len(self._vectors):
            raise ArgumentError(f"there are {len(self._ids)} ids for {len(self._vectors)} vectors")
        self.rows, self.dim = (int(n) for n in self._vectors.shape)

    def chunks(self) -> Iterator[Chunk]:
        for start, stop in _ranges(len(self._vectors), self.dim):
            yield None if self._ids is None else self._ids[start:stop], self._vectors[start:stop]


class Hdf5Source:
    """A 2-d dataset of an HDF5 file; the file is open only while it is read."""

    def __init__(self, path: PathLike, dataset: str) -> None:
        self._path = os.fspath(path)
        self._dataset = dataset
        with self._open() as file:
            shape = self._get(file).shape
        if len(shape) != 2:
            raise ArgumentError(f"dataset '{dataset}' of {self._path} has {len(shape)} dimensions, it must have two")
        self.rows, self.dim = (int(n) for n in shape)

    def _open(self) -> AbstractContextManager[Any]:
        import h5py

        try:
            file: AbstractContextManager[Any] = h5py.File(self._path, "r")
        except OSError as error:
            raise IoError(f"cannot read {self._path} as HDF5: {error}", error.errno) from error
        return file

    def _get(self, file: Any) -> Any:
        if self._dataset not in file:
            names = ", ".join(sorted(file)) or "none"
            raise ArgumentError(f"{self._path} has no dataset '{self._dataset}'; it has: {names}")
        return file[self._dataset]

    def chunks(self) -> Iterator[Chunk]:
        with self._open() as file:
            dataset = self._get(file)
            for start, stop in _ranges(self.rows, self.dim):
                yield None, dataset[start:stop]


class ParquetSource:
    """A column of equally long lists in a Parquet file; ids may come from another column."""

    def __init__(self, path: PathLike, column: str, id_column: str | None) -> None:
        self._path = os.fspath(path)
        self._column = column
        self._id_column = id_column
        with self._open() as file:
            names = file.schema_arrow.names
            for name in self._columns():
                if name not in names:
                    raise ArgumentError(f"{self._path} has no column '{name}'; it has: {', '.join(names)}")
            self.rows: int = file.metadata.num_rows
            first = next(file.iter_batches(1, columns=[column]), None)
        if first is None or first.num_rows == 0:
            raise ArgumentError(f"{self._path} has no rows")
        self.dim: int = self._matrix(first, 0).shape[1]

    def _columns(self) -> list[str]:
        return [self._column] if self._id_column is None else [self._column, self._id_column]

    def _open(self) -> AbstractContextManager[Any]:
        import pyarrow
        import pyarrow.parquet

        try:
            file: AbstractContextManager[Any] = pyarrow.parquet.ParquetFile(self._path, memory_map=True)
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise IoError(f"cannot read {self._path} as Parquet: {error}", getattr(error, "errno", None)) from error
        return file

    def _matrix(self, batch: Any, row: int) -> npt.NDArray[Any]:
        import pyarrow.types as types

        column = batch.column(self._column)
        where = f"column '{self._column}' of {self._path}"
        if not (
            types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)
        ):
            raise ArgumentError(f"{where} has type {column.type}, it must hold lists of numbers")
        if column.null_count:
            raise ArgumentError(f"{where} is null between rows {row} and {row + len(column) - 1}")
        values = column.flatten()
        if values.null_count:
            raise ArgumentError(f"{where} has a null component between rows {row} and {row + len(column) - 1}")
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        other = lengths != lengths[0]
        if other.any():
            at = int(np.argmax(other))
            what = f"{where}: row {row + at} has {lengths[at]} components, row {row} has {lengths[0]}"
            raise DimensionError(what, int(lengths[0]), int(lengths[at]))
        matrix: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(len(column), -1)
        return matrix

    def chunks(self) -> Iterator[Chunk]:
        row = 0
        with self._open() as file:
            for batch in file.iter_batches(max(1, _CHUNK_COMPONENTS // self.dim), columns=self._columns()):
                if batch.num_rows == 0:
                    continue
                ids = None
                if self._id_column is not None:
                    column = batch.column(self._id_column)
                    if column.null_count:
                        raise ArgumentError(f"column '{self._id_column}' of {self._path} has a null")
                    ids = column.to_numpy(zero_copy_only=False)
                yield ids, self._matrix(batch, row)
                row += batch.num_rows


def from_hdf5(path: PathLike, dataset: str = "train") -> VectorSource:
    """A 2-d dataset of an HDF5 file, as a source to build from.

    `"train"` is where ann-benchmarks keeps the vectors. Needs h5py: `pip install 'pagehop[hdf5]'`.
    """
    return Hdf5Source(path, dataset)


def from_parquet(path: PathLike, column: str, id_column: str | None = None) -> VectorSource:
    """A column of equally long lists in a Parquet file, as a source to build from.

    Needs pyarrow: `pip install 'pagehop[parquet]'`.
    """
    return ParquetSource(path, column, id_column)


def from_npy(path: PathLike, ids: Any = None) -> VectorSource:
    """The 2-d array of a `.npy` file, memory-mapped, as a source to build from."""
    try:
        array = np.load(os.fspath(path), mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise IoError(f"cannot read {os.fspath(path)}: {error.strerror or error}", error.errno) from error
    except (EOFError, ValueError) as error:
        raise ArgumentError(f"cannot read {os.fspath(path)} as an array: {error}") from error
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"{os.fspath(path)} holds several arrays, not one")
    return ArraySource(array, ids)


def as_source(vectors: Any, ids: Any, *, strict: bool) -> Checked:
    """`vectors` as the engine reads them: an array, or a source that brings its own ids."""
    if not isinstance(vectors, np.ndarray) and isinstance(vectors, VectorSource):
        if ids is not None:
            raise ArgumentError("ids come from the source itself; ids= is for arrays")
        return Checked(vectors, strict=strict)
    return Checked(ArraySource(vectors, ids), strict=strict)


def _ranges(rows: int, dim: int) -> Iterator[tuple[int, int]]:
    step = max(1, _CHUNK_COMPONENTS // max(1, dim))
    for start in range(0, rows, step):
        yield start, min(rows, start + step)
