"""Kept vectors: distances are exact, and the added vectors are returned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pagehop
from oracle import DIM, nearest, recall
from pagehop.arrays import Float32

KINDS = ("float16", "float32")


def rows(seed: int, count: int) -> Float32:
    return np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)


def kept(kind: str, vectors: Float32) -> Float32:
    return vectors.astype(kind).astype(np.float32)


def exact(metric: str, x: Float32, q: Float32) -> Float32:
    a, b = x.astype(np.float64), q.astype(np.float64)
    if metric == "l2":
        found = ((a - b) ** 2).sum(-1)
    elif metric == "ip":
        found = -(a * b).sum(-1)
    else:
        found = 1 - (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
    exactly: Float32 = found.astype(np.float32)
    return exactly


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", ["l2", pytest.param("ip", marks=pytest.mark.long), "cosine"])
def test_distances_are_those_of_the_vectors(metric: str, kind: str, path: Path) -> None:
    x, q = rows(1, 2000), rows(2, 30)
    with pagehop.build(path, x, metric=metric, vectors=kind, write=True) as index:
        assert index.info().vectors == kind
        x = np.concatenate([x, rows(3, 200)])
        x[:50] = rows(4, 50)
        index.add(np.arange(2000, 2200), x[2000:])
        index.add(np.arange(50), x[:50])
        index.delete(np.arange(60, 90))
        index.vacuum()
        stays = np.delete(np.arange(2200), np.arange(60, 90))
        x = kept(kind, x)
        np.testing.assert_array_equal(index.get(stays), x[stays])
        for options in ({"search_list": 2500}, {"recall": 1.0}):
            ids, distances = index.search(q, 10, **options)
            np.testing.assert_allclose(distances, exact(metric, x[ids], q[:, None]), rtol=2e-5, atol=2e-5)
            assert (np.diff(distances, axis=1) >= 0).all()
            assert recall(ids, stays[nearest(x[stays], q, 10, metric)]) >= 0.9995
        one = index.search(q[0], 10, search_list=2500)
        np.testing.assert_array_equal(one.ids, index.search(q, 10, search_list=2500).ids[0])
        index.check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_index_a_backup_and_filters_keep_vectors(kind: str, path: Path) -> None:
    x, copy = rows(1, 1500), path.with_name("copy")
    with pagehop.create(path, DIM, vectors=kind, columns={"topic": "int"}) as index:
        index.add(np.arange(1500), x, columns={"topic": np.arange(1500) % 3})
        index.backup(copy)
        popped = index.pop([7, 8])
        np.testing.assert_array_equal(popped, kept(kind, x[7:9]))
    with pagehop.open(copy) as index:
        np.testing.assert_array_equal(index.get(np.arange(1500)), kept(kind, x))
        ids, distances = index.search(x[9], 5, where="topic = 0")
        assert ids[0] == 9
        np.testing.assert_allclose(distances, exact("l2", kept(kind, x[ids]), x[9]), rtol=1e-5, atol=1e-6)
        index.check()


def test_what_float16_cannot_hold_is_refused(path: Path) -> None:
    x = rows(1, 20)
    x[3, 4] = 70_000
    with pytest.raises(pagehop.ArgumentError, match=r"row 3 \(id 3\): component 4 is 70000"):
        pagehop.build(path, x, vectors="float16")
    with pagehop.create(path, DIM, vectors="float16") as index:
        with pytest.raises(pagehop.ArgumentError, match="float16 holds up to 65504"):
            index.add(np.arange(20), x)
        assert len(index) == 0
    with pytest.raises(pagehop.ArgumentError, match="vectors is None"):
        pagehop.create(path, DIM, vectors=None, overwrite=True)  # type: ignore[arg-type]


def test_a_build_without_memory_for_vectors_is_refused(path: Path) -> None:
    with pytest.raises(pagehop.OutOfMemoryError, match="memory is 2 MiB") as refused:
        pagehop.build(path, rows(1, 3000), vectors="float32", memory=2 << 20)
    assert isinstance(refused.value, MemoryError)
    assert not isinstance(refused.value, ValueError), "the same arguments are right where there is more memory"
    assert refused.value.needed_bytes > 2 << 20
    assert not path.exists()
