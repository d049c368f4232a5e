"""Text ids from every kind of sequence, compared with a dict after every change; refused ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagehop

DIM = 12

# Two pairs of texts that have the same hash in an index with seed 1.
PAIRS = [("4325e5e248b21f8a", "0bd1903d23855824"), ("ed05610e864f7a84", "30ddbeee48217f65")]


def vectors(count: int, seed: int = 5) -> Any:
    return np.random.default_rng(seed).standard_normal((count, DIM), dtype=np.float32)


def text(number: int) -> str:
    return [f"doc-{number}/para-3", str(number), f"\u00e9 {number}\0", f"{number:0>1024}"][number % 4]


def same(index: pagehop.Index, rows: dict[str, Any]) -> None:
    """Compares the index with a dict."""
    assert len(index) == len(rows)
    found = [row for batch in index.ids(batch=70) for row in batch]
    assert sorted(found) == sorted(rows)
    assert all(type(row) is str for row in found)
    ids = list(rows)
    assert np.array_equal(index.get(ids), np.array([rows[row] for row in ids]).reshape(-1, DIM))
    assert all(row in index for row in ids)
    assert "absent" not in index
    if rows:
        matrix = np.array([rows[row] for row in ids])
        query = matrix[0] + 0.1
        hits = index.search(query, k=len(rows), recall=1)
        assert hits.ids.dtype == object
        assert sorted(hits.ids) == sorted(rows)
        expected = np.square(matrix - query).sum(axis=1)
        by_id = dict(zip(ids, expected, strict=True))
        assert np.allclose([by_id[row] for row in hits.ids], hits.distances, rtol=1e-4)
    index.check()


def test_an_index_is_like_a_dict_after_every_change(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    path = tmp_path / "rows"
    index = pagehop.create(path, DIM, id_kind="text", vectors="float32", payload=True, columns={"n": "int"})
    assert index.info().id_kind == "text"
    rows: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    for step in range(12):
        ids = [text(int(n)) for n in random.integers(0, 200, 60)] + [row for pair in PAIRS for row in pair]
        new = vectors(len(ids), step)
        payload = [None if n % 5 == 0 else f"{step} {n}".encode() for n in range(len(ids))]
        index.add(ids, new, columns={"n": np.arange(len(ids))}, payload=payload)
        rows.update(zip(ids, new, strict=True))
        kept.update(zip(ids, payload, strict=True))
        same(index, rows)
        # A list, because an array of texts loses null characters at the end.
        gone = [list(rows)[at] for at in random.choice(len(rows), 20, replace=False)]
        report = index.delete([*gone, "absent", gone[0]])
        assert report.deleted == 20
        assert list(report.unknown) == ["absent"]
        for row in gone:
            del rows[row], kept[row]
        one = next(iter(rows))
        assert np.array_equal(index.pop(one), rows.pop(one))
        del kept[one]
        same(index, rows)
        assert index.get(list(rows), payload=True)[1] == [kept[row] for row in rows]
        if step % 4 == 3:
            index.vacuum()
        if step == 6:
            index.retrain()
            index.close()
            pagehop.compact(path)
            index = pagehop.open(path, write=True)
    some = list(rows)[:3]
    index.update_payload(some, [b"old", b"old", b"old"])
    assert index.update_payload(some, [b"x", None, b""]) == 3
    assert index.update_columns(some[0], {"n": [-7]}) == 1
    assert index.get(some, payload=True)[1] == [b"x", None, b""]
    hits = index.search(rows[some[0]], where="n = -7", payload=True)
    assert list(hits.ids) == some[:1]
    assert hits.payload == [b"x"]
    index.backup(tmp_path / "copy")
    same(pagehop.open(tmp_path / "copy"), rows)


def test_a_build_and_a_matrix_of_queries(tmp_path: Path) -> None:
    data = vectors(300)
    ids = [text(n) for n in range(300)]
    index = pagehop.build(tmp_path / "rows", data, ids, vectors="float32", columns={"n": np.arange(300)})
    same(index, dict(zip(ids, data, strict=True)))
    hits = index.search(data[:20], k=5)
    assert hits.ids.shape == (20, 5)
    assert list(hits.ids[:, 0]) == ids[:20]
    for wanted in (ids[3:8], np.array(ids[3:8], dtype=object), tuple(ids[3:8])):
        hits = index.search(data[:2], k=7, where=wanted)
        assert set(hits.ids[1, :5]) == set(ids[3:8])
        assert list(hits.ids[1, 5:]) == [None, None]
        assert np.isinf(hits.distances[1, 5:]).all()
    assert len(index.search(data[0], where=[]).ids) == 0


class Source:
    """A source whose chunks have text ids."""

    dim = DIM

    def __init__(self, ids: list[Any], data: Any) -> None:
        self._ids, self._data = ids, data

    def chunks(self) -> Iterator[tuple[Any, Any]]:
        for start in range(0, len(self._data), 64):
            yield self._ids[start : start + 64], self._data[start : start + 64]


def test_sources_and_sequences_of_texts(tmp_path: Path) -> None:
    data = vectors(150)
    ids = [f"row {n}" for n in range(150)]
    rows = dict(zip(ids, data, strict=True))
    same(pagehop.build(tmp_path / "a", Source(ids, data), vectors="float32"), rows)
    for given in (np.array(ids), np.array(ids, dtype=object), tuple(ids)):
        same(pagehop.build(tmp_path / "b", data, given, vectors="float32", overwrite=True), rows)
    index = pagehop.create(tmp_path / "c", DIM, id_kind="text", vectors="float32")
    index.add(np.array(ids[:100]), data[:100])
    index.add((row for row in ids[100:]), data[100:])
    same(index, rows)
    index.add("one", data[0])
    assert np.array_equal(index.get("one"), data[0])
    assert index.get(["one"]).shape == (1, DIM)
    assert index.get([]).shape == (0, DIM)
    assert index.delete([]).deleted == 0
    assert index.add([], []).added == 0


def test_ids_of_the_other_kind_and_no_ids_are_refused(tmp_path: Path) -> None:
    data = vectors(3)
    texts = pagehop.build(tmp_path / "texts", data, ["a", "b", "c"], write=True)
    for call in (texts.get, texts.delete, texts.pop, lambda ids: texts.add(ids, data[:1])):
        with pytest.raises(pagehop.ArgumentError, match=r"this index has text ids, and ids\[0\] is 1"):
            call([1])
    for where in ([1, 2], np.array([True, False])):
        with pytest.raises(pagehop.ArgumentError, match="this index has text ids"):
            texts.search(data[0], where=where)
    with pytest.raises(pagehop.ArgumentError, match="this index has text ids"):
        _ = 5 in texts
    for bad, what in (("", "row 1: its id has 0 bytes"), ("\u00e9" * 513, "row 1: its id has 1026 bytes")):
        with pytest.raises(pagehop.ArgumentError, match=what):
            texts.add(["a", bad], data[:2])
    with pytest.raises(pagehop.ArgumentError, match=r"ids\[1\] is .*UTF-8"):
        texts.add(["a", "\ud800"], data[:2])
    with pytest.raises(pagehop.ArgumentError, match='"x", "y" are not in the index'):
        texts.get(["a", "x", "y"])
    with pytest.raises(pagehop.ArgumentError, match="2 ids for 1 vectors"):
        texts.add(["a", "b"], data[:1])
    assert len(texts) == 3
    assert texts.check().nodes == 3
    numbers = pagehop.build(tmp_path / "numbers", data, write=True)
    assert numbers.info().id_kind == "int"
    for call in (numbers.get, numbers.delete, numbers.pop, lambda ids: numbers.add(ids, data[:1])):
        with pytest.raises(pagehop.ArgumentError, match="this index has int ids, and text ids were given"):
            call(["1"])
    with pytest.raises(pagehop.ArgumentError, match="this index has int ids, and text ids were given"):
        numbers.search(data[0], where=["1"])
    for wrong in (["a", "b", "a"], ["a", "b", 3], ["a", "b"]):
        with pytest.raises(pagehop.ArgumentError):
            pagehop.build(tmp_path / "new", data, wrong)
    with pytest.raises(pagehop.ArgumentError, match="id_kind is 'uuid'"):
        pagehop.create(tmp_path / "new", DIM, id_kind="uuid")
    assert not (tmp_path / "new").exists()


WRITER = """
import os, sys, numpy, pagehop
index = pagehop.open(sys.argv[1], write=True)
rows = numpy.random.default_rng(9).standard_normal((400, 12), dtype=numpy.float32)
for start in range(0, 400, 50):
    index.add([f"row {n % 300}" for n in range(start, start + 50)], rows[start : start + 50])
    print(start + 50, flush=True)
os._exit(9)
"""


def test_what_a_killed_process_added_is_there(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    reader = pagehop.create(path, DIM, id_kind="text", vectors="float32")
    reader.close()
    done = subprocess.run([sys.executable, "-c", WRITER, path], capture_output=True, text=True, check=False)
    assert done.returncode == 9
    assert done.stdout.split()[-1] == "400"
    data = np.random.default_rng(9).standard_normal((400, DIM), dtype=np.float32)
    rows = {f"row {n % 300}": data[n] for n in range(400)}
    for write in (False, True):
        with pagehop.open(path, write=write) as index:
            same(index, rows)
