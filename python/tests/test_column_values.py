"""Values of columns and of conditions, in the forms that NumPy, Arrow and Python have for them."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagehop

X = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)


def rows_of(index: pagehop.Index, where: Any) -> list[int]:
    """The ids of the rows that pass."""
    return sorted(index.search(X[0], k=len(X), where=where).ids.tolist())


def test_masked_values_are_missing(tmp_path: Path) -> None:
    mask = [False, True, False, True]
    uuids = [uuid.UUID(int=number) for number in (1, 2, 3, 4)]
    forms: dict[str, tuple[str, Any]] = {
        "objects": ("text", ["a", "b", "c", "d"]),
        "numbers": ("int", [1, 2, 3, 4]),
        # The masked value is beyond what an int holds.
        "unsigned": ("int", np.array([1, 1 << 63, 3, 4], np.uint64)),
        "floats": ("float", [1.5, np.nan, 2.5, 3.5]),
        "times": ("timestamp", [np.datetime64("2024-01-01"), np.datetime64("300000-01-01")] * 2),
        "tags": ("tags", [["a"], ["b"], ["c"], []]),
        "uuids": ("uuid", uuids),
        "texts": ("uuid", [str(value) for value in uuids]),
    }
    for name, (kind, values) in forms.items():
        plain = np.empty(4, dtype=object)
        plain[:] = values
        arrays: list[Any] = [np.ma.array(plain, mask=mask)]
        if name not in ("tags", "uuids"):
            arrays.append(np.ma.array(values, mask=mask))
        # As list() of a masked array gives them.
        arrays.append([np.ma.masked if gone else value for value, gone in zip(values, mask, strict=True)])
        for array in arrays:
            with pagehop.create(tmp_path / "x", 8, columns={"a": kind}, overwrite=True) as index:
                index.add(range(4), X, columns={"a": array})
                column = pagehop.column("a")
                assert rows_of(index, column.is_null()) == [1, 3], (name, array)
                if kind != "tags":
                    found = [rows_of(index, column == values[row]) for row in (0, 2)]
                    assert found == ([[0, 2]] * 2 if name == "times" else [[0], [2]]), (name, array)
    over = np.ma.array([1, 1 << 63, 1 << 63, 4], mask=[True, False, False, False], dtype=np.uint64)
    with pytest.raises(pagehop.ArgumentError, match="row 1: 9223372036854775808 is above"):
        pagehop.build(tmp_path / "y", X, columns={"a": over})
