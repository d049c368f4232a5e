"""Payloads: bytes of rows that searches and reads by id return."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import pagehop

DIM = 8


def vectors_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)


def payload_of(row: int) -> bytes | None:
    return None if row % 7 == 3 else bytes([row % 256]) * (row * 37 % 9000)


def test_payloads_come_back_from_searches_and_by_id(tmp_path: Path) -> None:
    vectors = vectors_of(300)
    payload = [payload_of(row) for row in range(300)]
    with pagehop.build(tmp_path / "items", vectors, payload=payload, write=True) as index:
        assert index.info().payload
        hits = index.search(vectors[5], k=7, payload=True)
        assert hits.payload == [payload[row] for row in hits.ids]
        many = index.search(vectors[:40], k=5, payload=True)
        assert many.payload == [[payload[row] for row in ids] for ids in many.ids]
        exact = index.search(vectors[:3], k=2, recall=1, payload=True)
        assert exact.payload == [[payload[row] for row in ids] for ids in exact.ids]
        only = index.search(vectors[0], k=3, where=[8, 9], payload=True)
        assert sorted(map(repr, only.payload)) == sorted(map(repr, [payload[8], payload[9]]))
        found, kept = index.get([7, 3], payload=True)
        assert found.shape == (2, DIM)
        assert kept == [payload[7], None]
        assert index.get(7, payload=True)[1] == payload[7]
        index.add([7, 1000], vectors[:2], payload=[b"seven", bytearray(b"new")])
        assert index.get([1000, 7], payload=True)[1] == [b"new", b"seven"]
        assert index.update_payload([7, 8], [None, b""]) == 2
        assert index.get([7, 8], payload=True)[1] == [None, b""]
        index.retrain()
        assert index.get([1000, 9], payload=True)[1] == [b"new", payload[9]]
        index.check()
    copied = pickle.loads(pickle.dumps(pagehop.open(tmp_path / "items")))
    assert copied.get(1000, payload=True)[1] == b"new"


def test_an_index_without_payloads_refuses_them(tmp_path: Path) -> None:
    with pagehop.create(tmp_path / "items", DIM) as index:
        assert not index.info().payload
        with pytest.raises(pagehop.ArgumentError, match="keeps no payloads"):
            index.add(1, vectors_of(1), payload=[b"x"])
        index.add(1, vectors_of(1))
        for call in (
            lambda: index.search(vectors_of(1)[0], payload=True),
            lambda: index.search(vectors_of(20), payload=True),
            lambda: index.get(1, payload=True),
        ):
            with pytest.raises(pagehop.ArgumentError, match="keeps no payloads"):
                call()
        with pytest.raises(pagehop.ArgumentError, match="not asked for payloads"):
            _ = index.search(vectors_of(1)[0]).payload
        assert len(index) == 1


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        ("text", "payload is text"),
        (["text", b""], r"payload\[0\] is str"),
        ([b"one"], "2 ids and 1 payloads"),
        (7, "payload is int"),
        ([b"", 7], r"payload\[1\] is int"),
    ],
)
def test_what_is_no_payload_is_refused_and_nothing_changes(tmp_path: Path, payload: object, what: str) -> None:
    with pagehop.create(tmp_path / "items", DIM, payload=True) as index:
        with pytest.raises(pagehop.ArgumentError, match=what):
            index.add([1, 2], vectors_of(2), payload=payload)
        assert len(index) == 0
        with pytest.raises(pagehop.ArgumentError, match="no rows to train"):
            index.retrain()
