"""Row ids: arguments as the engine takes them, and the ids of an index in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pagehop import _pagehop
from pagehop.arrays import Float32, Int64, UInt64, as_array, as_float32, is_utf8, refuse_masked
from pagehop.errors import ArgumentError, DimensionError

RowIds: TypeAlias = UInt64 | list[str]

_ID_MAX = (1 << 63) - 1


def as_ids(ids: Any) -> UInt64:
    """`ids` as row ids: whole numbers from 0 to 2**63 - 1, so that results hold them as int64."""
    refuse_masked("ids", ids)
    array = _as_array(ids)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.uint64)
    if array.dtype.kind not in "iu":
        raise ArgumentError(f"ids has type {array.dtype}, it must be an integer type")
    if array.ndim != 1:
        raise ArgumentError(f"ids has {array.ndim} dimensions, it must have one")
    wrong = array < 0 if array.dtype.kind == "i" else array > np.iinfo(np.int64).max
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ArgumentError(f"ids[{at}] is {array[at]}, it must be between 0 and 2**63 - 1")
    return np.ascontiguousarray(array, dtype=np.uint64)


def as_row_ids(ids: Any, texts: bool, path: str | None) -> RowIds:
    """`ids`, several or one, as row ids of the index at `path`, whose ids are texts, or are not."""
    if texts:
        return as_text_ids(ids, path)
    if are_texts(ids):
        raise ArgumentError(f"{path}: this index has int ids, and text ids were given")
    return as_ids(np.atleast_1d(_as_array(ids)))


def _as_array(ids: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(ids)
    except ValueError as error:
        raise ArgumentError(f"ids cannot be made an array: {error}") from None


def are_texts(ids: Any) -> bool:
    """Whether `ids`, several or one, are texts: whether the first is."""
    refuse_masked("ids", ids)
    if isinstance(ids, np.ndarray) and ids.dtype.kind != "O":
        return ids.dtype.kind in "UT"
    if isinstance(ids, (str, np.ndarray)):
        return isinstance(ids, str) or (bool(ids.size) and isinstance(ids.flat[0], str))
    try:
        return isinstance(next(iter(ids), None), str)
    except TypeError:
        return False


def as_text_ids(ids: Any, path: str | None = None) -> list[str]:
    """`ids`, several or one, as texts: for a build, or for the index at `path`."""
    refuse_masked("ids", ids)
    about = "ids are texts" if path is None else f"{path}: this index has text ids"
    # NumPy's arrays of text drop null characters at the end, so no list becomes one.
    if isinstance(ids, str):
        ids = [ids]
    if isinstance(ids, np.ndarray) and ids.ndim != 1:
        raise ArgumentError(f"ids has {ids.ndim} dimensions, it must have one")
    try:
        texts = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    except TypeError:
        raise ArgumentError(f"{about}, and ids is {ids!r:.80}") from None
    for at, text in enumerate(texts if isinstance(texts, list) else [texts]):
        if not isinstance(text, str):
            raise ArgumentError(f"{about}, and ids[{at}] is {text!r:.80}")
        if not is_utf8(text):
            raise ArgumentError(f"ids[{at}] is {text!r:.80}, which UTF-8 cannot encode")
    return [str(text) for text in texts]


def as_objects(values: list[Any]) -> npt.NDArray[Any]:
    """A list of texts, or None, as an array of objects."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def as_rows(ids: Any, vectors: Any, dim: int, *, texts: bool, path: str, strict: bool) -> tuple[RowIds, Float32]:
    """`ids` and `vectors` as rows of the index at `path`, of `dim` components: one of each, or a
    matrix and its ids.
    """
    numbers = as_row_ids(ids, texts, path)
    array = as_array("vectors", vectors)
    if array.ndim not in (1, 2):
        raise ArgumentError(f"vectors has {array.ndim} dimensions, it must be one vector or a matrix")
    if array.ndim == 1:
        array = array.reshape(-1, dim) if array.size == 0 and len(numbers) == 0 else array[np.newaxis]
    if array.shape[1] != dim:
        what = f"{path}: the index has {dim} dimensions, the vectors have {array.shape[1]}"
        raise DimensionError(what, dim, array.shape[1])
    if len(numbers) != len(array):
        raise ArgumentError(f"there are {len(numbers)} ids for {len(array)} vectors")
    return numbers, as_float32("vectors", array, strict=strict)


def int_batches(index: _pagehop.Index, count: int) -> Iterator[Int64]:
    """The ids of an index in ascending order, in arrays of up to `count`."""
    first = 0
    while first <= _ID_MAX:
        ids = np.frombuffer(index.ids(first, count), np.int64)
        if not len(ids):
            return
        if ids[-1] < 0:
            raise ArgumentError(f"row id {ids[-1:].view(np.uint64)[0]} was found; Python holds ids below 2**63 only")
        first = int(ids[-1]) + 1
        yield ids


def text_batches(index: _pagehop.Index, count: int) -> Iterator[npt.NDArray[Any]]:
    """The text ids of an index, in arrays of up to `count`."""
    first: int | None = 0
    while first is not None:
        texts, first = index.text_ids(first, count)
        for start in range(0, len(texts), count):
            yield as_objects(texts[start : start + count])
