"""Rows by their id, backups, and pickled indexes: what they return, and what is refused."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagehop
from oracle import CHANGING as X
from oracle import DIM


def all_ids(index: pagehop.Index, batch: int = 65_536) -> list[int]:
    return [int(i) for ids in index.ids(batch) for i in ids]


@pytest.mark.parametrize("batch", [1, 64, 500, 65_536])
def test_ids_come_once_and_in_order(batch: int, writer: pagehop.Index) -> None:
    writer.delete(range(100, 200))
    writer.add([5_000, 2**63 - 1, 3_000], X[500:503])
    expected = [*range(100), *range(200, 500), 3_000, 5_000, 2**63 - 1]
    assert all_ids(writer, batch) == expected
    arrays = list(writer.ids(batch))
    assert all(ids.dtype == np.int64 and 1 <= len(ids) <= batch for ids in arrays)
    assert len(writer) == len(expected)


def test_ids_and_contains_of_an_empty_index(path: Path) -> None:
    with pagehop.create(path, DIM) as index:
        assert list(index.ids()) == []
        assert 0 not in index
        assert index.get([]).shape == (0, DIM)


def test_contains(writer: pagehop.Index) -> None:
    writer.delete(7)
    assert 6 in writer
    assert np.int64(499) in writer
    assert not any(i in writer for i in (7, 500, -1, 2**63, 2**64 - 1))
    for wrong in ("6", 6.0, None, [6]):
        with pytest.raises(pagehop.ArgumentError, match="must be a whole number"):
            assert wrong in writer


def test_get_returns_what_was_added_up_to_rounding(writer: pagehop.Index) -> None:
    ids = [3, 499, 3, 0]
    found = writer.get(ids)
    assert found.shape == (4, DIM)
    assert found.dtype == np.float32
    spread = np.linalg.norm(X[:500] - X[:500].mean(axis=0), axis=1).max()
    assert np.linalg.norm(found - X[ids], axis=1).max() < spread / 1000
    np.testing.assert_array_equal(writer.get(3), found[0])
    np.testing.assert_array_equal(writer.get(np.array([499], np.uint16)), found[1:2])
    writer.add(3, X[600])
    assert np.linalg.norm(writer.get(3) - X[600]) < spread / 1000


def test_pop_returns_and_deletes(writer: pagehop.Index) -> None:
    expected = writer.get([4, 9])
    popped = writer.pop([4, 9, 4])
    np.testing.assert_array_equal(popped, expected[[0, 1, 0]])
    assert len(writer) == 498
    assert 4 not in writer
    assert 9 not in writer
    assert writer.pop(10).shape == (DIM,)
    writer.check()


@pytest.mark.parametrize("method", ["get", "pop"])
def test_ids_that_get_and_pop_refuse(method: str, writer: pagehop.Index) -> None:
    call = getattr(writer, method)
    for ids, error in [
        ([1, 777, 888], "777, 888 are not in the index"),
        (9999, "9999 is not in the index"),
        (-1, "must be between 0 and"),
        ([[1, 2]], "2 dimensions"),
        ([1.5], "integer type"),
        (["1"], "int ids, and text ids were given"),
    ]:
        with pytest.raises(pagehop.ArgumentError, match=error):
            call(ids)
    assert len(writer) == 500


def test_a_reader_may_get_and_not_pop(writer: pagehop.Index, path: Path) -> None:
    with pagehop.open(path) as reader:
        np.testing.assert_array_equal(reader.get([1, 2]), writer.get([1, 2]))
        with pytest.raises(pagehop.ArgumentError, match="open for reading"):
            reader.pop(1)
    with pytest.raises(pagehop.ArgumentError, match="closed"):
        reader.get(1)
    with pytest.raises(pagehop.ArgumentError, match="closed"):
        list(reader.ids())
    for batch in (0, -1, "x", 1.5):
        with pytest.raises(pagehop.ArgumentError, match="batch"):
            writer.ids(batch)  # type: ignore[arg-type]


def test_a_backup_while_rows_are_added(writer: pagehop.Index, path: Path) -> None:
    done = threading.Event()

    def add() -> None:
        try:
            for at in range(500, 2000, 10):
                writer.add(np.arange(at, at + 10), X[at : at + 10])
        finally:
            done.set()

    adding = threading.Thread(target=add)
    adding.start()
    copy, backups = path.with_name("copy"), 0
    while not done.is_set() or not backups:
        before = len(writer)
        report = writer.backup(copy, overwrite=True)
        backups += 1
        assert report.bytes == copy.stat().st_size == report.pages * 8192
        with pagehop.open(copy) as index:
            assert len(index) >= before
            assert len(index) % 10 == 0
            assert all_ids(index) == list(range(len(index)))
            index.check()
    adding.join()
    assert len(writer) == 2000
    writer.close()
    assert sorted(file.name for file in path.parent.iterdir()) == ["copy", "x"]


def test_places_that_a_backup_refuses(writer: pagehop.Index, path: Path) -> None:
    folder = path.parent
    (folder / "mine").write_bytes(b"mine")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    for name, overwrite, error in [
        ("mine", False, "exists already"),
        ("folder", True, "is not a file"),
        ("pipe", True, "is not a file"),
        ("x", True, "belongs to the index"),
    ]:
        with pytest.raises(pagehop.ArgumentError, match=error):
            writer.backup(folder / name, overwrite=overwrite)
    with pytest.raises(pagehop.IoError) as raised:
        writer.backup(folder / "nowhere" / "copy")
    assert raised.value.errno in (errno.ENOENT, None)
    wrong: Any
    for wrong in (7, None, "a\0b"):
        with pytest.raises(pagehop.ArgumentError, match="path"):
            writer.backup(wrong)
    with pytest.raises(pagehop.ArgumentError, match="progress"):
        writer.backup(folder / "copy", progress=7)  # type: ignore[arg-type]
    assert (folder / "mine").read_bytes() == b"mine"
    assert not (folder / "copy").exists()


def test_a_backup_reports_and_stops(writer: pagehop.Index, path: Path) -> None:
    writer.add(1, X[900])
    phases: list[str] = []
    copy = path.with_name("copy")
    with pytest.raises(pagehop.Interrupted):
        writer.backup(copy, progress=lambda *_: False)
    assert not copy.exists()
    writer.backup(copy, progress=lambda phase, *_: phases.append(phase))
    assert set(phases) == {"copy", "log"}


def child(pickled: bytes) -> tuple[bool, list[int], int]:
    with pickle.loads(pickled) as index:
        return index.writable, index.search(X[3], 1).ids.tolist(), len(index)


def test_a_pickled_index_opens_for_reading_in_another_process(
    writer: pagehop.Index, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    with pagehop.open("x") as index:
        pickled = pickle.dumps(index)
        monkeypatch.chdir("/")
        context = multiprocessing.get_context("spawn")
        # ProcessPoolExecutor raises an error if its child dies.
        with ProcessPoolExecutor(1, context) as pool:
            assert pool.submit(child, pickled).result() == (False, [3], 500)
    with pytest.raises(pagehop.ArgumentError, match="closed"):
        pickle.dumps(index)
    with pickle.loads(pickle.dumps(writer)) as again:
        assert not again.writable
        assert len(again) == 500
