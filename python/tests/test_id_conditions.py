"""Ids and masks inside of conditions, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pagehop
from oracle import nearest
from pagehop import column, ids

ROWS, DIM = 2000, 16
X = np.random.default_rng(5).standard_normal((ROWS, DIM)).astype(np.float32)
TOPIC = np.random.default_rng(6).integers(0, 8, ROWS)
EVEN = np.arange(ROWS) % 2 == 0
FEW = np.isin(np.arange(ROWS), [3, 700, 701, 1999])
PRICE = np.where(np.arange(ROWS) % 7 == 0, np.nan, TOPIC)
"""Missing for each seventh row."""


def built(path: Path, row_ids: Any = None) -> pagehop.Index:
    return pagehop.build(path, X, row_ids, columns={"topic": TOPIC, "price": PRICE}, overwrite=True)


def found_all(index: pagehop.Index, where: Any, mask: npt.NDArray[np.bool_], names: Any) -> None:
    """An exact search finds the nearest rows of the mask. A default search finds as many of it."""
    rows = np.flatnonzero(mask)
    count = min(10, len(rows))
    for query in X[:2] + 0.1:
        exact, usual = (index.search(query, where=where, recall=recall).ids for recall in (1, None))
        near = rows[nearest(X[rows], query[np.newaxis], count)[0]] if count else []
        assert set(exact) == {names[row] for row in near}
        assert len(set(usual)) == count
        assert set(usual) <= {names[row] for row in rows}


def cases(of: Callable[[npt.NDArray[np.bool_]], Any]) -> list[tuple[pagehop.Condition, npt.NDArray[np.bool_]]]:
    """Conditions, and the rows that pass; `of` is what `ids` takes for the rows of a mask."""
    even, few = ids(of(EVEN)), ids(of(FEW))
    seven, cheap = TOPIC == 7, PRICE < 3
    return [
        (even, EVEN),
        (~few, ~FEW),
        (even & (column("topic") == 7), EVEN & seven),
        ((column("topic") == 7) | few, seven | FEW),
        (~even & (column("topic") == 7), ~EVEN & seven),
        (~(even | (column("price") < 3)), ~EVEN & (PRICE >= 3)),
        (~(even & (column("price") < 3)), ~EVEN | (PRICE >= 3)),
        (even & few, EVEN & FEW),
        (few | (~even & (column("price") < 3) & ~few), FEW | (~EVEN & cheap)),
        (few & column("price").is_null(), FEW & np.isnan(PRICE)),
        (~~few, FEW),
        (few & ~few, FEW & False),
        (few | ~few, FEW | True),
    ]


def test_ids_join_conditions(tmp_path: Path) -> None:
    index = built(tmp_path / "x")
    forms: list[Callable[[npt.NDArray[np.bool_]], Any]] = [
        np.flatnonzero,
        lambda mask: mask,
        lambda mask: np.flatnonzero(mask).tolist(),
        # With others that no row has, in another order, and twice.
        lambda mask: (n for n in [10**9, *np.flatnonzero(mask)[::-1].tolist(), *np.flatnonzero(mask)[:3].tolist()]),
    ]
    for of in forms:
        for where, mask in cases(of):
            found_all(index, where, mask, np.arange(ROWS))


def test_text_ids_join_conditions(tmp_path: Path) -> None:
    names = [f"row {number}" for number in range(ROWS)]
    index = built(tmp_path / "x", names)
    forms: list[Callable[[npt.NDArray[np.bool_]], Any]] = [
        lambda mask: [names[row] for row in np.flatnonzero(mask)],
        lambda mask: np.array(names)[mask],
        lambda mask: ["absent", *(names[row] for row in np.flatnonzero(mask)[::-1]), names[np.argmax(mask)]],
    ]
    for of in forms:
        for where, mask in cases(of):
            found_all(index, where, mask, names)
    for wrong in ([1, 2], np.arange(3), EVEN, EVEN & False):
        with pytest.raises(pagehop.ArgumentError, match=r"this index has text ids, and ids\[0\] is"):
            index.search(X[0], where=ids(wrong) & (column("topic") == 7))
    with pytest.raises(pagehop.ArgumentError, match="this index has int ids, and text ids were given"):
        built(tmp_path / "y").search(X[0], where=~ids(["a"]))


def test_no_ids_pass_nothing_in_an_index_of_either_kind(tmp_path: Path) -> None:
    for name, row_ids in (("numbers", None), ("texts", [str(number) for number in range(ROWS)])):
        index = built(tmp_path / name, row_ids)
        nothing: list[Any] = [[], (), np.array([], np.int64)]
        for none in nothing:
            assert len(index.search(X[0], where=ids(none)).ids) == 0
            assert len(index.search(X[0], where=ids(none) | (column("topic") == 7)).ids) == 10
            assert len(index.search(X[0], where=~ids(none)).ids) == 10


def test_rows_beyond_a_mask_are_not_in_it(tmp_path: Path) -> None:
    index = built(tmp_path / "x")
    few = ids(np.ones(3, bool))
    assert set(index.search(X[0], where=few).ids) == {0, 1, 2}
    found_all(index, ~few, np.arange(ROWS) >= 3, np.arange(ROWS))


def test_a_condition_keeps_the_ids_that_it_was_made_of(tmp_path: Path) -> None:
    index = built(tmp_path / "x")
    array, mask, listed = np.array([1, 2]), np.arange(4) == 1, [1, 2]
    conditions = [ids(array), ids(mask), ids(listed)]
    array[:] = 7
    mask[:] = True
    listed.append(7)
    assert [sorted(index.search(X[0], where=where).ids) for where in conditions] == [[1, 2], [1], [1, 2]]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (5, r"ids\(5\): give a list"),
        ("row 1", r"ids\('row 1'\): give a list"),
        (column("topic"), r"ids\(column\('topic'\)\): give a list"),
        (column("topic") == 7, "give a list"),
        (np.array(5), "it must be ids or a mask"),
        ([0.5], r"ids is \[0.5\], it must be ids or a mask"),
        ([[1], [1, 2]], "it must be ids or a mask"),
        (["a", 7], r"ids\[1\] is 7"),
        ([-1], r"ids\[0\] is -1"),
        (np.ones((2, 2), bool), "ids is a mask of 2 dimensions"),
        (np.ones((2, 2), int), "ids has 2 dimensions"),
        (np.ma.array([1, 2], mask=[True, False]), "ids is a masked array"),
    ],
)
def test_what_is_neither_ids_nor_a_mask_is_refused(given: Any, text: str) -> None:
    with pytest.raises(pagehop.ArgumentError, match=text):
        ids(given)


def test_ids_far_below_are_refused_for_their_depth(tmp_path: Path) -> None:
    index = built(tmp_path / "x")
    where = ids([1])
    for depth in range(1, 3000):
        where = ~where
        if depth == 62:
            assert list(index.search(X[0], where=where).ids) == [1]
        if depth in (64, 65, 2999):
            with pytest.raises(pagehop.ArgumentError, match="64 deep"):
                index.search(X[0], where=where)
    with pytest.raises(pagehop.ArgumentError, match="must be a condition, its text, ids or a mask"):
        index.search(X[0], where=[[1], [1, 2]])
