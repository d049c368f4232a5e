"""Sources on disk: they return the written vectors, and errors name a wrong file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagehop
from oracle import DIM, content
from pagehop import sources
from pagehop.arrays import Float32
from pagehop.sources import Checked

READERS: list[Callable[[Path], object]] = [
    pagehop.from_npy,
    pagehop.from_hdf5,
    lambda path: pagehop.from_parquet(path, "embedding"),
]

h5py = pytest.importorskip("h5py")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every source return several chunks."""
    monkeypatch.setattr(sources, "_CHUNK_COMPONENTS", 700 * DIM)


def gathered(source: Any) -> tuple[list[int], Float32]:
    chunks = list(Checked(source).chunks())
    assert len(chunks) > 1
    return np.concatenate([ids for ids, _ in chunks]).tolist(), np.concatenate([rows for _, rows in chunks])


def write_parquet(path: Path, vectors: Float32, kind: Any = None, **columns: Any) -> Path:
    kind = kind or pa.list_(pa.float32())
    table = pa.table({"embedding": pa.array(list(vectors), type=kind), **columns})
    pq.write_table(table, path, row_group_size=1000)
    return path


def test_npy_is_read_from_disk(tmp_path: Path, vectors: Float32) -> None:
    np.save(tmp_path / "x.npy", vectors)
    ids, rows = gathered(pagehop.from_npy(tmp_path / "x.npy"))
    assert ids == list(range(len(vectors)))
    np.testing.assert_array_equal(rows, vectors)


def test_a_memory_map_is_read_in_chunks(tmp_path: Path, vectors: Float32) -> None:
    np.save(tmp_path / "x.npy", np.asfortranarray(vectors.astype(np.float16)))
    _, rows = gathered(sources.ArraySource(np.load(tmp_path / "x.npy", mmap_mode="r")))
    np.testing.assert_array_equal(rows, vectors)


def test_hdf5_is_read(tmp_path: Path, vectors: Float32) -> None:
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["train"] = vectors
    source = pagehop.from_hdf5(tmp_path / "x.hdf5")
    assert source.dim == DIM
    for _ in range(2):
        _, rows = gathered(source)
        np.testing.assert_array_equal(rows, vectors)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), DIM), pa.large_list(pa.float64())])
def test_parquet_is_read(tmp_path: Path, vectors: Float32, kind: Any) -> None:
    ids = [7 * row for row in range(len(vectors))]
    path = write_parquet(tmp_path / "x.parquet", vectors, kind, key=ids)
    found, rows = gathered(pagehop.from_parquet(path, "embedding", id_column="key"))
    assert found == ids
    np.testing.assert_array_equal(rows, vectors)
    assert gathered(pagehop.from_parquet(path, "embedding"))[0] == list(range(len(vectors)))


def test_an_index_is_built_from_a_source(tmp_path: Path, vectors: Float32) -> None:
    path = write_parquet(tmp_path / "x.parquet", vectors)
    with pagehop.build(tmp_path / "a", pagehop.from_parquet(path, "embedding")) as index:
        assert len(index) == len(vectors)
    with pagehop.build(tmp_path / "b", vectors):
        assert content(tmp_path / "a") == content(tmp_path / "b")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for reader in READERS:
        with pytest.raises(pagehop.IoError, match="nowhere") as caught:
            reader(tmp_path / "nowhere")
        assert isinstance(caught.value, OSError)


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "letter"
    path.write_text("Dear reader, this is not a matrix.\n" * 100)
    for reader in READERS:
        with pytest.raises(pagehop.Error, match="letter"):
            reader(path)


def test_a_missing_dataset_lists_those_there(tmp_path: Path, vectors: Float32) -> None:
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["test"] = vectors
        file["flat"] = vectors[0]
    with pytest.raises(pagehop.ArgumentError, match=r"'train'.*flat, test"):
        pagehop.from_hdf5(tmp_path / "x.hdf5", "train")
    with pytest.raises(pagehop.ArgumentError, match="1 dimensions"):
        pagehop.from_hdf5(tmp_path / "x.hdf5", "flat")


def test_a_parquet_column_must_hold_equal_lists_of_numbers(tmp_path: Path) -> None:
    def build(**columns: Any) -> pagehop.Index:
        pq.write_table(pa.table(columns), tmp_path / "x.parquet")
        return pagehop.build(tmp_path / "x", pagehop.from_parquet(tmp_path / "x.parquet", "e"))

    with pytest.raises(pagehop.ArgumentError, match=r"no column 'e'.*other"):
        build(other=[1, 2])
    with pytest.raises(pagehop.ArgumentError, match="lists of numbers"):
        build(e=[1.0, 2.0])
    with pytest.raises(pagehop.ArgumentError, match="type"):
        build(e=[["a"], ["b"]])
    with pytest.raises(pagehop.DimensionError, match="row 2 has 3"):
        build(e=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0, 7.0]])
    with pytest.raises(pagehop.ArgumentError, match="null"):
        build(e=[[1.0, 2.0], None])
    with pytest.raises(pagehop.ArgumentError, match="null component"):
        build(e=[[1.0, 2.0], [None, 1.0]])
    with pytest.raises(pagehop.ArgumentError, match="no rows"):
        build(e=pa.array([], type=pa.list_(pa.float32())))
    assert not (tmp_path / "x").exists()
