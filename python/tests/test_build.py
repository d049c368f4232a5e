"""Builds: every kind of input gives the same index, and an unfinished build leaves no files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagehop
from oracle import content, nearest, recall
from pagehop.arrays import Float32


def built_bytes(path: Path, vectors: Any, **options: Any) -> bytes:
    pagehop.build(path, vectors, overwrite=True, **options).close()
    return content(path)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, vectors: Float32) -> bytes:
    """An index of the vectors. It is not calibrated, which takes twice as long as its build."""
    return built_bytes(tmp_path_factory.mktemp("expected") / "x", vectors, calibrate=False)


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_each_metric_finds_its_neighbors(metric: str, tmp_path: Path, vectors: Float32, queries: Float32) -> None:
    with pagehop.build(tmp_path / "x", vectors, metric=metric) as index:
        found = index.search(queries, search_list=200).ids
        assert index.info().metric == metric
    assert recall(found, nearest(vectors, queries, 10, metric)) >= 0.97


@pytest.mark.parametrize("kind", ["float16", "float64", "int32", "int64", ">f4", "longdouble"])
def test_types_with_the_same_values_give_the_same_file(
    kind: str, tmp_path: Path, vectors: Float32, expected: bytes
) -> None:
    assert built_bytes(tmp_path / "x", vectors.astype(kind), calibrate=False) == expected


def test_bytes_give_the_same_file_as_their_values(tmp_path: Path) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (500, 16), dtype=np.uint8)
    assert built_bytes(tmp_path / "a", pixels) == built_bytes(tmp_path / "b", pixels.astype(np.float32))


def test_layout_in_memory_does_not_matter(tmp_path: Path, vectors: Float32, expected: bytes) -> None:
    wide = np.zeros((2 * len(vectors), vectors.shape[1] + 3), dtype=np.float32)
    wide[::2, 3:] = vectors
    assert built_bytes(tmp_path / "b", wide[::2, 3:], calibrate=False) == expected
    assert built_bytes(tmp_path / "c", np.asfortranarray(vectors), calibrate=False) == expected
    assert built_bytes(tmp_path / "d", vectors.tolist(), calibrate=False) == expected


def test_same_seed_gives_the_same_file_on_any_number_of_threads(tmp_path: Path, vectors: Float32) -> None:
    expected = built_bytes(tmp_path / "a", vectors, seed=9, threads=1)
    assert built_bytes(tmp_path / "b", vectors, seed=9, threads=3) == expected
    assert built_bytes(tmp_path / "c", vectors, seed=10) != expected


class Halves:
    """A source in user code: ids from 1000 on, chunks of different lengths, the last one empty."""

    def __init__(self, vectors: Float32) -> None:
        self.vectors = vectors
        self.dim = vectors.shape[1]
        self.scans = 0

    def chunks(self) -> Iterator[tuple[list[int], Float32]]:
        self.scans += 1
        for start, stop in [(0, 1), (1, 1700), (1700, 1700), (1700, len(self.vectors))]:
            yield list(range(1000 + start, 1000 + stop)), self.vectors[start:stop]


def test_a_source_of_ones_own_is_read(tmp_path: Path, vectors: Float32, queries: Float32) -> None:
    source = Halves(vectors)
    with pagehop.build(tmp_path / "x", source) as index:
        assert len(index) == len(vectors)
        found = index.search(queries, search_list=200).ids
    assert source.scans >= 1
    assert recall(found, nearest(vectors, queries, 10) + 1000) >= 0.97


def test_results_have_the_ids_that_were_given(tmp_path: Path, vectors: Float32) -> None:
    ids = np.arange(len(vectors))[::-1] * 7 + 2**40
    with pagehop.build(tmp_path / "x", vectors, ids=ids) as index:
        assert index.search(vectors[5], k=1).ids[0] in ids[(vectors == vectors[5]).all(1)]


def test_progress_reports_each_phase_to_its_end(tmp_path: Path, vectors: Float32) -> None:
    seen: list[tuple[str, int, int]] = []
    pagehop.build(tmp_path / "x", vectors, progress=lambda *step: seen.append(step))
    assert {"read", "write"} <= {phase for phase, _, _ in seen}
    assert all(total == 0 or 0 <= done <= total for _, done, total in seen)


def test_a_build_that_is_stopped_leaves_the_old_file(tmp_path: Path, vectors: Float32) -> None:
    path = tmp_path / "x"
    pagehop.build(path, vectors).close()
    before = path.read_bytes()

    with pytest.raises(pagehop.Interrupted):
        pagehop.build(path, vectors[:100], overwrite=True, progress=lambda *_: False)

    def fails(*_: object) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        pagehop.build(path, vectors[:100], overwrite=True, progress=fails)
    with pytest.raises(pagehop.Interrupted):
        pagehop.build(tmp_path / "y", vectors, progress=lambda *_: False)

    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_an_error_in_a_source_comes_through(tmp_path: Path, vectors: Float32) -> None:
    class Breaks(Halves):
        def chunks(self) -> Iterator[tuple[list[int], Float32]]:
            yield from list(super().chunks())[:2]
            raise ConnectionError("the vectors are elsewhere")

    with pytest.raises(ConnectionError, match="elsewhere"):
        pagehop.build(tmp_path / "x", Breaks(vectors))
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_only_with_overwrite(tmp_path: Path, vectors: Float32) -> None:
    pagehop.build(tmp_path / "x", vectors).close()
    before = (tmp_path / "x").read_bytes()
    with pytest.raises(pagehop.Error, match="x"):
        pagehop.build(tmp_path / "x", vectors[:100])
    assert (tmp_path / "x").read_bytes() == before
    with pagehop.build(tmp_path / "x", vectors[:100], overwrite=True) as index:
        assert len(index) == 100
