"""Bad input: the error names what is wrong and where, and nothing is damaged."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagehop
from oracle import DIM, nearest, recall
from pagehop.arrays import Float32

X = np.random.default_rng(11).integers(-9, 9, (200, 8)).astype(np.float32)


def with_value(row: int, column: int, value: float) -> Float32:
    changed = X.copy()
    changed[row, column] = value
    return changed


BAD_VECTORS: dict[str, tuple[Any, type[Exception], str]] = {
    "nan": (with_value(17, 3, np.nan), pagehop.ArgumentError, "17"),
    "infinity": (with_value(18, 3, np.inf), pagehop.ArgumentError, "18"),
    "one dimension": (X[0], pagehop.ArgumentError, "1 dimensions"),
    "three dimensions": (X.reshape(10, 20, 8), pagehop.ArgumentError, "3 dimensions"),
    "no rows": (X[:0], pagehop.ArgumentError, "."),
    "no columns": (X[:, :0], pagehop.ArgumentError, "0 dimensions"),
    "too many columns": (np.zeros((3, 4097), dtype=np.float32), pagehop.ArgumentError, "4097"),
    "text": (np.array([["a", "b"]]), pagehop.ArgumentError, "type"),
    "objects": (np.array([[None, {}]], dtype=object), pagehop.ArgumentError, "object"),
    "complex": (X.astype(np.complex64), pagehop.ArgumentError, "complex64"),
    "booleans": (X > 0, pagehop.ArgumentError, "bool"),
    "masked": (np.ma.masked_less(X, 0), pagehop.ArgumentError, "masked"),
    "ragged list": ([[1.0, 2.0], [3.0]], pagehop.ArgumentError, "array of numbers"),
    "nothing": (None, pagehop.ArgumentError, "type"),
    "double out of range": (X.astype(np.float64) * 1e300, pagehop.ArgumentError, "inf"),
}


@pytest.mark.parametrize("name", BAD_VECTORS)
def test_bad_vectors_are_refused(name: str, tmp_path: Path) -> None:
    vectors, error, text = BAD_VECTORS[name]
    with pytest.raises(error, match=text):
        pagehop.build(tmp_path / "x", vectors)
    assert list(tmp_path.iterdir()) == []


ROUNDED: dict[str, tuple[Any, str]] = {
    "double": (X.astype(np.float64) + 0.1, "row 0, component 0"),
    "double out of range": (X.astype(np.float64) * 1e300, "not a float32"),
    "large integer": (np.array([[1, 2], [3, 2**24 + 1]]), "row 1, component 1"),
    "very negative integer": (np.array([[1, 2], [np.iinfo(np.int64).min, 2]]), "row 1"),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_values_that_would_be_rounded_are_refused_if_strict(name: str, tmp_path: Path) -> None:
    vectors, text = ROUNDED[name]
    with pytest.raises(pagehop.ArgumentError, match=text):
        pagehop.build(tmp_path / "x", vectors, strict=True)
    assert list(tmp_path.iterdir()) == []


def test_doubles_are_rounded_as_numpy_rounds_them(tmp_path: Path) -> None:
    doubles = X.astype(np.float64) + 0.1
    floats = doubles.astype(np.float32)
    with pagehop.build(tmp_path / "x", doubles, write=True) as index, pagehop.build(tmp_path / "y", floats) as other:
        index.add(200, doubles[0] / 3)
        index.delete(200)
        for query, rounded in [(doubles, floats), (doubles[7], floats[7]), (doubles[7].tolist(), floats[7])]:
            found, expected = index.search(query), other.search(rounded, strict=True)
            np.testing.assert_array_equal(found.ids, expected.ids)
            np.testing.assert_array_equal(found.distances, expected.distances)
        assert index.search(doubles[:3].tolist()).ids.shape == (3, 10)
        uses: list[Callable[[], object]] = [
            lambda: index.search(doubles[0], strict=True),
            lambda: index.add(1, doubles[0], strict=True),
            lambda: index.calibrate(doubles, strict=True),
            lambda: index.recall(queries=doubles, strict=True),
        ]
        for use in uses:
            with pytest.raises(pagehop.ArgumentError, match="is not a float32; leave out strict=True"):
                use()


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "metric": ({"metric": "manhattan"}, "manhattan"),
    "metric type": ({"metric": 2}, "metric is 2"),
    "vectors": ({"vectors": "half"}, "vectors is 'half', it must be one of 'codes', 'float16', 'float32'"),
    "memory": ({"memory": "12 parsecs"}, "12 parsecs"),
    "memory sign": ({"memory": -1}, "memory is -1"),
    "memory type": ({"memory": 1.5}, "memory is 1.5"),
    "threads": ({"threads": -1}, "threads is -1"),
    "too many threads": ({"threads": 10**9}, "threads"),
    "seed": ({"seed": -1}, "seed is -1"),
    "seed too large": ({"seed": 2**64}, "seed"),
    "progress": ({"progress": 7}, "progress is 7"),
    "too few ids": ({"ids": [1, 2, 3]}, "3 ids for 200"),
    "duplicate ids": ({"ids": np.arange(200) // 2}, "."),
    "negative id": ({"ids": np.arange(200) - 150}, r"ids\[0\] is -150"),
    "huge id": ({"ids": np.arange(200, dtype=np.uint64) + np.uint64(2**63)}, r"ids\[0\]"),
    "fractional ids": ({"ids": np.arange(200) * 0.5}, "float64"),
    "ids in two dimensions": ({"ids": np.arange(200).reshape(2, 100)}, "2 dimensions"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options_are_refused(name: str, tmp_path: Path) -> None:
    options, text = BAD_OPTIONS[name]
    with pytest.raises(pagehop.ArgumentError, match=text):
        pagehop.build(tmp_path / "x", X, **options)
    assert list(tmp_path.iterdir()) == []


def test_the_zero_vector_has_no_direction(tmp_path: Path) -> None:
    zero = X.copy()
    zero[41] = 0
    with pytest.raises(pagehop.ArgumentError, match="41"):
        pagehop.build(tmp_path / "x", zero, metric="cosine")
    with pagehop.build(tmp_path / "y", X[X.any(1)], metric="cosine") as index, pytest.raises(pagehop.ArgumentError):
        index.search(np.zeros(8, dtype=np.float32))
    pagehop.build(tmp_path / "z", zero, metric="l2").close()


BAD_SEARCHES: dict[str, tuple[Callable[[pagehop.Index, Any], object], type[Exception], str]] = {
    "short query": (lambda ix, q: ix.search(q[0, 1:]), pagehop.DimensionError, "47"),
    "long queries": (lambda ix, q: ix.search(np.hstack([q, q])), pagehop.DimensionError, "96"),
    "three dimensions": (lambda ix, q: ix.search(q[None]), pagehop.ArgumentError, "3 dimensions"),
    "a number": (lambda ix, _: ix.search(3.0), pagehop.ArgumentError, "0 dimensions"),
    "nan": (lambda ix, _: ix.search(np.full(DIM, np.nan)), pagehop.ArgumentError, "NaN|nan"),
    "infinity": (lambda ix, _: ix.search(np.full((3, DIM), np.inf)), pagehop.ArgumentError, "inf"),
    "text": (lambda ix, _: ix.search("hello"), pagehop.ArgumentError, "type"),
    "both knobs": (
        lambda ix, q: ix.search(q, recall=0.9, slack=0.1),
        pagehop.ArgumentError,
        "recall cannot be given with",
    ),
    "bytes": (lambda ix, q: ix.search(q.tobytes()), pagehop.ArgumentError, "type"),
    "too many threads": (lambda ix, q: ix.search(q, threads=10**6), pagehop.ArgumentError, "threads is 1000000"),
    "k of none": (lambda ix, q: ix.search(q, k=0), pagehop.ArgumentError, "k is 0"),
    "negative k": (lambda ix, q: ix.search(q, k=-3), pagehop.ArgumentError, "k is -3"),
    "absurd k": (lambda ix, q: ix.search(q, k=2**70), pagehop.ArgumentError, "k is"),
    "fractional k": (lambda ix, q: ix.search(q, k=q[0, 0] + 0.5), pagehop.ArgumentError, "whole number"),
    "search_list": (lambda ix, q: ix.search(q, search_list=0), pagehop.ArgumentError, "search_list is 0"),
    "absurd search_list": (lambda ix, q: ix.search(q, search_list=10**9), pagehop.ArgumentError, "search_list"),
    "slack": (lambda ix, q: ix.search(q, slack=-0.5), pagehop.ArgumentError, "slack is -0.5"),
    "no slack": (lambda ix, q: ix.search(q, slack=float("nan")), pagehop.ArgumentError, "slack is (nan|NaN)"),
    "slack type": (lambda ix, q: ix.search(q, slack=q), pagehop.ArgumentError, "must be a number"),
    "beam_width": (lambda ix, q: ix.search(q, beam_width=-1), pagehop.ArgumentError, "beam_width is -1"),
    "absurd beam_width": (lambda ix, q: ix.search(q, beam_width=65), pagehop.ArgumentError, "beam_width is 65"),
    "threads": (lambda ix, q: ix.search(q, threads=-1), pagehop.ArgumentError, "threads is -1"),
    "a thread too many": (lambda ix, q: ix.search(q, threads=4097), pagehop.ArgumentError, "between 0 and 4096"),
}


@pytest.mark.parametrize("name", BAD_SEARCHES)
def test_bad_searches_are_refused(name: str, index: pagehop.Index, queries: Float32) -> None:
    search, error, text = BAD_SEARCHES[name]
    with pytest.raises(error, match=text) as caught:
        search(index, queries)
    assert isinstance(caught.value, (pagehop.Error, ValueError))
    assert len(index.search(queries[0]).ids) == 10


def test_a_bad_query_of_many_is_named(index: pagehop.Index, queries: Float32) -> None:
    bad = queries.copy()
    bad[31, 4] = np.nan
    with pytest.raises(pagehop.ArgumentError, match="query 31"):
        index.search(bad)


def test_the_same_vector_many_times(tmp_path: Path) -> None:
    same = np.repeat(X[:1], 10_000, axis=0)
    with pagehop.build(tmp_path / "x", same) as index:
        hits = index.search(X[0], k=20, search_list=50)
        assert len(set(hits.ids.tolist())) == 20
        np.testing.assert_allclose(hits.distances, 0, atol=1e-3)
        assert index.check().reachable == 10_000


def test_a_k_above_the_rows_gives_all_rows(tmp_path: Path) -> None:
    with pagehop.build(tmp_path / "x", X) as index:
        assert sorted(index.search(X[0], k=1000).ids.tolist()) == list(range(200))


def test_one_vector_is_an_index(tmp_path: Path) -> None:
    with pagehop.build(tmp_path / "x", X[:1]) as index:
        assert index.search(X[5], k=3).ids.tolist() == [0]


@pytest.mark.parametrize("dim", [1, 2, 3, 63, 65, 1000, 4096])
def test_any_dimension_works(dim: int, tmp_path: Path) -> None:
    x = np.random.default_rng(dim).normal(size=(300, dim)).astype(np.float32)
    with pagehop.build(tmp_path / "x", x) as index:
        assert recall(index.search(x[:50], k=5, search_list=300).ids, nearest(x, x[:50], 5)) >= 0.95


def test_files_that_are_not_an_index_are_refused(tmp_path: Path) -> None:
    contents = {"empty": b"", "short": b"x" * 100, "text": b"not an index " * 4000, "zeros": bytes(5 * 8192)}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(pagehop.Error, match=name):
            pagehop.open(tmp_path / name)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere") as caught:
        pagehop.open(tmp_path / "nowhere")
    assert isinstance(caught.value, pagehop.IoError)
    assert caught.value.errno == 2
    with pytest.raises(pagehop.IoError, match="folder"):
        pagehop.build(tmp_path / "no folder" / "x", X)
    with pytest.raises(pagehop.Error):
        pagehop.open(tmp_path)
    with pytest.raises(pagehop.ArgumentError, match="null"):
        pagehop.open("a\0b")
    with pytest.raises(pagehop.ArgumentError, match="path is 7"):
        pagehop.open(7)  # type: ignore[arg-type]
    with pytest.raises(pagehop.ArgumentError, match="cache"):
        pagehop.open(tmp_path / "nowhere", cache=-1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission_is_an_os_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(pagehop.IoError) as caught:
        pagehop.build(tmp_path / "x", X)
    assert caught.value.errno == 13


def test_a_truncated_file_is_refused(index_path: Path, tmp_path: Path) -> None:
    whole = index_path.read_bytes()
    for length in [1, 4096, 8191, 8192, 8193, len(whole) // 2, len(whole) - 8192, len(whole) - 1]:
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(pagehop.Error):
            pagehop.open(tmp_path / "cut").check()


def test_a_flipped_byte_is_found_and_its_page_named(index_path: Path, tmp_path: Path) -> None:
    whole = bytearray(index_path.read_bytes())
    random = np.random.default_rng(4)
    for at in random.integers(0, len(whole), 60).tolist():
        whole[at] ^= 1 << random.integers(8)
        (tmp_path / "flipped").write_bytes(whole)
        with pytest.raises((pagehop.CorruptIndexError, pagehop.FormatError)) as caught:
            pagehop.open(tmp_path / "flipped").check()
        if isinstance(caught.value, pagehop.CorruptIndexError):
            assert caught.value.page == at // 8192
        whole = bytearray(index_path.read_bytes())


OF_IDS: list[Callable[[pagehop.Index, Any], object]] = [
    lambda index, ids: index.delete(ids),
    lambda index, ids: index.pop(ids),
    lambda index, ids: index.get(ids),
    lambda index, ids: index.add(ids, X[5:7]),
    lambda index, ids: index.update_columns(ids, {"n": [7, 7]}),
    lambda index, ids: index.update_payload(ids, [b"y", b"y"]),
    lambda index, ids: index.search(X[0], where=ids),
]
"""Calls that take the ids of two rows."""


def test_masked_ids_are_refused_and_change_nothing(tmp_path: Path) -> None:
    texts = np.array([f"row {n}" for n in range(200)])
    for name, ids in [("numbers", np.arange(200)), ("texts", texts)]:
        path = tmp_path / name
        index = pagehop.build(path, X, ids, columns={"n": np.arange(200)}, payload=[b"x"] * 200, write=True)
        # What is under the mask is an id of the index, and so is what is beside it.
        masked = np.ma.array(ids[:2], mask=[False, True])
        for given in (masked, masked.astype(object), np.ma.array(ids[:2])):
            for call in OF_IDS:
                with pytest.raises(pagehop.ArgumentError, match="is a masked array; fill or drop its masked values"):
                    call(index, given)
            with pytest.raises(pagehop.ArgumentError, match="ids is a masked array"):
                pagehop.build(tmp_path / "new", X[:2], given)
        with pytest.raises(pagehop.ArgumentError, match="where is a masked array"):
            index.search(X[0], where=np.ma.array(np.ones(200, bool), mask=np.arange(200) < 100))
        assert len(index) == 200
        assert len(index.search(X[0], k=300, where="n <> 7").ids) == 199
        assert index.get(ids, payload=True)[1] == [b"x"] * 200
        assert not (tmp_path / "new").exists()


def test_lists_of_several_lengths_are_no_ids(tmp_path: Path) -> None:
    index = pagehop.build(tmp_path / "x", X, columns={"n": np.arange(200)}, payload=[b"x"] * 200, write=True)
    for call in OF_IDS:
        with pytest.raises(pagehop.ArgumentError):
            call(index, [[1], [1, 2]])
    assert len(index) == 200


def test_errors_about_an_index_name_it(tmp_path: Path) -> None:
    path = tmp_path / "items"
    calls: list[Callable[[pagehop.Index], object]] = [
        lambda index: index.search([1, 2, 3]),
        lambda index: index.search(np.ones((2, 3), np.float32)),
        lambda index: index.recall(queries=[[1, 2, 3]]),
        lambda index: index.add([1], [[1, 2, 3]]),
        lambda index: index.get(["a"]),
        lambda index: index.get([7]),
        lambda index: index.search([1] * DIM, where="missing = 3"),
    ]
    with pagehop.create(path, DIM) as index:
        for call in calls:
            with pytest.raises(pagehop.Error, match=f"^{re.escape(str(path))}: "):
                call(index)
    with pytest.raises(pagehop.ArgumentError, match=f"^{re.escape(str(path))}: the index is closed"):
        index.search([1] * DIM)
    with pytest.raises(pagehop.IoError, match=f"^cannot open {re.escape(str(path))}-not: "):
        pagehop.open(f"{path}-not")
